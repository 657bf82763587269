"""Tables of reStructuredText that need more than docutils gives.

Role: rows of different lengths in list tables, header rows over one another, and tables whose
cells hold more than a line.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst.directives.tables import ListTable

from hpcllm.corpus.readers.blocks import Block, Paragraph, cell_text, plain

_List = nodes.bullet_list


class PaddedListTable(ListTable):
    """A list table whose rows may be of different lengths: the shorter ones get empty cells."""

    def check_list_content(self, node: nodes.Element) -> tuple[int, list[int]]:
        """Fill up the rows, then check them as docutils does; stated widths no longer count."""
        self.options.pop("widths", None)
        lists = [cell for item in _items(node) for cell in item[:1] if isinstance(cell, _List)]
        longest = max((len(cells.children) for cells in lists), default=0)
        for cells in lists:
            cells += [nodes.list_item() for _ in range(longest - len(cells.children))]
        checked: Any = super()
        count, widths = checked.check_list_content(node)
        return int(count), list(widths)


def _items(node: nodes.Element) -> list[list[nodes.Node]]:
    """Return what is in each item of the one list that a list table holds."""
    first = node.children[0] if node.children else None
    return [list(item.children) for item in first.children] if isinstance(first, _List) else []


def joined_header(rows: list[list[list[Block]]]) -> list[list[Block]]:
    """Return one header row; the names of several rows stand one after another in a cell."""
    if not rows:
        return []
    joined: list[list[Block]] = []
    for cells in zip(*rows, strict=False):
        names = list(dict.fromkeys(cell_text(cell) for cell in cells if cell))
        joined.append([Paragraph(" / ".join(name for name in names if name))])
    return joined


def as_sections(names: list[str], rows: list[list[list[Block]]]) -> list[Block]:
    """Return a table whose cells hold whole blocks as text: each cell under its column's name."""
    blocks: list[Block] = []
    for row in rows:
        for place, cell in enumerate(row):
            name = names[place] if place < len(names) else ""
            if cell and name:
                blocks.append(Paragraph(f"**{plain(name)}:**"))
            blocks.extend(cell)
    return blocks
