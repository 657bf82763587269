"""Tables of PDF pages that are drawn with lines, and the text around them in its place.

Role: a PDF file knows no tables, only words and lines at places. ``pdfplumber`` finds the cells that
lines enclose; it reads ten times as slowly as ``pypdf``, so that only pages with lines are given to
it. Tables without lines, and columns of prose, are left to the order in which a page is written.
"""

from __future__ import annotations

import io
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.blocks import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pypdf import PdfReader

logger = logging.getLogger(__name__)

MARK = "\x00"
"""Begins the line that stands for a table among a page's lines; no text of a page holds it."""
FEWEST_RULES = 4
"""Lines and boxes drawn on a page from which it may hold a table: fewer enclose one cell."""
FEWEST_ROWS, FEWEST_COLUMNS = 2, 2
FILLED = 0.5
"""Share of its cells that must hold text: drawings are made of empty ones."""
TOLERANCE = 1.0
"""Points by which the edges of cells that touch may differ."""

_RULE = re.compile(rb"(?<=\s)(?:re|l)(?=\s)")
"""PDF's operators for a box and for a line."""

Line = tuple[float, str]
"""Distance from the top of the page in points, and text."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom; in points from the page's upper left corner."""


@dataclass(frozen=True, slots=True)
class PagesWithTables:
    """What was found in one file.

    Attributes:
        lines: lines of each page that holds tables, by its index, with a marked line for each.
        tables: tables by the marked line that stands for them.
        failed: pages that could not be read, by index, with what was wrong.
    """

    lines: dict[int, list[str]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)


def read_tables(data: bytes, pages: Iterable[int]) -> PagesWithTables:
    """Find the tables of some pages.

    Args:
        data: the PDF file.
        pages: indices of the pages that may hold tables, from 0.

    Returns:
        What was found; nothing is raised, pages that cannot be read are named in it.
    """
    found = PagesWithTables()
    wanted = list(pages)
    if not wanted:
        return found
    import pdfplumber

    try:
        with pdfplumber.open(io.BytesIO(data)) as document:
            for number, page in [(number, document.pages[number]) for number in wanted]:
                _add_page(page, number, found)
    except Exception as exc:  # pdfminer lets errors of many kinds through on damaged files
        logger.info("tables cannot be read: %s", exc)
        found.failed.update(dict.fromkeys(wanted, type(exc).__name__))
    return found


def pages_with_rules(reader: PdfReader) -> list[int]:
    """Return the indices of pages on which enough lines are drawn for a table."""
    found = []
    for number, page in enumerate(reader.pages):
        try:
            contents = page.get_contents()
            drawn = 0 if contents is None else len(_RULE.findall(contents.get_data()))
        except Exception as exc:  # pypdf lets errors of many kinds through on damaged files
            logger.info("contents of page %d cannot be read: %s", number + 1, exc)
            continue
        if drawn >= FEWEST_RULES:
            found.append(number)
    return found


def _add_page(page: Any, number: int, found: PagesWithTables) -> None:
    """Add one page to what was found, if it holds a table."""
    try:
        tables = [(table.bbox, rows) for table in page.find_tables() if (rows := _rows(table))]
        if not tables:
            return
        lines = _lines_outside(page, [box for box, _ in tables])
    except Exception as exc:  # as above: one bad page must not cost the others
        logger.info("tables of page %d cannot be read: %s", number + 1, exc)
        found.failed[number] = type(exc).__name__
        return
    finally:
        page.close()  # frees what pdfplumber keeps of it
    for place, (box, rows) in enumerate(tables):
        mark = f"{MARK}{number}.{place}"
        found.tables[mark] = Table(rows)
        lines.append((box[1], mark))
    found.lines[number] = [text for _, text in sorted(lines, key=lambda line: line[0])]


def _lines_outside(page: Any, boxes: Sequence[Box]) -> list[Line]:
    """Return the page's lines of text that no table holds, each with its distance from the top."""

    def is_outside(thing: Mapping[str, Any]) -> bool:
        across = (thing["x0"] + thing["x1"]) / 2
        down = (thing["top"] + thing["bottom"]) / 2
        return not any(box[0] <= across <= box[2] and box[1] <= down <= box[3] for box in boxes)

    words = page.filter(lambda thing: thing["object_type"] != "char" or is_outside(thing))
    return [(line["top"], line["text"]) for line in words.extract_text_lines(return_chars=False)]


def _rows(table: Any) -> list[list[str]]:
    """Return a table's cells as text; none where it is a frame or a drawing.

    A cell that spans rows is said in each of them, so that each row speaks for itself.
    """
    boxes: list[list[Box | None]] = [list(row.cells) for row in table.rows]
    texts = [[" ".join((text or "").split()) for text in row] for row in table.extract()]
    for row in range(1, len(boxes)):
        for column, box in enumerate(boxes[row]):
            above = boxes[row - 1][column] if column < len(boxes[row - 1]) else None
            bottom = table.rows[row].bbox[3]
            if box is None and above is not None and above[3] >= bottom - TOLERANCE:
                boxes[row][column] = above
                texts[row][column] = texts[row - 1][column]
    rows = [row for row in texts if any(row)]
    width = max((len(row) for row in rows), default=0)
    columns = [n for n in range(width) if any(n < len(row) and row[n] for row in rows)]
    rows = [[row[n] if n < len(row) else "" for n in columns] for row in rows]
    cells = [cell for row in rows for cell in row]
    is_table = len(rows) >= FEWEST_ROWS and len(columns) >= FEWEST_COLUMNS
    return rows if is_table and sum(map(bool, cells)) >= FILLED * len(cells) else []
