"""Writing the canonical Markdown dialect: blocks, lists, definition items, tables, fences.

Role: the one place that knows how the dialect of :class:`hpcllm.records.Document` is spelled.
Readers build :class:`Block` objects and hand them to :func:`join_blocks`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_LEVEL = 6
"""Deepest heading level of the dialect."""

_STARTS_A_BLOCK = re.compile(r"(#{1,6}(?=\s|$)|```|~~~|:(?=\s)|\|)")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of canonical text.

    Attributes:
        lines: its lines, without line ends.
        flush: whether it must stay at column 0 (fences, tables, headings): a list that holds it
            is interrupted, so that code comes out exactly as it was written.
        joins: whether it may follow another block of the kind without a blank line.
    """

    lines: tuple[str, ...]
    flush: bool = False
    joins: bool = False


def join_blocks(blocks: Iterable[Block]) -> str:
    """Return the text of ``blocks``, separated by blank lines, with a line end at its end."""
    lines: list[str] = []
    for block in blocks:
        if not block.lines:
            continue
        if lines:
            lines.append("")
        lines.extend(block.lines)
    return "\n".join(lines) + "\n" if lines else ""


def paragraph(text: str) -> Block:
    """Return a paragraph; a line that would start another kind of block is escaped."""
    lines = (line.strip() for line in text.split("\n"))
    return Block(tuple(_STARTS_A_BLOCK.sub(r"\\\1", line) if line[:1] in "#`~:|" else line
                       for line in lines if line))  # fmt: skip


def heading(level: int, text: str, anchor: str = "") -> Block:
    """Return an ATX heading, with ``{#anchor}`` where one is given.

    >>> heading(2, "Job arrays", "sec-arrays").lines
    ('## Job arrays {#sec-arrays}',)
    """
    mark = "#" * max(1, min(level, MAX_LEVEL))
    label = " ".join(text.split())
    return Block((f"{mark} {label} {{#{anchor}}}" if anchor else f"{mark} {label}",), flush=True)


def fence(code: str, language: str = "") -> Block:
    """Return fenced code; the fence is longer than any run of its character inside.

    Args:
        code: the code as it is, with or without a line end at its end.
        language: name after the opening fence, or empty.
    """
    body = code.removesuffix("\n")
    longest = max((len(run) for run in re.findall(r"^\s*(`{3,})", body, re.MULTILINE)), default=2)
    ticks = "`" * (longest + 1)
    return Block((ticks + language, *body.split("\n"), ticks), flush=True)


def table(rows: Sequence[Sequence[str]], *, header: bool = True) -> Block:
    """Return a pipe table.

    Args:
        rows: cells by row; short rows are filled up. A line end in a cell becomes a space.
        header: whether the first row is the header; where not, an empty header row is written.

    >>> table([["queue", "hours"], ["short", "2"]]).lines
    ('| queue | hours |', '| --- | --- |', '| short | 2 |')
    """
    width = max((len(row) for row in rows), default=0)
    if not width:
        return Block(())
    filled = [[*(_cell(cell) for cell in row), *[""] * (width - len(row))] for row in rows]
    if not header:
        filled.insert(0, [""] * width)
    lines = ["| " + " | ".join(row) + " |" for row in filled]
    lines.insert(1, "| " + " | ".join(["---"] * width) + " |")
    return Block(tuple(lines), flush=True)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def list_blocks(items: Sequence[tuple[str, Sequence[Block]]]) -> list[Block]:
    """Return the blocks of a list.

    Args:
        items: marker (``"-"``, ``"3."``) and content of each item, in order.
    """
    writer = _ListWriter()
    for marker, blocks in items:
        writer.item(marker, blocks)
    return writer.finish()


class _ListWriter:
    """Collects list lines, and lets flush blocks through at column 0."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.lines: list[str] = []

    def item(self, marker: str, blocks: Sequence[Block]) -> None:
        indent = " " * (len(marker) + 1)
        is_broken = False
        is_first = True
        for block in blocks:
            if block.flush or is_broken:
                if is_first and marker not in "-*+":
                    self.lines.append(marker)  # a number says which step the code belongs to
                self._break()
                self.blocks.append(block)
                is_broken = True
            elif is_first:
                self.lines.append(f"{marker} {block.lines[0]}" if block.lines else marker)
                self.lines.extend(_indented(block.lines[1:], indent))
            else:
                self.lines.extend(() if block.joins else ("",))
                self.lines.extend(_indented(block.lines, indent))
            is_first = False

    def _break(self) -> None:
        if self.lines:
            self.blocks.append(Block(tuple(self.lines), joins=True))
            self.lines = []

    def finish(self) -> list[Block]:
        self._break()
        return self.blocks


def definition(terms: Sequence[str], blocks: Sequence[Block], anchor: str = "") -> list[Block]:
    """Return a definition item: terms, then ``: text``, all of it indented by four spaces.

    Args:
        terms: the names that share the text, in order.
        blocks: the text; nothing leaves the item, code included.
        anchor: anchor of the first term, or empty.
    """
    names = [" ".join(term.split()) for term in terms if term.strip()]
    if not names:
        return list(blocks)
    if anchor:
        names[0] += f" {{#{anchor}}}"
    if not blocks:
        return [Block((*names, ":"))]
    lines: list[str] = []
    for block in blocks:
        if lines and block.lines:
            lines.append("")
        lines.extend(_indented(block.lines, "    "))
    first = lines[0].removeprefix("    ")
    if blocks[0].flush:  # the colon line must not become part of a fence or a table
        return [Block((*names, ":", *lines))]
    return [Block((*names, f": {first}", *lines[1:]))]


def _indented(lines: Iterable[str], indent: str) -> list[str]:
    return [indent + line if line else "" for line in lines]
