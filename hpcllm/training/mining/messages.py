"""Error messages with what they mean and what helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.assistant.units import clean_inline, split_row, split_sentences
from hpcllm.corpus.blocks import DELIMITER_ROW
from hpcllm.training.mining.texts import (
    STATEMENT_WORDS,
    is_clean,
    points_elsewhere,
    seed,
    with_stop,
)
from hpcllm.training.records import Statement
from hpcllm.training.wording import phrase

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from hpcllm.corpus.blocks import Block
    from hpcllm.training.records import Section, Seed

MESSAGE_CHARACTERS = 260
"""Longest message that is quoted."""
_LEAD = re.compile(r"^(?:[-*]\s+)?\*\*(?P<lead>.{8,160}?)\*\*[.:]?\s+(?P<rest>\S.+)$")
_ERROR = re.compile(
    r"error|fail|denied|exceeded|not found|cannot|can't|invalid|killed|refused|no such|unable|"
    r"timed? ?out|segmentation|abort|unknown|missing|violat|erro\b|falh|negad|excedid|inválid|"
    r"oom|core dump|unrecogni[sz]ed|not permitted|unavailable",
    re.IGNORECASE,
)
_ERROR_LINE = re.compile(
    r"\b(?:error|fatal|denied|exceeded|not found|cannot|killed|refused|no such|unable|abort\w*|erro|"
    r"negad\w|excedid\w)\b",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(r"^(?:#|\$ |sudo |export |srun |sbatch |module |pip |conda )")
_ERROR_COLUMN = re.compile(
    r"message|error|symptom|problem|reason|exit|signal|state|output|mensagem|erro|motivo|sintoma|código",
    re.IGNORECASE,
)
_REMEDY_COLUMN = re.compile(
    r"what to do|remedy|fix|cure|solution|action|cause|meaning|do\b|solução|o que fazer|significado|causa",
    re.IGNORECASE,
)


def mine_messages(section: Section, rng: random.Random) -> Iterator[Seed]:
    """Yield the messages of a section with their remedies."""
    for number, block in enumerate(section.blocks):
        if block.kind in ("text", "list"):
            yield from _leads(section, block, rng)
        elif block.kind == "table":
            yield from _rows(section, block.lines, rng)
        elif block.kind == "fence":
            after = section.blocks[number + 1] if number + 1 < len(section.blocks) else None
            yield from _fence(section, block, after, rng)
    yield from _heading(section, rng)


def _leads(section: Section, block: Block, rng: random.Random) -> Iterator[Seed]:
    """Bold starts of paragraphs that quote a message or a symptom."""
    lines = (
        [" ".join(line.strip() for line in block.lines)] if block.kind == "text" else block.lines
    )
    for line in lines:
        match = _LEAD.match(line.strip())
        if not match or not (_ERROR.search(match.group("lead")) or "`" in match.group("lead")):
            continue
        text, quote = _short(match.group("rest"))
        if text:
            message = clean_inline(match.group("lead")).rstrip(".:")
            yield _seed(section, message, Statement(text, quote), rng)


def _rows(section: Section, lines: Sequence[str], rng: random.Random) -> Iterator[Seed]:
    header = split_row(lines[0])
    if len(header) < 2 or not _ERROR_COLUMN.search(header[0]):
        return
    for line in lines[2:]:
        cells = split_row(line)
        if DELIMITER_ROW.match(line) or len(cells) < 2 or not _ERROR.search(cells[0]):
            continue
        named = [(header[i], cells[i]) for i in range(1, min(len(header), len(cells))) if cells[i]]
        wanted = [cell for name, cell in named if _REMEDY_COLUMN.search(name)]
        text = " ".join(with_stop(cell[:1].upper() + cell[1:]) for cell in wanted[:2])
        if text and is_clean(text) and len(text.split()) <= STATEMENT_WORDS:
            yield _seed(section, cells[0], Statement(text, line), rng)


def _fence(
    section: Section, block: Block, after: Block | None, rng: random.Random
) -> Iterator[Seed]:
    """A quoted message, answered by the paragraph after it."""
    lines = [line.strip() for line in block.lines[1:] if line.strip() and line.strip("`~ ")]
    if not lines or len(lines) > 4 or not _ERROR_LINE.search(" ".join(lines)):
        return
    if after is None or after.kind != "text" or any(_NO_ERROR.match(line) for line in lines):
        return
    text, quote = _short(" ".join(line.strip() for line in after.lines))
    if text:
        yield _seed(section, "\n".join(lines), Statement(text, quote), rng)


def _heading(section: Section, rng: random.Random) -> Iterator[Seed]:
    if not section.headings or not _ERROR.search(section.topic) or not section.blocks:
        return
    block = section.blocks[0]
    if block.kind != "text" or section.topic.endswith("?"):
        return
    text, quote = _short(" ".join(line.strip() for line in block.lines))
    if text:
        yield _seed(section, section.topic, Statement(text, quote), rng)


def _short(rest: str) -> tuple[str, str]:
    """Return the first one or two sentences as shown and as they stand."""
    raw = split_sentences(rest)
    shown = [clean_inline(sentence) for sentence in raw]
    if not shown or not is_clean(shown[0]) or shown[0].endswith(":"):
        return "", ""
    take = 1
    if len(shown) > 1 and is_clean(shown[1]) and not shown[1].endswith(":"):
        take = 2 if len(" ".join(shown[:2]).split()) <= STATEMENT_WORDS else 1
    text = " ".join(shown[:take])
    if not 2 <= len(text.split()) <= STATEMENT_WORDS or points_elsewhere(text):
        return "", ""
    return with_stop(text), " ".join(raw[:take])


def _seed(section: Section, message: str, answer: Statement, rng: random.Random) -> Seed:
    bare = message.replace("`", "").replace("**", "")[:MESSAGE_CHARACTERS]
    return seed("error", section, phrase(rng, section.language, "ERROR", error=bare), answer)
