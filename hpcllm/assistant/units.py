"""Cut a passage into units that can be quoted by themselves.

Role: what the extractive answer chooses from. Knows the canonical Markdown dialect through
:mod:`hpcllm.corpus.blocks` and nothing of questions, scores or models.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hpcllm.corpus.blocks import DELIMITER_ROW, Block, parse_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UnitKind = Literal["sentence", "row", "code"]

CODE_LINES = 6
"""Longest unit of code in lines; longer code is cut at blank lines and comments first."""
SENTENCE_WORDS = 50
"""A sentence longer than this is cut at its semicolons."""

_ITEM = re.compile(r"^(\s*)(?:(?:[-*+]|\d{1,9}[.)])(?:\s+|$))+")
_FIGURE = re.compile(r"\[(?:Figure|Image)\b[^\]]*\]", re.IGNORECASE)
_CELL = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)")
_STRONG = re.compile(r"(?<![\w*])(\*\*|__)(?=\S)(.+?)(?<=\S)\1(?![\w*])")
_BOUNDARY = re.compile(
    r"(?<=[.!?…])[\"'”»)\]*_]{0,2}\s+(?=[\"'“«(\[*_]{0,2}(?:[^\W\d_a-zà-ÿ]|[`\d-]))"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|max|min|no|nr|fig|ca|resp|incl|dr|prof|p\.ex|ex|"
    r"obs|sr|sra|núm|pág|[A-Za-z])\.$",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"\s*(#(?!SBATCH|SCRON|!|PBS|\$)|//|--\s)")


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest piece that can be quoted by itself.

    Attributes:
        kind: what it is.
        text: what is shown: the sentence, the ``header: value`` pairs of a row, lines of code.
        quote: the passage's own lines that hold it.
        block: ordinal of its block in the passage.
        position: ordinal in the passage.
        lead: terms of the entry it belongs to, shown before the first unit quoted from it.
        context: names the unit without being shown: heading, sentence that introduces it.
        language: language of a fence, or empty.
        item: ordinal of its item in a list, or -1.
    """

    kind: UnitKind
    text: str
    quote: str
    block: int
    position: int = 0
    lead: str = ""
    context: str = ""
    language: str = ""
    item: int = -1

    @property
    def words(self) -> int:
        """Length of what is shown without the lead, in words."""
        return len(self.text.split())


def split_units(text: str, headings: Sequence[str] = ()) -> list[Unit]:
    """Split a passage into quotable units, in reading order.

    Args:
        text: canonical Markdown of the passage.
        headings: heading path of the passage, outermost first; the innermost is context.

    Returns:
        Units with ascending ``position``. Headings and table headers are none by themselves.
    """
    units: list[Unit] = []
    section = headings[-1] if headings else ""
    introduction = ""
    for number, block in enumerate(parse_blocks(text)):
        if block.kind == "heading":
            section, introduction = clean_inline(block.label), ""
            continue
        found = list(_block_units(block, number))
        context = " ".join(part for part in (section, introduction) if part)
        units.extend(replace(unit, context=f"{context} {unit.context}".strip()) for unit in found)
        introduction = found[-1].text if block.kind == "text" and found else ""
    return [replace(unit, position=position) for position, unit in enumerate(units)]


def _block_units(block: Block, number: int) -> Iterator[Unit]:
    if block.kind == "fence":
        yield from _code_units(block.lines, number)
    elif block.kind == "table":
        yield from _row_units(block.lines, number)
    elif block.kind == "list":
        yield from _list_units(block.lines, number)
    elif block.kind == "item":
        yield from _entry_units(block, number)
    else:
        yield from _sentence_units(block.lines, number)


def _sentence_units(lines: Sequence[str], number: int) -> Iterator[Unit]:
    prose = " ".join(re.sub(r"^\s*(?:>\s?)*", "", line).strip() for line in lines)
    for sentence in split_sentences(prose):
        shown = clean_inline(sentence)
        if any(character.isalnum() for character in shown) and not _FIGURE.fullmatch(shown):
            yield Unit("sentence", shown, lines_of(sentence, lines), number)


def _list_units(lines: Sequence[str], number: int) -> Iterator[Unit]:
    """Yield the sentences of every list item; a nested item has its parent as context."""
    parents: list[tuple[int, str]] = []
    for ordinal, item in enumerate(list_items(lines)):
        match = _ITEM.match(item[0])
        indent = len(match.group(1)) if match else 0
        parents = [parent for parent in parents if parent[0] < indent]
        body = [item[0][match.end() :] if match else item[0], *item[1:]]
        context = parents[-1][1] if parents else ""
        found = list(_nested_units(body, number))
        for unit in found:
            context_here = f"{context} {unit.context}".strip()
            yield replace(unit, context=context_here, item=ordinal)
        if found:
            parents.append((indent, found[0].text))


def list_items(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines of each list item, nested items apart from their parents."""
    item: list[str] = []
    fenced = False
    for line in lines:
        if _ITEM.match(line) and not fenced and item:
            yield item
            item = []
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        item.append(line)
    if item:
        yield item


def _entry_units(block: Block, number: int) -> Iterator[Unit]:
    lines = block.lines[len(block.terms) :]
    lead = clean_inline(block.label)
    for unit in _nested_units([re.sub(r"^:[ \t]+", "", line) for line in lines], number):
        quote = "\n".join([*block.text.split("\n")[: len(block.terms)], unit.quote])
        yield replace(unit, lead=lead, quote=quote)


def _nested_units(lines: Sequence[str], number: int) -> Iterator[Unit]:
    """Yield the units of an indented body; sentences before code or a table are its context."""
    margins = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(margins, default=0)
    body = [lines[0].lstrip(), *(line[margin:] for line in lines[1:])]
    introduction = ""
    for block in parse_blocks("\n".join(body)):
        found = [replace(u, context=introduction) for u in _block_units(block, number)]
        yield from found
        introduction = found[-1].text if block.kind == "text" and found else ""


def _row_units(lines: Sequence[str], number: int) -> Iterator[Unit]:
    header = split_row(lines[0])
    for line in lines[2:]:
        cells = split_row(line)
        if any(cells) and not DELIMITER_ROW.match(line):
            yield Unit("row", row_text(header, cells), f"{lines[0]}\n{line}", number)


def split_row(line: str) -> list[str]:
    """Return the cells of a pipe table's row without surrounding space."""
    bare = line.strip().removeprefix("|")
    bare = bare[:-1] if bare.endswith("|") and not bare.endswith("\\|") else bare
    return [clean_inline(cell.replace("\\|", "|")) for cell in _CELL.split(bare)]


def row_text(header: Sequence[str], cells: Sequence[str]) -> str:
    """Return a table row as ``header: value`` pairs; empty cells are left out."""
    names = [*header, *[""] * (len(cells) - len(header))]
    pairs = zip(names, cells, strict=False)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)


def _code_units(lines: Sequence[str], number: int) -> Iterator[Unit]:
    language = lines[0].strip().lstrip("`~").strip().split(" ")[0]
    closed = len(lines) > 1 and not lines[-1].strip().strip("`~") and lines[-1].strip()
    body = lines[1:-1] if closed else lines[1:]
    margin = min((len(x) - len(x.lstrip()) for x in body if x.strip()), default=0)
    for piece in _stanzas([line[margin:].rstrip() for line in body]):
        text = "\n".join(piece)
        yield Unit("code", text, text, number, language=language)


def _stanzas(lines: Sequence[str]) -> Iterator[list[str]]:
    """Cut code into pieces of at most :data:`CODE_LINES` lines at blank lines and comments."""
    whole = [line for line in lines if line.strip()]
    if len(whole) <= CODE_LINES:
        yield from [whole] if whole else []
        return
    piece: list[str] = []
    for line in lines:
        fresh = bool(_COMMENT.match(line)) and not (piece and _COMMENT.match(piece[-1]))
        if piece and (not line.strip() or fresh or len(piece) >= CODE_LINES):
            yield piece
            piece = []
        if line.strip():
            piece.append(line)
    if piece:
        yield piece


def clean_inline(text: str) -> str:
    """Return one line of text without images, relative link targets and strong emphasis."""
    return " ".join(_STRONG.sub(r"\2", _LINK.sub(_link_text, text)).split())


def _link_text(match: re.Match[str]) -> str:
    label, target = match.groups()
    if match.group(0).startswith("!"):
        return ""
    return match.group(0) if target.startswith(("http://", "https://", "mailto:")) else label


def lines_of(sentence: str, lines: Sequence[str]) -> str:
    """Return those of ``lines`` that hold parts of ``sentence``, as they stand."""
    wanted = "".join(sentence.split())
    kept = [line for line in lines if _overlaps("".join(line.split()).lstrip(">"), wanted)]
    return "\n".join(kept or lines[:1])


def _overlaps(line: str, wanted: str) -> bool:
    """Tell whether a line holds the sentence or begins, ends or lies within it (no spaces)."""
    if not line:
        return False
    if line in wanted or wanted in line:
        return True
    shared = (k for k in range(min(len(line), len(wanted)), 4, -1))
    return any(line[-k:] == wanted[:k] or line[:k] == wanted[-k:] for k in shared)


def split_sentences(text: str) -> list[str]:
    """Split prose into sentences; abbreviations, versions and inline code do not end one."""
    sentences: list[str] = []
    start = 0
    for match in _BOUNDARY.finditer(text):
        piece = text[start : match.start()]
        if piece.count("`") % 2 or _ABBREVIATION.search(piece.rstrip("\"')]*_")):
            continue
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [part for sentence in sentences if sentence for part in _shorten(sentence)]


def _shorten(sentence: str) -> list[str]:
    if len(sentence.split()) <= SENTENCE_WORDS:
        return [sentence]
    return [part.strip() for part in re.split(r"(?<=;)\s+", sentence) if part.strip()]
