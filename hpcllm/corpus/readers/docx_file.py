"""Read Word documents (.docx): headings, lists, tables, links and code by their styles.

Role: uses python-docx; text boxes, headers, footers and comments are not read.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.base import RawFile, ReadResult
from hpcllm.corpus.readers.blocks import (
    Block,
    Code,
    Heading,
    Listing,
    Paragraph,
    Table,
    cell_text,
    emphasised,
    render,
)
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterable

UNPACKED_LIMIT = 300_000_000
"""Bytes that the parts of a document may unpack to."""
HEADING = re.compile(r"(?i)heading\s*([1-9])")
CODE_STYLE = re.compile(r"(?i)code|preformatted|verbatim|listing")


def read(raw: RawFile) -> ReadResult:
    """Turn a Word document into canonical Markdown.

    Raises:
        IngestError: damaged, or no Word document.
    """
    document = _open(raw)
    try:
        blocks = _blocks(document.iter_inner_content())
        properties = document.core_properties
        stated = (properties.title or "").strip()
        author = (properties.author or "").strip()
    except (KeyError, ValueError, AttributeError, TypeError, IndexError) as exc:
        raise _damaged(raw, exc) from exc
    heading = next((block.text for block in blocks if isinstance(block, Heading)), "")
    text = render(blocks)
    return ReadResult(
        title=heading or stated or _first_line(blocks) or raw.stem,
        text=text,
        metadata={"author": author} if author else {},
        warnings=() if text else ("the document holds no text outside boxes and images",),
    )


def _open(raw: RawFile) -> Any:
    import docx
    from docx.opc.exceptions import OpcError

    try:
        with zipfile.ZipFile(io.BytesIO(raw.data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > UNPACKED_LIMIT:
            raise IngestError(
                f"{raw.path} unpacks to {size // 1_000_000} MB, expected at most "
                f"{UNPACKED_LIMIT // 1_000_000} MB: exclude it, or save it without media"
            )
        return docx.Document(io.BytesIO(raw.data))
    except (zipfile.BadZipFile, OpcError, KeyError, ValueError, EOFError, SyntaxError) as exc:
        raise _damaged(raw, exc) from exc


def _damaged(raw: RawFile, exc: Exception) -> IngestError:
    return IngestError(
        f"{raw.path} is not a readable Word document ({type(exc).__name__}: {exc}): save it again "
        "as .docx, or exclude it"
    )


def _first_line(blocks: list[Block]) -> str:
    first = next((block.text for block in blocks if isinstance(block, Paragraph)), "")
    return first.strip("* \n") if 0 < len(first) <= 120 and "\n" not in first else ""


def _blocks(content: Iterable[Any]) -> list[Block]:
    found: list[Block] = []
    for element in content:
        if hasattr(element, "rows"):
            found.append(_table(element))
        else:
            _add_paragraph(element, found)
    return found


def _add_paragraph(paragraph: Any, found: list[Block]) -> None:
    style = paragraph.style.name if paragraph.style is not None else ""
    style_id = paragraph.style.style_id if paragraph.style is not None else ""
    level = _heading_level(paragraph, style or "", style_id or "")
    text = _inline(paragraph)
    if CODE_STYLE.search(style or ""):
        _add_code(paragraph.text, found)
    elif not text.strip():
        return
    elif level:
        found.append(Heading(level, text.replace("**", "")))
    elif _list_level(paragraph, style or "") is not None:
        _add_item(text, _list_level(paragraph, style or "") or 0, _is_numbered(style or ""), found)
    else:
        found.append(Paragraph(text))


def _add_code(text: str, found: list[Block]) -> None:
    if found and isinstance(found[-1], Code):
        found[-1].text += f"\n{text}"
    else:
        found.append(Code(text))


def _heading_level(paragraph: Any, style: str, style_id: str) -> int:
    if style == "Title":
        return 1
    # The id stays English where the name is translated.
    found = HEADING.match(style) or HEADING.match(style_id)
    if found:
        return min(int(found[1]) + 1, 6)
    properties = paragraph._p.pPr
    outline = (
        properties.find(f"{{{_namespace(properties)}}}outlineLvl")
        if properties is not None
        else None
    )
    if outline is None:
        return 0
    value = next(iter(outline.attrib.values()), "9")
    return min(int(value) + 2, 6) if value.isdecimal() and int(value) < 9 else 0


def _namespace(element: Any) -> str:
    return str(element.tag).partition("}")[0].lstrip("{")


def _list_level(paragraph: Any, style: str) -> int | None:
    """Return the depth of a list item from 0, or None where the paragraph is none."""
    properties = paragraph._p.pPr
    numbering = properties.numPr if properties is not None else None
    if numbering is not None and (numbering.numId is None or numbering.numId.val != 0):
        return int(numbering.ilvl.val) if numbering.ilvl is not None else 0
    found = re.match(r"(?i)list (?:bullet|number|paragraph)\s*(\d?)", style)
    if found and "paragraph" not in style.lower():
        return int(found[1]) - 1 if found[1] else 0
    return None


def _is_numbered(style: str) -> bool:
    return "number" in style.lower()


def _add_item(text: str, level: int, numbered: bool, found: list[Block]) -> None:
    """Add an item to the list that ends ``found``, ``level`` lists deep."""
    target = found
    for _ in range(min(level, 6)):
        last = target[-1] if target else None
        if not isinstance(last, Listing) or not last.items:
            break
        target = last.items[-1]
    last = target[-1] if target else None
    if not isinstance(last, Listing) or (last.start is not None) != numbered:
        last = Listing(start=1 if numbered else None)
        target.append(last)
    last.items.append([Paragraph(text)])


def _inline(paragraph: Any) -> str:
    """Return a paragraph's runs and links as inline Markdown."""
    parts: list[tuple[bool, str]] = []
    for piece in paragraph.iter_inner_content():
        address = getattr(piece, "address", None)
        text = piece.text
        if address and text.strip() and text.strip() != address:
            bold, text = False, f"[{text.strip()}]({address})"
        else:
            bold = bool(getattr(piece, "bold", False))
        if parts and parts[-1][0] == bold:
            parts[-1] = (bold, parts[-1][1] + text)
        else:
            parts.append((bold, text))
    marked = "".join(emphasised(t, "**") if bold and "\n" not in t else t for bold, t in parts)
    return re.sub(r"[ \t\xa0]+", " ", marked).strip()


def _table(table: Any) -> Table:
    """Return a table; a cell over several columns stands once, then empty."""
    rows: list[list[str]] = []
    for row in table.rows:
        cells: list[str] = []
        previous = None
        for cell in row.cells:
            text = "" if cell._tc is previous else cell_text(_blocks(cell.iter_inner_content()))
            cells.append(text)
            previous = cell._tc
        rows.append(cells)
    return Table(rows)
