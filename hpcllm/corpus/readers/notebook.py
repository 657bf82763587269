"""Read Jupyter notebooks: text cells, code cells and the text that they printed.

Role: puts the cells together as one Markdown page and lets the Markdown reader make it canonical.
Formats: nbformat 4, and 3 with its worksheets (https://nbformat.readthedocs.io). Images and
interactive output are left out.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.base import RawFile, ReadResult
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PLACEHOLDER = re.compile(r"^<(?:Figure|IPython|matplotlib|Axes)[^>]*>$")
OUTPUT_LINES = 500
"""Lines of output kept of one cell; past that it is data, not documentation."""
MAGICS = {"%%bash": "bash", "%%sh": "bash", "%%script": "bash", "%%R": "r", "%%julia": "julia"}


def read(raw: RawFile) -> ReadResult:
    """Turn a notebook into canonical Markdown.

    Raises:
        IngestError: no JSON, or no notebook.
    """
    from hpcllm.corpus.readers import markdown

    content = _content(raw)
    warnings: list[str] = []
    language = _language(content)
    parts = [part for cell in _cells(content) for part in _cell(cell, language, warnings)]
    page = replace(raw, data="\n\n".join(parts).encode("utf-8", "replace"))
    result = markdown.read(page)
    return replace(result, warnings=(*result.warnings, *warnings))


def _content(raw: RawFile) -> dict[str, Any]:
    try:
        content = json.loads(raw.text())
    except (json.JSONDecodeError, RecursionError) as exc:
        raise IngestError(
            f"{raw.path} is not a notebook ({exc}): save it again in Jupyter, or exclude it"
        ) from exc
    if not isinstance(content, dict) or not {"cells", "worksheets"} & content.keys():
        raise IngestError(
            f"{raw.path} is not a notebook: it has no 'cells'; save it again in Jupyter, "
            "or exclude it"
        )
    return content


def _language(content: dict[str, Any]) -> str:
    metadata = content.get("metadata")
    for table, key in (("kernelspec", "language"), ("language_info", "name")):
        entry = metadata.get(table) if isinstance(metadata, dict) else None
        if isinstance(entry, dict) and isinstance(entry.get(key), str):
            return str(entry[key]).lower()
    return "python"


def _cells(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    holders = [content, *_dicts(content.get("worksheets"))]
    for holder in holders:
        yield from _dicts(holder.get("cells"))


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _cell(cell: dict[str, Any], language: str, warnings: list[str]) -> Iterator[str]:
    kind = cell.get("cell_type")
    source = _text(cell.get("source", cell.get("input"))).strip("\n")
    if not source.strip():
        return
    if kind == "markdown":
        yield source
    elif kind == "heading":
        level = cell.get("level")
        depth = level if isinstance(level, int) and 1 <= level <= 6 else 1
        yield f"{'#' * depth} {' '.join(source.split())}"
    elif kind == "code":
        magic = source.split(maxsplit=1)[0]
        yield _fence(source, MAGICS.get(magic, language))
        for output in _dicts(cell.get("outputs")):
            yield from _output(output, warnings)
    else:
        yield _fence(source, "")


def _output(output: dict[str, Any], warnings: list[str]) -> Iterator[str]:
    data = output.get("data", output)
    data = data if isinstance(data, dict) else {}
    text = _text(output.get("text") or data.get("text/plain") or data.get("text"))
    if output.get("output_type") in ("error", "pyerr"):
        trace = output.get("traceback")
        text = (
            "\n".join(map(str, trace)) if isinstance(trace, list) else _text(output.get("evalue"))
        )
    lines = ANSI.sub("", text).strip("\n").splitlines()
    if len(lines) > OUTPUT_LINES:
        warnings.append(f"output of {len(lines)} lines cut after {OUTPUT_LINES}")
        lines = lines[:OUTPUT_LINES]
    if any(line.strip() for line in lines) and not PLACEHOLDER.match(lines[0]):
        yield _fence("\n".join(lines), "text")


def _fence(text: str, language: str) -> str:
    ticks = "`" * max(3, max(map(len, re.findall(r"`+", text)), default=0) + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def _text(value: Any) -> str:
    """Return a multi-line string, which notebooks store whole or as a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
