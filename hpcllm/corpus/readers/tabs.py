"""Content tabs as headings, so that each passage keeps the label of the tab it stands in.

Role: readers of formats with tabs put marks between blocks; :func:`scope_tabs` turns a group of
tabs into one heading level below the section that holds it. Which cluster a command is for is
often said by the tab's label alone, so the label must reach every passage of the tab, and must
not reach what follows the group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpcllm.corpus.readers.base import anchor_of
from hpcllm.corpus.readers.blocks import Block, Heading, Paragraph, plain

TABS_START_MARK = "\ue000tabs-start"
TAB_MARK = "\ue000tab:"
TABS_END_MARK = "\ue000tabs-end"
"""Paragraphs with these texts stand for the tab structure; the private-use character never
stands in documentation."""

DEEPEST_LEVEL = 6


@dataclass(slots=True)
class _Group:
    """A group of tabs: the heading it stands under, and the level of its labels (0: bold)."""

    parent: Heading | None
    level: int


def is_mark(block: Block) -> bool:
    """Say whether a block is one of the three marks."""
    return isinstance(block, Paragraph) and block.text.startswith("\ue000tab")


def tab_label(text: str) -> Paragraph:
    """Return a tab's label as a bold line, for places that can hold no heading."""
    return Paragraph(f"**{text.strip().rstrip(':')}:**")


def labelled(blocks: list[Block]) -> list[Block]:
    """Return blocks inside a list or a definition with marks replaced by bold labels."""
    kept: list[Block] = []
    for block in blocks:
        if not isinstance(block, Paragraph) or not is_mark(block):
            kept.append(block)
        elif block.text.startswith(TAB_MARK):
            kept.append(tab_label(block.text.removeprefix(TAB_MARK)))
    return kept


def scope_tabs(blocks: list[Block]) -> list[Block]:
    """Return top-level blocks with tabs under headings of their own.

    After a group, the heading above it is written once more where text follows that belongs to
    it and not to the last tab. Label headings link to the section that holds the group.
    """
    writer = _Writer()
    for block in blocks:
        writer.add(block)
    return writer.out


class _Writer:
    def __init__(self) -> None:
        self.out: list[Block] = []
        self.groups: list[_Group] = []
        self.current: Heading | None = None
        self.left: _Group | None = None

    def add(self, block: Block) -> None:
        if isinstance(block, Paragraph) and is_mark(block):
            self._mark(block.text)
        elif isinstance(block, Heading):
            self._heading(block)
        else:
            self._return_to_parent()
            self.out.append(block)

    def _mark(self, text: str) -> None:
        if text == TABS_START_MARK:
            self._start()
        elif text == TABS_END_MARK:
            if self.groups:
                self.left = self.groups.pop()
        else:
            self._label(text.removeprefix(TAB_MARK).strip())

    def _start(self) -> None:
        parent = self.current if self.left is None else self.left.parent
        level = parent.level + 1 if parent and parent.level < DEEPEST_LEVEL else 0
        self.groups.append(_Group(parent, level))
        self.current = parent

    def _label(self, text: str) -> None:
        if not self.groups:
            self._start()
        group = self.groups[-1]
        self.left = None
        if not group.level or group.parent is None:
            self.out.append(tab_label(text))
            return
        anchor = group.parent.anchor or anchor_of(plain(group.parent.text))
        self.current = Heading(group.level, text, anchor)
        self.out.append(self.current)

    def _heading(self, heading: Heading) -> None:
        if self.left is not None and self.left.level and heading.level > self.left.level:
            self._return_to_parent()
        self.left = None
        if self.groups and self.groups[-1].level:
            level = min(DEEPEST_LEVEL, max(heading.level, self.groups[-1].level + 1))
            heading = replace(heading, level=level)
        self.current = heading
        self.out.append(heading)

    def _return_to_parent(self) -> None:
        group, self.left = self.left, None
        if group is not None and group.level and group.parent is not None:
            self.current = group.parent
            anchor = group.parent.anchor or anchor_of(plain(group.parent.text))
            self.out.append(replace(group.parent, anchor=anchor))
