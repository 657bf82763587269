"""The block tree that format readers build, and its one rendering to canonical Markdown.

Role: readers of formats with a structure of their own (HTML, man pages, DOCX, PDF) turn a file
into blocks; :func:`render` writes the dialect of :class:`hpcllm.records.Document`, so that a
table or a definition item looks the same whatever file it came from.

Inline text inside blocks is Markdown already (``**bold**``, `` `code` ``, ``[text](target)``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

LINE_START = re.compile(r"(?m)^(#{1,6}(?=\s|$)|:(?=\s)|\|(?=.*\|\s*$)|```|~~~|>(?=\s))")
"""What at the start of a line of prose would be read as structure."""


@dataclass(slots=True)
class Heading:
    """A heading of level 1 to 6 with the anchor its source gives it, or an empty one."""

    level: int
    text: str
    anchor: str = ""


@dataclass(slots=True)
class Paragraph:
    """Prose; line feeds in it are line breaks of the source."""

    text: str


@dataclass(slots=True)
class Code:
    """Preformatted text, kept as it is but for white space at line ends and tabs (8 columns).

    With ``verbatim`` nothing at all is changed in it.
    """

    text: str
    language: str = ""
    verbatim: bool = False


@dataclass(slots=True)
class Table:
    """Rows of cells, the header first; rows may be of different lengths."""

    rows: list[list[str]]
    caption: str = ""


@dataclass(slots=True)
class Term:
    """A name that a definition item explains, with its anchor or an empty one."""

    text: str
    anchor: str = ""


@dataclass(slots=True)
class Item:
    """A definition item: names that share one explanation."""

    terms: list[Term] = field(default_factory=list)
    body: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class Definitions:
    """Definition items in a row."""

    items: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Listing:
    """A bulleted list, or a numbered one from ``start``."""

    items: list[list[Block]] = field(default_factory=list)
    start: int | None = None


@dataclass(slots=True)
class Quote:
    """Blocks that the source sets off as a quotation."""

    blocks: list[Block] = field(default_factory=list)


Block: TypeAlias = Heading | Paragraph | Code | Table | Definitions | Listing | Quote


def render(blocks: list[Block], separator: str = "\n\n") -> str:
    """Return ``blocks`` as canonical Markdown, ``separator`` between them, no final line feed."""
    parts = [_render(block) for block in blocks]
    return separator.join(part for part in parts if part.strip())


def plain(text: str) -> str:
    """Return inline Markdown without emphasis, code marks and link targets.

    >>> plain("**-t**, `--time` see [jobs](jobs.md)")
    '-t, --time see jobs'
    """
    text = re.sub(r"(?<!\\)\[([^\[\]]*)\]\([^)\s]*\)", r"\1", text)
    return re.sub(r"\*\*(.+?)\*\*|`+([^`]+)`+", lambda m: (m[1] or m[2]).strip(), text).strip()


def code_span(text: str) -> str:
    """Return ``text`` as inline code, with more backticks around it than are inside.

    >>> code_span("a`b")
    '`` a`b ``'
    """
    text = " ".join(text.split())
    if "`" not in text:
        return f"`{text}`" if text else ""
    ticks = "`" * (_longest_run(text) + 1)
    return f"{ticks} {text} {ticks}"


def emphasised(text: str, mark: str) -> str:
    """Put ``mark`` around ``text``, leaving white space at its ends outside.

    >>> emphasised(" very ", "**")
    ' **very** '
    """
    core = text.strip()
    if not core or mark in core:
        return text
    start = text.index(core)
    return f"{text[:start]}{mark}{core}{mark}{text[start + len(core) :]}"


def cell_text(blocks: list[Block]) -> str:
    """Return blocks as the text of one table cell: a single line, list items by semicolons."""
    parts = [_flat(block) for block in blocks]
    return " ".join(part for part in parts if part)


def is_simple(blocks: list[Block]) -> bool:
    """Say whether blocks fit a table cell: no heading, no table, no code of several lines."""
    for block in blocks:
        if isinstance(block, (Heading, Table, Definitions, Quote)):
            return False
        if isinstance(block, Code) and "\n" in block.text.strip():
            return False
        if isinstance(block, Listing) and not all(is_simple(item) for item in block.items):
            return False
    return True


def _flat(block: Block) -> str:
    match block:
        case Paragraph(text=text) | Heading(text=text):
            return " ".join(text.split())
        case Code(text=text):
            return code_span(text)
        case Listing(items=items):
            return "; ".join(cell_text(item) for item in items)
        case Table(rows=rows):
            return "; ".join(" ".join(row) for row in rows)
        case Definitions(items=entries):
            return "; ".join(_flat_item(entry) for entry in entries)
        case Quote(blocks=blocks):
            return cell_text(blocks)


def _flat_item(item: Item) -> str:
    names = ", ".join(term.text for term in item.terms)
    return f"{names}: {cell_text(item.body)}"


def _render(block: Block) -> str:
    match block:
        case Heading():
            text = " ".join(block.text.split())
            return f"{'#' * block.level} {text}{_anchor(block.anchor)}" if text else ""
        case Paragraph(text=text):
            return _prose(text)
        case Code():
            return _fence(block)
        case Table():
            return _table(block)
        case Definitions(items=items):
            return "\n\n".join(filter(None, map(_definition, items)))
        case Listing():
            return _listing(block)
        case Quote(blocks=blocks):
            lines = render(blocks).splitlines()
            return "\n".join(f"> {line}".rstrip() for line in lines)


def _anchor(anchor: str) -> str:
    usable = re.fullmatch(r"[^\s{}]+", anchor)
    return f" {{#{anchor}}}" if usable else ""


def _fence(block: Code) -> str:
    text = block.text.removesuffix("\n") if block.verbatim else _tidy(block.text)
    if not text.strip():
        return ""
    ticks = "`" * max(3, _longest_run(text) + 1)
    return f"{ticks}{block.language}\n{text}\n{ticks}"


def _tidy(code: str) -> str:
    text = code.expandtabs(8).strip("\n")
    return "\n".join(line.rstrip() for line in text.splitlines())


def _longest_run(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)


def _table(block: Table) -> str:
    rows = [row for place, row in enumerate(block.rows) if place == 0 or any(map(str.strip, row))]
    caption = _prose(block.caption)
    if not any(text.strip() for row in rows for text in row):
        return caption
    width = max(map(len, rows))
    lines = [_row([_cell(text) for text in row], width) for row in rows]
    lines.insert(1, f"|{' --- |' * width}")
    table = "\n".join(lines)
    return f"{caption}\n\n{table}" if caption else table


def _prose(text: str) -> str:
    return LINE_START.sub(r"\\\1", text.strip())


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def _row(cells: list[str], width: int) -> str:
    padded = [*cells, *[""] * (width - len(cells))]
    return f"| {' | '.join(padded)} |"


def _definition(item: Item) -> str:
    names = [
        f"{_name(term.text)}{_anchor(term.anchor)}" for term in item.terms if term.text.strip()
    ]
    body = render(item.body)
    if not names:
        return body
    if not body:
        return "\n".join(f"- {name}" for name in names)
    if isinstance(item.body[0], Code):
        # A fence cannot open on the line of the mark: the names stand before it as a paragraph.
        return "\n".join(_name(term.text) for term in item.terms) + f"\n\n{body}"
    mark = ": " if isinstance(item.body[0], Paragraph) else ":   "
    return "\n".join([*names, mark + _indented(body, 4)])


def _name(text: str) -> str:
    return _prose(" ".join(text.split()))


def _listing(block: Listing) -> str:
    separator = "\n" if all(map(_is_tight, block.items)) else "\n\n"
    parts = []
    for number, item in enumerate(block.items, block.start or 0):
        body = render(item, separator)
        if body:
            mark = "- " if block.start is None else f"{number}. "
            start = f"{mark.rstrip()}\n{' ' * len(mark)}" if isinstance(item[0], Code) else mark
            parts.append(start + _indented(body, len(mark)))
    return separator.join(parts)


def _is_tight(item: list[Block]) -> bool:
    """Say whether an item is a paragraph, perhaps with a list below it."""
    return len(item) <= 2 and all(
        isinstance(block, Paragraph if place == 0 else Listing) for place, block in enumerate(item)
    )


def _indented(text: str, columns: int) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * columns + line if line else "" for line in rest)])
