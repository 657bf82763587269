"""Tables of reStructuredText that need more than docutils gives.

Role: rows of different lengths in list tables, header rows over one another, and tables whose
cells hold more than a line.
"""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst.directives.tables import ListTable

from hpcllm.corpus.readers.blocks import Block, Paragraph, cell_text, plain


class PaddedListTable(ListTable):
    """A list table whose rows may be of different lengths: the shorter ones get empty cells."""

    def check_list_content(self, node: nodes.Element) -> tuple[int, list[int]]:
        """Fill up the rows, then check them as docutils does; stated widths no longer count."""
        self.options.pop("widths", None)
        lists = [item.children[0] for item in _items(node) if item.children]
        longest = max(map(len, lists), default=0)
        for cells in lists:
            if isinstance(cells, nodes.bullet_list):
                cells += [nodes.list_item() for _ in range(longest - len(cells))]
        count, widths = super().check_list_content(node)
        return int(count), list(widths)


def _items(node: nodes.Element) -> list[nodes.Element]:
    """Return the items of the one list that a list table holds."""
    first = node.children[0] if node.children else None
    return list(first.children) if isinstance(first, nodes.bullet_list) else []


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
