"""Read exports of questions with answers: JSON Lines and CSV.

Role: one file in, one small page a question out, for sources of kind ``tickets``. Personal data and
secrets are taken out here, before anything else sees the text: e-mail addresses, telephone numbers,
user names in home paths, names in greetings and everything after a closing formula.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.base import ReadResult, as_text, decode_text
from hpcllm.corpus.redact import redact
from hpcllm.errors import IngestError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

logger = logging.getLogger(__name__)

SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv")

FIELDS: dict[str, tuple[str, ...]] = {
    "question": ("question", "body", "description", "problem", "pergunta"),
    "answer": ("answer", "resolution", "solution", "reply", "response", "resposta"),
    "title": ("title", "subject", "summary", "assunto", "título"),
    "date": ("date", "created", "created_at", "closed", "closed_at", "updated_at", "data"),
    "tags": ("tags", "labels", "categories", "category", "keywords", "queue"),
    "id": ("id", "key", "number", "ticket", "ticket_id"),
    "url": ("url", "link"),
}
"""What a ticket has, and under which names exports of ticket systems hold it."""

FIELD_LIMIT = 200_000
"""Characters of one field past which a ticket is left out: an attached log, not a question."""

TITLE_CHARACTERS = 120

CLOSINGS = re.compile(
    r"^\s*(?:(?:with )?(?:kind|best|many|warm|kindest)?[ -]*(?:regards|wishes|thanks)|cheers|thanks"
    r"(?: (?:a lot|in advance|so much|again))?|thank you(?: (?:very much|in advance|so much))?"
    r"|sincerely|yours(?: \w+)?|br|rgds|atenciosamente|att|abraços|obrigad[oa]"
    r"|mit freundlichen grüßen|viele grüße|cordialement|saludos)\s*[,.!–-]*\s*$",
    re.IGNORECASE,
)
SIGNATURE = re.compile(r"^-- ?$")
GREETING = re.compile(
    r"^\s*(?P<word>dear|hi|hello|hey|good (?:morning|afternoon|evening)|olá|oi|prezad[oa]s?"
    r"|caro|cara|hallo|liebe[r]?|bonjour|hola)\b[^\n]{0,60}?(?:[,!:]\s*$|\s*$|, (?=[A-ZÀ-Ý]))",
    re.IGNORECASE,
)
QUOTED_MAIL = re.compile(
    r"^\s*(?:on .{5,120} wrote:|-{2,} ?(?:original message|forwarded message).*"
    r"|em .{5,120} escreveu:|from: .*@.*)\s*$",
    re.IGNORECASE,
)
SIGNATURE_LINES = 8
"""Most lines after a closing formula that are taken for a signature."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One question with its answer, redacted.

    Attributes:
        path: the export's name and the ticket's number in it.
        line: line of the export from 1.
        result: as any page.
        url: where it can be read, or None.
        removed: kinds of what was taken out, each as often as it occurred.
    """

    path: str
    line: int
    result: ReadResult
    url: str | None
    removed: tuple[str, ...]


def read_export(
    data: bytes, path: str, fields: Mapping[str, str]
) -> Iterator[Ticket | tuple[int, str]]:
    """Yield the tickets of an export, and (line, reason) for each that cannot be used.

    Args:
        data: content of the file.
        path: its name; the suffix tells the format.
        fields: names of the fields in this export (``{"question": "body"}``); usual ones are
            found by themselves.

    Raises:
        IngestError: the file is neither of the formats, or has no field for questions.
    """
    suffix = path[path.rfind(".") :].lower()
    if suffix not in SUFFIXES:
        raise IngestError(f"{path}: expected one of {' '.join(SUFFIXES)}, got {suffix or 'none'}")
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        raise IngestError(
            f"{path}: unknown field {unknown[0]!r} in options.fields{nearest(unknown[0], FIELDS)}; "
            f"known: {', '.join(FIELDS)}"
        )
    text = decode_text(data, path)
    rows = _json_rows(text) if suffix in (".jsonl", ".ndjson") else _csv_rows(text, suffix, path)
    for line, row in rows:
        if isinstance(row, str):
            yield line, row
            continue
        values = {name: _value(row, name, fields.get(name)) for name in FIELDS}
        yield _ticket(path, line, values)


def _json_rows(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as exc:
            yield number, f"is no JSON ({exc})"
            continue
        yield (
            number,
            row if isinstance(row, dict) else f"is no JSON object but {type(row).__name__}",
        )


def _csv_rows(text: str, suffix: str, path: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    csv.field_size_limit(10_000_000)
    head = text.split("\n", 1)[0]
    delimiter = "\t" if suffix == ".tsv" else max(",;\t", key=head.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 2
    try:
        for row in reader:
            yield line, {str(key): value for key, value in row.items() if key is not None}
            line = reader.line_num + 1
    except csv.Error as exc:
        yield line, f"is no valid CSV from here on ({exc})"


def _value(row: Mapping[str, Any], name: str, given: str | None) -> str:
    lowered = {str(key).strip().lower(): value for key, value in row.items()}
    for candidate in (given.lower(),) if given else FIELDS[name]:
        value = lowered.get(candidate)
        if value not in (None, "", []):
            return as_text(value) if name not in ("question", "answer") else _body(value)
    return ""


def _body(value: Any) -> str:
    """Return a question or an answer, whose line ends matter, as text."""
    return str(value).replace("\r\n", "\n").replace("\r", "\n").strip()


def _ticket(path: str, line: int, values: Mapping[str, str]) -> Ticket | tuple[int, str]:
    if not (values["question"] or values["title"]) or not values["answer"]:
        missing = "answer" if not values["answer"] else "question"
        return line, f"has no {missing}: name its field with options.fields.{missing}"
    if max(map(len, values.values())) > FIELD_LIMIT:
        return line, f"is longer than {FIELD_LIMIT} characters: leave attached logs out"
    removed: list[str] = []
    question = _clean(values["question"] or values["title"], removed)
    answer = _clean(values["answer"], removed)
    title = _clean(values["title"], removed) or question.lstrip().split("\n", 1)[0]
    title = " ".join(title.lstrip("# ").split())[:TITLE_CHARACTERS].strip() or f"Ticket {line}"
    when = _date(values["date"])
    facts = {"tags": _clean(values["tags"], removed), "date": when, "kind": "ticket"}
    number = re.sub(r"[^\w.-]+", "-", values["id"]).strip("-")[:60] or str(line)
    body = f"# {_escaped(title)}\n\n{_demoted(question)}\n\n## Answer\n\n{_demoted(answer)}\n"
    if when:
        body += f"\nAnswered on {when}.\n"
    result = ReadResult(title, body, metadata={key: value for key, value in facts.items() if value})
    url = values["url"] if values["url"].startswith(("https://", "http://")) else None
    return Ticket(f"{path}/{number}", line, result, url, tuple(removed))


def _clean(text: str, removed: list[str]) -> str:
    """Return text without secrets, personal data, greetings, signatures and quoted mails."""
    cleaned, findings = redact(_without_signature(text), personal=True)
    removed += [finding.kind for finding in findings]
    return cleaned.strip()


def _without_signature(text: str) -> str:
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if QUOTED_MAIL.match(line) or SIGNATURE.match(line):
            lines = lines[:index]
            break
    for index in range(len(lines) - 1, max(len(lines) - SIGNATURE_LINES - 1, 0), -1):
        if CLOSINGS.match(lines[index]):
            lines = lines[:index]
            break
    if lines and (match := GREETING.match(lines[0])):
        lines[0] = lines[0][match.end() :]
    return "\n".join(lines).strip()


def _demoted(text: str) -> str:
    """Return text whose headings stand below the page's, so that it cannot pose as one."""
    inside = False
    lines = []
    for line in text.split("\n"):
        if re.match(r"\s*(?:```|~~~)", line):
            inside = not inside
        lines.append(line if inside else re.sub(r"^#{1,6}(?=\s)", "###", line))
    return "\n".join([*lines, "```"] if inside else lines)


def _escaped(title: str) -> str:
    return re.sub(r"\s*\{#[^}]*\}\s*$", "", title)


def _date(text: str) -> str:
    """Return the day in ISO form where the text begins with one, else an empty string."""
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y"):
        try:
            return datetime.strptime(text.strip()[:10], form).date().isoformat()
        except ValueError:
            continue
    if text.strip().isdecimal() and len(text.strip()) == 10:
        return date.fromtimestamp(int(text)).isoformat()
    return ""
