"""Parse canonical Markdown into blocks: the only reader of the dialect of :class:`Document`.

Role: first half of the chunker. Knows nothing of tokens, limits or chunks.

A line-based state machine and not a Markdown library, since blocks must be exact slices of the
text (no line lost, none rewritten) and a ``#`` line inside a fence must stay code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Kind = Literal["heading", "fence", "table", "item", "list", "text"]

HEADING = re.compile(r"^(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
ANCHOR = re.compile(r"[ \t]*\{#([^\s{}]+)\}[ \t]*$")
FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})([^\n]*)$")
LIST_ITEM = re.compile(r"^([-*+]|\d{1,9}[.)])([ \t]+|$)")
DELIMITER_ROW = re.compile(r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
DEFINITION = re.compile(r"^:[ \t]+\S")
NESTED_DEFINITION = re.compile(r"^[ \t]+:[ \t]+\S")


@dataclass(frozen=True, slots=True)
class Block:
    """A run of whole lines that belong together.

    Attributes:
        kind: what it is; ``item`` is one definition or option entry, ``list`` a whole list.
        lines: its lines without line ends, no blank line at either end.
        line: number of its first line, from 1.
        level: heading level 1 to 6, else 0.
        label: heading text or entry term without anchor, else empty.
        anchor: explicit anchor of a heading or entry, else empty.
    """

    kind: Kind
    lines: tuple[str, ...]
    line: int
    level: int = 0
    label: str = ""
    anchor: str = ""

    @property
    def text(self) -> str:
        """The block's lines joined by line feeds, anchors removed from headings and terms."""
        if self.kind == "heading":
            return f"{'#' * self.level} {self.label}"
        if self.kind == "item":
            return "\n".join([*map(without_anchor, self.terms), *self._body()])
        return "\n".join(self.lines)

    @property
    def nested(self) -> dict[str, tuple[str, str]]:
        """Entries inside this one: term line as it stands in ``text`` -> (label, anchor)."""
        lines = self.lines[len(self.terms) :]
        terms = [line for line, after in pairwise(lines) if NESTED_DEFINITION.match(after)]
        return {
            without_anchor(term).strip(): (without_anchor(term).strip(), anchor_in(term))
            for term in terms
            if term.strip()
        }

    def _body(self) -> list[str]:
        """Return the lines after the terms, anchors removed from the terms of inner entries."""
        lines = self.lines[len(self.terms) :]
        followed = [*pairwise(lines), (lines[-1], "")] if lines else []
        return [
            without_anchor(line) if NESTED_DEFINITION.match(after) else line
            for line, after in followed
        ]

    @property
    def terms(self) -> tuple[str, ...]:
        """The term lines of an entry, anchors included."""
        count = next((i for i, line in enumerate(self.lines) if DEFINITION.match(line)), 0)
        return self.lines[:count]


def without_anchor(line: str) -> str:
    """Return ``line`` without a trailing ``{#anchor}``."""
    return ANCHOR.sub("", line)


def anchor_in(line: str) -> str:
    """Return the anchor at the end of ``line``, or an empty string."""
    match = ANCHOR.search(line)
    return match.group(1) if match else ""


def parse_blocks(text: str) -> list[Block]:
    """Split canonical Markdown into blocks.

    Args:
        text: canonical Markdown.

    Returns:
        Blocks in reading order. Their lines are all the non-blank lines of ``text``, plus the
        blank lines inside fences, lists and entries; none twice.
    """
    return _Parser(text.split("\n")).run()


def fence_end(lines: list[str] | tuple[str, ...], start: int) -> int:
    """Return the index after the fence that opens at ``lines[start]``.

    An unclosed fence ends with the text. A fence that opens inside an entry or list ends at the
    latest where the indentation of its opening line is left.
    """
    match = FENCE.match(lines[start])
    if not match:
        return start
    indent, mark = match.group(1), match.group(2)
    closing = re.compile(rf"^[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$")
    for index in range(start + 1, len(lines)):
        if closing.match(lines[index]):
            return index + 1
        if indent and lines[index].strip() and not lines[index].startswith((" ", "\t")):
            return index
    return len(lines)


def opens_fence(line: str) -> bool:
    """Tell whether ``line`` opens a fence (an info string with a backtick is inline code)."""
    match = FENCE.match(line)
    return match is not None and not (match.group(2)[0] == "`" and "`" in match.group(3))


class _Parser:
    """One pass over the lines; ``self.at`` is the next line to read."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0
        self.blocks: list[Block] = []

    def run(self) -> list[Block]:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.at += 1
            elif match := HEADING.match(line):
                self._heading(match)
            elif opens_fence(line):
                self._take("fence", fence_end(self.lines, self.at))
            elif self._is_table(self.at):
                self._take("table", self._table_end(self.at))
            elif LIST_ITEM.match(line):
                self._take("list", self._body_end(self.at + 1, lazy=True, listing=True))
            else:
                self._text_or_item()
        return self.blocks

    def _take(self, kind: Kind, end: int, **extra: str | int) -> None:
        lines = self.lines[self.at : end]
        while lines and not lines[-1].strip():
            lines.pop()
        self.blocks.append(Block(kind, tuple(lines), self.at + 1, **extra))  # type: ignore[arg-type]
        self.at = end

    def _heading(self, match: re.Match[str]) -> None:
        label = match.group(2)
        self._take(
            "heading",
            self.at + 1,
            level=len(match.group(1)),
            label=without_anchor(label),
            anchor=anchor_in(label),
        )

    def _is_table(self, index: int) -> bool:
        lines = self.lines
        return (
            index + 1 < len(lines)
            and "|" in lines[index]
            and "|" in lines[index + 1]
            and DELIMITER_ROW.match(lines[index + 1]) is not None
        )

    def _table_end(self, index: int) -> int:
        while index < len(self.lines) and "|" in self.lines[index]:
            index += 1
        return index

    def _body_end(self, index: int, *, lazy: bool, listing: bool = False) -> int:
        """Return where the body of a list or entry ends: at the first outdented other block."""
        blank = False
        while index < len(self.lines):
            line = self.lines[index]
            if not line.strip():
                blank = True
                index += 1
                continue
            inside = line.startswith((" ", "\t")) or (listing and LIST_ITEM.match(line))
            if not inside and (blank or not lazy or self._starts_other(index)):
                break
            index = fence_end(self.lines, index) if inside and opens_fence(line) else index + 1
            blank = False
        return index

    def _starts_other(self, index: int) -> bool:
        line = self.lines[index]
        return bool(HEADING.match(line) or opens_fence(line) or self._is_table(index))

    def _text_or_item(self) -> None:
        end = self.at + 1
        while end < len(self.lines):
            line = self.lines[end]
            if DEFINITION.match(line):
                self._item(end)
                return
            if not line.strip() or self._starts_other(end) or LIST_ITEM.match(line):
                break
            end += 1
        self._take("text", end)

    def _item(self, definition: int) -> None:
        end = definition + 1
        while True:
            end = self._body_end(end, lazy=True)
            if end < len(self.lines) and DEFINITION.match(self.lines[end]):
                end += 1
                continue
            break
        terms = self.lines[self.at : definition]
        label = ", ".join(without_anchor(term).strip() for term in terms)
        anchor = next((a for a in map(anchor_in, terms) if a), "")
        self._take("item", end, label=label, anchor=anchor)
