"""PDF, DOCX, notebooks and plain text."""

from __future__ import annotations

import io
import json
import logging
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hpcllm.corpus.readers import docx_file, notebook, pdf, plain_text
from hpcllm.corpus.readers.base import RawFile, ReadResult
from hpcllm.errors import IngestError

ROOT = Path("/nonexistent")


# PDF


def pdf_bytes(
    pages: Sequence[list[str] | bytes],
    outline: list[tuple[str, int]] = (),
    password: str = "",
    title: str = "",
) -> bytes:
    """A PDF file; a page is its lines, or its whole content stream."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    for lines in pages:
        page = writer.add_blank_page(612, 792)
        shown = lines
        if not isinstance(lines, bytes):
            text = "".join(f"({line}) Tj 0 -14 Td " for line in lines)
            shown = f"BT /F1 12 Tf 72 700 Td {text} ET".encode("latin-1")
        stream = DecodedStreamObject()
        stream.set_data(shown)
        page[NameObject("/Contents")] = writer._add_object(stream)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
                NameObject("/Encoding"): NameObject("/WinAnsiEncoding"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    for name, page_number in outline:
        writer.add_outline_item(title=name, page_number=page_number)
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


def read_pdf(data: bytes) -> ReadResult:
    return pdf.read(RawFile("guide.pdf", data, ROOT))


LONG = "A sentence that is long enough to reach the margin of this very"


def test_pdf_pages_are_headings_with_page_anchors() -> None:
    result = read_pdf(pdf_bytes([["User guide", LONG, "page."], ["Second page."]]))
    assert result.title == "User guide"
    assert result.metadata["pages"] == "2"
    assert result.text == (
        f"## Page 1 {{#page=1}}\n\nUser guide\n\n{LONG}\npage.\n\n"
        "## Page 2 {#page=2}\n\nSecond page."
    )


def test_pdf_outline_gives_headings_and_pages_below_them() -> None:
    data = pdf_bytes(
        [["Intro", "Hello."], ["More."], ["Bye.", "2 Closing", "End."]],
        [("Intro", 0), ("Closing", 2)],
        title="The Guide of Guides",
    )
    result = read_pdf(data)
    assert result.title == "The Guide of Guides"
    assert result.text == (
        "## Intro {#page=1}\n\nHello.\n\n### Page 2 {#page=2}\n\nMore.\n\n"
        "### Page 3 {#page=3}\n\nBye.\n\n## Closing {#page=3}\n\nEnd."
    )


def test_pdf_running_heads_stand_once_and_hyphens_are_joined() -> None:
    body = ["Body.", "Text of exam-", "ple one.", "Body."]
    pages = [
        ["Centre handbook", f"Chapter {n * n}", *body, "Foot", f"{n} of 5"] for n in range(1, 6)
    ]
    text = read_pdf(pdf_bytes(pages)).text
    assert text.count("Centre handbook") == 1
    assert text.count("example") == 5
    assert "3 of 5" not in text
    assert text.count("Chapter") == 5


def test_pdf_rows_of_numbers_are_no_running_heads() -> None:
    text = read_pdf(pdf_bytes([[f"{n * 7} {n * 3}", "b", "c", "d"] for n in range(1, 7)])).text
    assert all(f"{n * 7} {n * 3}" in text for n in range(1, 7))


def test_pdf_bullets_are_lists() -> None:
    text = read_pdf(pdf_bytes([[LONG, "\\225 one", "\\225 two", "Done."]])).text
    assert text.endswith("very\n\n- one\n- two\n\nDone.")


def table_page(
    columns: list[float], rows: list[float], texts: list[tuple[float, float, str]], rules: str = ""
) -> bytes:
    """A page's content stream: a grid of lines, and texts at places (from the lower left)."""
    grid = [f"{x} {rows[-1]} m {x} {rows[0]} l S" for x in columns]
    grid += [f"{columns[0]} {y} m {columns[-1]} {y} l S" for y in rows]
    shown = [f"BT /F1 10 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in texts]
    return "\n".join([*grid, rules, *shown]).encode("latin-1")


PARTITIONS = [
    (72, 720, "Partitions of the cluster are these:"),
    (76, 686, "Partition"), (166, 686, "Cores"), (256, 686, "Longest job"),
    (76, 666, "short"), (166, 666, "64"), (256, 666, "2 h"),
    (76, 646, "long"), (166, 646, "128"), (256, 646, "7 days"),
    (72, 600, "Ask for more below."),
]  # fmt: skip


def test_pdf_tables_with_lines_are_tables_in_their_place() -> None:
    page = table_page([72, 162, 252, 342], [700, 680, 660, 640], PARTITIONS)
    text = read_pdf(pdf_bytes([["Before."], page])).text
    assert "| Partition | Cores | Longest job |" in text
    assert "| long | 128 | 7 days |" in text
    assert text.index("of the cluster are these:") < text.index("| Partition")
    assert text.index("| long |") < text.index("Ask for more below.")
    assert text.count("7 days") == 1 and "\x00" not in text


def test_pdf_cells_that_span_rows_are_said_in_each() -> None:
    first_column = "72 700 m 166 700 l S 72 680 m 166 680 l S 72 640 m 166 640 l S 72 640 m 72 700 l S"
    texts = [t for t in PARTITIONS if t[2] != "long"]
    page = table_page([166, 252, 342], [700, 680, 660, 640], texts, first_column)
    text = read_pdf(pdf_bytes([page])).text
    assert "| short | 64 | 2 h |" in text and "| short | 128 | 7 days |" in text


def test_pdf_frames_and_drawings_are_no_tables() -> None:
    box = "72 640 270 60 re S"
    framed = table_page([], [], [(76, 686, "A note in a frame."), (76, 660, "Mind it.")], box * 4)
    text = read_pdf(pdf_bytes([framed])).text
    assert "A note in a frame." in text and "|" not in text
    empty = table_page([72, 162, 252, 342], [700, 680, 660, 640], [(72, 720, "A drawing.")])
    assert "|" not in read_pdf(pdf_bytes([empty])).text


def test_pdf_the_same_table_heading_every_page_is_no_running_head() -> None:
    page = table_page([72, 162, 252, 342], [700, 680, 660, 640], PARTITIONS[1:-1])
    assert read_pdf(pdf_bytes([page] * 6)).text.count("| long | 128 | 7 days |") == 6


def test_pdf_tables_that_cannot_be_read_leave_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    import pdfplumber.page

    def fails(*_: object, **__: object) -> None:
        raise ValueError("bad matrix")

    monkeypatch.setattr(pdfplumber.page.Page, "find_tables", fails)
    page = table_page([72, 162, 252, 342], [700, 680, 660, 640], PARTITIONS)
    result = read_pdf(pdf_bytes([page]))
    assert "7 days" in result.text and "|" not in result.text
    assert result.warnings == ("tables of page 1 cannot be read (ValueError)",)


def test_pdf_files_that_the_table_reader_refuses_are_read_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import pdfplumber

    def refuses(*_: object, **__: object) -> None:
        raise KeyError("Root")

    monkeypatch.setattr(pdfplumber, "open", refuses)
    page = table_page([72, 162, 252, 342], [700, 680, 660, 640], PARTITIONS)
    result = read_pdf(pdf_bytes([["Before."], page]))
    assert "Before." in result.text and "7 days" in result.text
    assert result.warnings == ("tables of page 2 cannot be read (KeyError)",)


def test_pdf_problems_say_what_to_do() -> None:
    whole = pdf_bytes([["text"]])
    with pytest.raises(IngestError, match=r"guide.pdf is not a readable PDF.*fetch it again"):
        read_pdf(whole[:200])
    with pytest.raises(IngestError, match="not a readable PDF"):
        read_pdf(b"")
    with pytest.raises(IngestError, match="protected by a password: save it without one"):
        read_pdf(pdf_bytes([["text"]], password="x"))
    with pytest.raises(IngestError, match=r"no text on its 1 pages.*OCR"):
        read_pdf(pdf_bytes([[]]))


def test_pdf_logger_is_left_as_it_was() -> None:
    logger = logging.getLogger("pypdf")
    before = logger.level
    read_pdf(pdf_bytes([["text"]]))
    assert logger.level == before


# DOCX


def docx_bytes(build: Any) -> bytes:
    import docx

    document = docx.Document()
    build(document)
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def read_docx(data: bytes) -> ReadResult:
    return docx_file.read(RawFile("form.docx", data, ROOT))


def test_docx_headings_lists_tables_and_bold() -> None:
    def build(document: Any) -> None:
        document.add_heading("Storage form", 0)
        document.add_heading("Quota", 1)
        paragraph = document.add_paragraph("Ask for ")
        paragraph.add_run("two ").bold = True
        paragraph.add_run("terabytes").bold = True
        paragraph.add_run(".")
        document.add_paragraph("first", style="List Bullet")
        document.add_paragraph("inner", style="List Bullet 2")
        document.add_paragraph("second", style="List Bullet")
        document.add_paragraph("one", style="List Number")
        table = document.add_table(2, 2)
        for place, word in enumerate(["Name", "Size", "scratch|tmp", "1 TB"]):
            table.cell(place // 2, place % 2).text = word
        document.core_properties.author = "Staff"

    result = read_docx(docx_bytes(build))
    assert result.title == "Storage form"
    assert result.metadata == {"author": "Staff"}
    assert (
        result.text
        == """\
# Storage form

## Quota

Ask for **two terabytes**.

- first
  - inner
- second

1. one

| Name | Size |
| --- | --- |
| scratch\\|tmp | 1 TB |"""
    )


def test_docx_merged_cells_stand_once() -> None:
    def build(document: Any) -> None:
        table = document.add_table(2, 3)
        table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
        table.cell(0, 2).text = "x"
        table.cell(1, 0).text = "a"

    text = read_docx(docx_bytes(build)).text
    assert text.startswith("| wide |  | x |\n| --- | --- | --- |\n| a |  |  |")


def test_docx_damage_is_named() -> None:
    with pytest.raises(IngestError, match=r"form.docx is not a readable Word document"):
        read_docx(b"PK\x03\x04 broken")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x.txt", "no document")
    with pytest.raises(IngestError, match=r"save it again as .docx"):
        read_docx(stream.getvalue())


def test_docx_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docx_file, "UNPACKED_LIMIT", 1000)
    with pytest.raises(IngestError, match="expected at most 0 MB"):
        read_docx(docx_bytes(lambda document: None))


# Notebooks


def read_notebook(content: object) -> ReadResult:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return notebook.read(RawFile("lesson.ipynb", data, ROOT))


def test_notebook_cells_and_text_outputs() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# First steps\n", "\n", "Load the data."]},
        {
            "cell_type": "code",
            "source": "# comment\nprint(1)",
            "outputs": [
                {"output_type": "stream", "text": ["1\n", "2\n"]},
                {
                    "output_type": "display_data",
                    "data": {"image/png": "x", "text/plain": "<Figure size 1x1>"},
                },
                {"output_type": "error", "traceback": ["\x1b[31mKeyError\x1b[0m: 'x'"]},
            ],
        },
        {"cell_type": "code", "source": "%%bash\nsqueue", "outputs": []},
        {"cell_type": "code", "source": "", "outputs": []},
    ]
    result = read_notebook(
        {"cells": cells, "metadata": {"kernelspec": {"language": "Python"}}, "nbformat": 4}
    )
    assert result.title == "First steps"
    assert (
        "Load the data.\n\n```python\n# comment\nprint(1)\n```\n\n```text\n1\n2\n```\n\n"
        "```text\nKeyError: 'x'\n```\n\n```bash\n%%bash\nsqueue\n```"
    ) in result.text
    assert "Figure" not in result.text


def test_old_notebook_with_worksheets() -> None:
    old = {"worksheets": [{"cells": [
        {"cell_type": "heading", "level": 2, "source": "Old"},
        {"cell_type": "code", "input": "x = 1", "outputs": [{"output_type": "pyout", "text": "7"}]},
    ]}]}  # fmt: skip
    text = read_notebook(old).text
    assert "## Old" in text
    assert "```python\nx = 1\n```\n\n```text\n7\n```" in text


def test_long_output_is_cut_and_said() -> None:
    cell = {
        "cell_type": "code",
        "source": "x",
        "outputs": [{"output_type": "stream", "text": "a\n" * 600}],
    }
    result = read_notebook({"cells": [cell]})
    assert result.text.count("a\n") == 500
    assert "output of 600 lines cut after 500" in result.warnings


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"a": 1}', b"[" * 100_000])
def test_what_is_no_notebook_is_refused(content: bytes) -> None:
    with pytest.raises(IngestError, match=r"lesson.ipynb is not a notebook.*or exclude it"):
        read_notebook(content)


# Plain text


def read_text(text: str | bytes) -> ReadResult:
    data = text.encode() if isinstance(text, str) else text
    return plain_text.read(RawFile("notes.txt", data, ROOT))


def test_text_headings_paragraphs_lists_and_aligned_blocks() -> None:
    result = read_text(
        "Cluster notes\n=============\n\nSome prose\nover two lines.\n\nLIMITS\n\n"
        "- one\n  more\n- two\n\nqueue    hours\nshort    2\n\n    #SBATCH -n 1\n    srun x\n"
    )
    assert result.title == "Cluster notes"
    assert (
        result.text
        == """\
# Cluster notes

Some prose
over two lines.

## LIMITS

- one more
- two

```
queue    hours
short    2

    #SBATCH -n 1
    srun x
```"""
    )


def test_text_title_falls_back_to_first_line_then_name() -> None:
    assert read_text("How to log in\n\nUse ssh.").title == "How to log in"
    assert read_text("x" * 300).title == "notes"
    assert read_text("").title == "notes"


def test_text_that_is_a_web_page_is_read_as_one() -> None:
    assert read_text("<!DOCTYPE html>\n<h1>Title</h1><p>x</p>").text == "# Title\n\nx"


def test_text_of_other_encodings() -> None:
    assert read_text("\ufeffMemória cheia agora".encode("utf-16")).text == "Memória cheia agora"
    with pytest.raises(IngestError, match="looks like a binary file"):
        read_text(b"\x00\x01\x02\x00ELF\x00")
