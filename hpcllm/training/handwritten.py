"""The hand-written part: natural questions with the answers that good support staff give.

Role: reads ``training/questions/*.jsonl``. A line holds the question, the answer and a pointer to
the page and heading that it stands in; the page's own text is taken from the index when the set is
built, and is never kept with the questions.

Fields of a line: ``question``, ``answer`` (Markdown, may end in a fenced block; no citation marks),
``source``, ``path``, ``heading``; optional ``facts`` (strings of the page that the answer must
hold), ``kind``, ``language``, ``history`` (list of ``{"role", "text"}``), ``answerable`` (false
for a question that the page leaves open: no ``answer`` then; so are the kinds ``unanswerable`` and
``unanswerable_near``), ``id``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.assistant.language import detect_language, subject_words
from hpcllm.assistant.units import Unit, split_units
from hpcllm.corpus.blocks import parse_blocks
from hpcllm.errors import TrainingError, nearest
from hpcllm.records import Turn
from hpcllm.training.assembly import Dropped, key_facts, squash
from hpcllm.training.records import Seed, Statement
from hpcllm.training.sections import clean_heading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hpcllm.records import Document

FIELDS = (
    "id",
    "question",
    "answer",
    "facts",
    "source",
    "path",
    "heading",
    "kind",
    "language",
    "history",
    "answerable",
)
QUOTED_UNITS = 4
"""Most pieces of a page that one answer rests on."""
_FENCE = re.compile(r"\n?```(\w*)\n(.*?)\n```\s*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class HandwrittenQuestion:
    """One line of the hand-written part; see the module's text for the fields."""

    id: str
    question: str
    answer: str
    source: str
    path: str
    heading: str
    kind: str
    facts: tuple[str, ...] = ()
    language: str = ""
    history: tuple[Turn, ...] = ()


def read_handwritten(folder: Path) -> list[HandwrittenQuestion]:
    """Read all ``*.jsonl`` of a folder in the order of their names.

    Raises:
        TrainingError: a file cannot be read, or lines are wrong; all problems are listed.
    """
    found: list[HandwrittenQuestion] = []
    problems: list[str] = []
    for file in sorted(folder.glob("*.jsonl")):
        try:
            lines = file.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as exc:
            raise TrainingError(f"{file} cannot be read: {exc}; save it as UTF-8 text") from exc
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found.append(_question(json.loads(line), f"{file.stem}-{number}"))
            except ValueError as exc:
                problems.append(f"{file.name} line {number}: {exc}")
    if problems:
        listed = "\n  - ".join(problems)
        raise TrainingError(f"{len(problems)} line(s) of {folder} are wrong:\n  - {listed}")
    return found


def _question(row: Any, default_id: str) -> HandwrittenQuestion:
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, got {type(row).__name__}")
    for name in row:
        if name not in FIELDS:
            raise ValueError(f"unknown field {name!r}{nearest(name, FIELDS)}")
    kind = row.get("kind") or "natural"
    answerable = row.get("answerable", not kind.startswith("unanswerable"))
    needed = ["question", "source", *(["answer", "path"] if answerable else [])]
    for name in needed:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise ValueError(f"{name!r} must be a text that is not empty, got {row.get(name)!r}")
    try:
        history = tuple(Turn(turn["role"], turn["text"]) for turn in row.get("history") or ())
    except (TypeError, KeyError) as exc:
        raise ValueError("history must be a list of {role, text}") from exc
    return HandwrittenQuestion(
        id=str(row.get("id") or default_id),
        question=row["question"].strip(),
        answer=row["answer"].strip() if answerable else "",
        source=row["source"],
        path=row.get("path", ""),
        heading=row.get("heading", ""),
        kind=kind,
        facts=tuple(row.get("facts") or ()),
        language=row.get("language", ""),
        history=history,
    )


def resolve(question: HandwrittenQuestion, document: Document | None) -> Seed:
    """Return the seed of a question, with the lines of the page that its answer rests on.

    Raises:
        Dropped: the page or its heading is not in the index any more, or the page does not hold
            the answer's facts.
    """
    language = question.language or detect_language(question.question)
    statement: tuple[Statement, ...] = ()
    if question.answer:
        if document is None:
            raise Dropped("page is not in the index")
        statement = (_statement(question, document),)
    return Seed(
        kind=f"hand_{question.kind}",
        source=question.source,
        path=question.path,
        question=question.question,
        statements=statement,
        language="pt" if language.startswith("pt") else "en",
        cluster=document.cluster if document else None,
        history=question.history,
        topic=clean_heading(question.heading),
    )


def _statement(question: HandwrittenQuestion, document: Document) -> Statement:
    text, code, code_language = question.answer, "", ""
    if match := _FENCE.search(text):
        text = text[: match.start()].strip()
        code_language, code = match.group(1) or "bash", match.group(2)
    draft = Seed("", "", "", question.question, (Statement(text, "", code),))
    facts = set(question.facts) or {
        fact for fact in key_facts(draft) if squash(fact) in squash(document.text)
    }
    units = _units_under(document, question.heading)
    wanted = subject_words(f"{question.answer} {' '.join(question.facts)}")
    quote = _quote(units, facts, wanted)
    if not quote:
        raise Dropped("no line of the page supports the answer")
    return Statement(text, quote, code, code_language)


def _units_under(document: Document, heading: str) -> Sequence[Unit]:
    """Return the units of the page under a heading; of the whole page where it has none such."""
    lines = document.text.split("\n")
    headings = [block for block in parse_blocks(document.text) if block.kind == "heading"]
    wanted = clean_heading(heading).casefold()
    named = [h for h in headings if wanted and clean_heading(h.label).casefold() == wanted]
    if not named:
        return split_units(document.text)
    start = named[0]
    ends = [h.line for h in headings if h.line > start.line and h.level <= start.level]
    return split_units("\n".join(lines[start.line : (ends[0] - 1 if ends else len(lines))]))


def _quote(units: Sequence[Unit], facts: set[str], wanted: frozenset[str]) -> str:
    """Return the lines that hold the facts; without facts, those that share most words."""
    left = set(facts)
    chosen: list[Unit] = []
    while len(chosen) < QUOTED_UNITS and (left or not chosen):
        best, score = None, 0.0
        for unit in units:
            if unit in chosen:
                continue
            held = sum(squash(fact) in squash(f"{unit.lead} {unit.text}") for fact in left)
            shared = len(wanted & subject_words(f"{unit.lead} {unit.text}")) / (len(wanted) or 1)
            if held + shared > score and (held or not chosen):
                best, score = unit, held + shared
        if best is None:
            break
        chosen.append(best)
        left = {f for f in left if squash(f) not in squash(f"{best.lead} {best.text}")}
    ordered = sorted(chosen, key=lambda unit: unit.position)
    return "\n".join(_own_lines(unit) for unit in ordered)


def _own_lines(unit: Unit) -> str:
    """Return the unit's own lines: a row without its table's header."""
    return unit.quote.split("\n")[-1] if unit.kind == "row" else unit.quote
