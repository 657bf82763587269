"""Read PDF files: text by page, so that a citation can name and open the page.

Role: each page starts under a heading with the anchor ``page=N``, which PDF viewers understand in
an address (``guide.pdf#page=3``; RFC 8118). Where the file has an outline, its entries are the
headings, and pages that begin inside a section get a heading below it. Tables that are drawn with
lines come from :mod:`~hpcllm.corpus.readers.pdf_tables`.
"""

from __future__ import annotations

import io
import logging
import re
from contextlib import contextmanager
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.base import RawFile, ReadResult
from hpcllm.corpus.readers.blocks import Block, Heading, Listing, Paragraph, Table, render
from hpcllm.corpus.readers.pdf_tables import MARK, pages_with_rules, read_tables
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pypdf import PdfReader

logger = logging.getLogger(__name__)

LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st",
                           "ﬆ": "st", "\u00ad": "", "\x00": "", "\xa0": " "})  # fmt: skip
BULLET = re.compile(r"^\s*[•▪◦●‣–]\s+")
NEXT_BULLET = re.compile(r"(?<=\S)\s+(?=[•▪◦●‣]\s)")
HYPHENATED = re.compile(r"([a-zà-ÿ]{2,})-\n([a-zà-ÿ])")
RUNNING_PAGES = 4
"""Pages that a line has to head or foot, numbers aside, to count as running head."""
EDGE_LINES = 2
"""Lines at either end of a page among which running heads are looked for."""
FULL_LINE = 0.75
"""Share of a page's longest line that a line has to reach for its paragraph to go on after it."""
OUTLINE_LIMIT = 5000
"""Outline entries read at most."""


def read(raw: RawFile) -> ReadResult:
    """Turn a PDF file into canonical Markdown.

    Raises:
        IngestError: damaged, protected by a password, or without any text (a scan).
    """
    with _quiet():
        reader = _open(raw)
        warnings: list[str] = []
        pages = [_page_lines(reader, number, warnings) for number in range(_count(reader, raw))]
        tables = _put_in_tables(reader, raw, pages, warnings)
        outline = _outline(reader)
        metadata = _metadata(reader)
    if not any(line.strip() for lines in pages for line in lines):
        raise IngestError(
            f"{raw.path} holds no text on its {len(pages)} pages, as scanned pages do: run it "
            "through OCR first (ocrmypdf IN.pdf OUT.pdf), or exclude it"
        )
    _drop_running_heads(pages)
    title = _title(raw, metadata.pop("title", ""), pages)
    return ReadResult(
        title=title,
        text=render(list(_blocks(pages, outline, tables))),
        metadata={**metadata, "pages": str(len(pages))},
        warnings=tuple(warnings),
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep pypdf from logging every oddity of a file that it reads all the same."""
    theirs = logging.getLogger("pypdf")
    level = theirs.level
    theirs.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        theirs.setLevel(level)


def _open(raw: RawFile) -> PdfReader:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    try:
        reader = PdfReader(io.BytesIO(raw.data))
        locked = reader.is_encrypted and not reader.decrypt("")
    except DependencyError:
        locked = True
    except Exception as exc:  # pypdf lets errors of many kinds through on damaged files
        raise _damaged(raw, exc) from exc
    if locked:
        raise IngestError(
            f"{raw.path} is protected by a password: save it without one, or exclude it"
        )
    return reader


def _damaged(raw: RawFile, exc: Exception) -> IngestError:
    return IngestError(
        f"{raw.path} is not a readable PDF ({type(exc).__name__}: {exc}): it may be cut short; "
        "fetch it again, or exclude it"
    )


def _count(reader: PdfReader, raw: RawFile) -> int:
    try:
        return len(reader.pages)
    except Exception as exc:  # as above
        raise _damaged(raw, exc) from exc


def _page_lines(reader: PdfReader, number: int, warnings: list[str]) -> list[str]:
    try:
        text = reader.pages[number].extract_text() or ""
    except Exception as exc:  # one bad page must not cost the others
        logger.info("page %d cannot be read: %s", number + 1, exc)
        warnings.append(f"page {number + 1} cannot be read ({type(exc).__name__})")
        return []
    return _cleaned(text)


def _cleaned(text: str) -> list[str]:
    text = HYPHENATED.sub(r"\1\2", re.sub(r"[ \t]+\n", "\n", text.translate(LIGATURES)))
    return [part for line in text.splitlines() for part in _items(line.rstrip())]


def _put_in_tables(
    reader: PdfReader, raw: RawFile, pages: list[list[str]], warnings: list[str]
) -> dict[str, Table]:
    """Replace the lines of pages that hold tables; return the tables by the lines for them."""
    found = read_tables(raw.data, [n for n in pages_with_rules(reader) if any(pages[n])])
    for number, lines in found.lines.items():
        runs = groupby(lines, key=found.tables.__contains__)
        parts = (list(run) if is_mark else _cleaned("\n".join(run)) for is_mark, run in runs)
        pages[number] = list(chain.from_iterable(parts))
    warnings += [
        f"tables of page {number + 1} cannot be read ({problem})"
        for number, problem in found.failed.items()
    ]
    return {
        mark: Table([[cell.translate(LIGATURES) for cell in row] for row in table.rows])
        for mark, table in found.tables.items()
    }


def _items(line: str) -> list[str]:
    """Return the items of a line that holds two: lists beside one another are read as one."""
    return NEXT_BULLET.split(line) if BULLET.match(line) else [line]


def _metadata(reader: PdfReader) -> dict[str, str]:
    try:
        found = dict(reader.metadata or {})
    except Exception as exc:  # damaged metadata say nothing about the text
        logger.info("metadata cannot be read: %s", exc)
        return {}
    names = {"/Title": "title", "/Author": "author", "/Subject": "subject", "/Keywords": "keywords"}
    texts = {name: " ".join(str(found.get(key) or "").split()) for key, name in names.items()}
    return {name: text for name, text in texts.items() if text}


def _outline(reader: PdfReader) -> dict[int, list[tuple[int, str]]]:
    """Return outline entries by page index: level from 1 and title."""
    found: dict[int, list[tuple[int, str]]] = {}
    try:
        entries = list(_entries(reader.outline, 1))[:OUTLINE_LIMIT]
        for level, entry in entries:
            page = reader.get_destination_page_number(entry)
            title = " ".join(str(entry.title).translate(LIGATURES).split())
            if page is not None and page >= 0 and title:
                found.setdefault(page, []).append((level, title))
    except Exception as exc:  # a damaged outline leaves the pages
        logger.info("outline cannot be read: %s", exc)
    return found


def _entries(outline: Any, level: int) -> Iterator[tuple[int, Any]]:
    for entry in outline:
        if isinstance(entry, list):
            yield from _entries(entry, level + 1)
        else:
            yield level, entry


def _drop_running_heads(pages: list[list[str]]) -> None:
    """Blank lines that head or foot many pages, except where they stand first."""
    seen: dict[tuple[str, int | None], list[tuple[int, int]]] = {}
    for page, lines in enumerate(pages):
        filled = [n for n, line in enumerate(lines) if line.strip() and line[0] != MARK]
        for place in dict.fromkeys([*filled[:EDGE_LINES], *filled[-EDGE_LINES:]]):
            seen.setdefault(_running_form(lines[place], page), []).append((page, place))
    for places in seen.values():
        if len({page for page, _ in places}) >= max(RUNNING_PAGES, len(pages) // 2):
            for page, place in places[1:]:
                pages[page][place] = ""


def _running_form(line: str, page: int) -> tuple[str, int | None]:
    """Return what the same running head has in common on all pages.

    Its first number may only count the pages: rows of a table differ in numbers too.
    """
    number = re.search(r"\d{1,6}", line)
    if number is None:
        return line.strip(), None
    return line.replace(number[0], "#", 1).strip(), int(number[0]) - page


def _title(raw: RawFile, stated: str, pages: list[list[str]]) -> str:
    # Word processors put the file's name there.
    if (
        stated
        and " " in stated
        and not re.search(r"\.(docx?|tex|dvi|odt|pptx?|indd)$", stated, re.I)
    ):
        return stated
    texts = (line.strip() for lines in pages for line in lines if not line.startswith(MARK))
    first = next(filter(None, texts), "")
    return first if 3 < len(first) <= 120 else stated or raw.stem


def _blocks(
    pages: list[list[str]],
    outline: dict[int, list[tuple[int, str]]],
    tables: Mapping[str, Table],
) -> Iterator[Block]:
    level = 1
    for number, lines in enumerate(pages):
        anchor = f"page={number + 1}"
        marked = False
        for heading, part in _parts(lines, outline.get(number, [])):
            if heading is not None:
                level = min(heading[0] + 1, 5)
                yield Heading(level, heading[1], anchor)
                marked = True
            elif not marked and any(line.strip() for line in part):
                yield Heading(level + 1, f"Page {number + 1}", anchor)
                marked = True
            yield from _prose(part, tables)


def _parts(
    lines: list[str], entries: list[tuple[int, str]]
) -> Iterator[tuple[tuple[int, str] | None, list[str]]]:
    """Cut a page at the titles of its outline entries; those not found head what follows."""
    heading: tuple[int, str] | None = None
    start = 0
    for entry in entries:
        place = _find(lines, entry[1], start)
        if place is None:
            yield heading, []
        else:
            yield heading, lines[start:place]
            start = place + 1
        heading = entry
    yield heading, lines[start:]


def _find(lines: list[str], title: str, start: int) -> int | None:
    wanted = _letters(title)
    for place in range(start, len(lines)):
        line = "" if lines[place].startswith(MARK) else _letters(lines[place])
        if line == wanted or (line.endswith(wanted) and len(line) - len(wanted) <= 8):
            return place
    return None


def _letters(text: str) -> str:
    return re.sub(r"\W+", "", text).casefold()


def _prose(lines: list[str], tables: Mapping[str, Table]) -> Iterator[Block]:
    """Yield paragraphs, lists of lines with bullets, and the tables that marked lines stand for.

    A paragraph ends at a blank line, and after a line that stops well before the page's margin.
    """
    margin = max(map(len, lines), default=0)
    listing = Listing()
    for part in _paragraphs(lines, FULL_LINE * margin):
        if BULLET.match(part):
            listing.items.append([Paragraph(" ".join(BULLET.sub("", part).split()))])
            continue
        if listing.items:
            yield listing
            listing = Listing()
        yield tables[part] if part in tables else Paragraph(part)
    if listing.items:
        yield listing


def _paragraphs(lines: list[str], full: float) -> Iterator[str]:
    part: list[str] = []
    for line in lines:
        ended = part and (len(part[-1]) < full or part[-1].startswith(MARK))
        begins = BULLET.match(line) or line.startswith(MARK)
        if part and (ended or begins or not line.strip()):
            yield "\n".join(part)
            part = []
        if line.strip():
            part.append(line.strip())
    if part:
        yield "\n".join(part)
