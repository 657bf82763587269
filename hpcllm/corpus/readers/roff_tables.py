"""Tables of the tbl preprocessor as they stand in man pages between ``.TS`` and ``.TE``.

Role: lines of a table in, one :class:`~hpcllm.corpus.readers.blocks.Table` out. Input format:
M. E. Lesk, "Tbl: a program to format tables", and tbl(1) of groff.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.blocks import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RULE = re.compile(r"\s*[_=]\s*$|\s*\\_\s*$")
TAB_OPTION = re.compile(r"tab\s*\(\s*(.)\s*\)", re.IGNORECASE)


def read_table(lines: list[str], inline: Callable[[str], str]) -> Table:
    """Return the table that ``lines`` describe.

    Args:
        lines: everything between ``.TS`` and ``.TE``.
        inline: turns roff text into inline Markdown.

    Returns:
        Its rows; the first one counts as header. A cell that spans rows is repeated in each, so
        that every row can be read by itself.
    """
    options = ""
    if lines and lines[0].rstrip().endswith(";"):
        options, lines = lines[0], lines[1:]
    separator = TAB_OPTION.search(options)
    rows = list(_rows(_data(lines), separator[1] if separator else "\t"))
    return Table(_filled([[inline(cell) for cell in row] for row in rows]))


def _data(lines: list[str]) -> Iterator[str]:
    """Yield the lines that are data: formats end with a full stop, and ``.T&`` starts another."""
    in_format = True
    for line in lines:
        if in_format:
            in_format = not line.rstrip().endswith(".")
        elif line.startswith(".T&"):
            in_format = True
        else:
            yield line


def _rows(lines: Iterator[str], separator: str) -> Iterator[list[str]]:
    for line in lines:
        if RULE.match(line) or re.match(r"[.'][ \t]*[A-Za-z\\]", line) or not line.strip():
            continue
        yield _row(line, lines, separator)


def _row(line: str, lines: Iterator[str], separator: str) -> list[str]:
    """Read one row, with the text blocks (``T{`` to ``T}``) that go on over several lines."""
    cells: list[str] = []
    while True:
        parts = line.split(separator)
        if parts[-1].strip() != "T{":
            return [*cells, *map(_cell, parts)]
        cells += map(_cell, parts[:-1])
        block: list[str] = []
        rest = None
        for inner in lines:
            if inner.startswith("T}"):
                rest = inner[2:]
                break
            block.append(_requestless(inner))
        cells.append(" ".join(filter(None, block)))
        if not rest or separator not in rest:
            return cells
        line = rest.split(separator, 1)[1]


def _cell(text: str) -> str:
    text = text.strip()
    return "" if text in ("_", "=", "\\_", "\\=") else text


def _requestless(line: str) -> str:
    """Return a line of a text block, macros of fonts turned into escapes, others dropped."""
    found = re.match(r"\.\s*([A-Za-z]+)\s*(.*)", line)
    if not found:
        return line
    font = {"B": "B", "I": "I", "BR": "B", "BI": "B", "IR": "I"}.get(found[1])
    text = found[2].replace('"', "")
    return f"\\f{font}{text}\\fR" if font else ""


def _filled(rows: list[list[str]]) -> list[list[str]]:
    for above, row in pairwise(rows):
        for place, cell in enumerate(row):
            if cell == "^" and place < len(above):
                row[place] = above[place]
    return rows
