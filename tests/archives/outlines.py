"""Outlines of files of documentation archives: what stands in which passage, without its text.

The archives are public documentation under licences of their own, so their text is not kept here.
``outlines.jsonl`` holds for each file of ``files.txt`` one line about the file and one about each
chunk; ``HPCLLM_ARCHIVES`` names the folder that holds the unpacked archives.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.blocks import parse_blocks
from hpcllm.corpus.chunker import chunk_document
from hpcllm.corpus.findings import Locator
from hpcllm.corpus.readers import RawFile, read
from hpcllm.corpus.status import NOTICES, status_by_place
from hpcllm.corpus.trust import Examiner
from hpcllm.records import Document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hpcllm.records import Chunk

VARIABLE = "HPCLLM_ARCHIVES"
HERE = Path(__file__).parent
OUTLINES = HERE / "outlines.jsonl"
TODAY = date(2026, 1, 1)
"""Day on which the files are read: announced ends of systems depend on it."""

Line = dict[str, Any]


def archives() -> Path | None:
    """Return the folder of the unpacked archives, or None where the variable names none."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


def names() -> list[str]:
    """Return the chosen files, ``archive/path`` each."""
    lines = (HERE / "files.txt").read_text(encoding="utf-8").split("\n")
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def count_tokens(text: str) -> int:
    """Return words and signs of a text: close to an embedder's tokens, and the same everywhere."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def chunks_of(root: Path, path: str) -> list[Chunk]:
    """Read one file as ingest does and return its chunks.

    Args:
        root: the archive's folder.
        path: the file relative to it.
    """
    result = read(RawFile(path, (root / path).read_bytes(), root))
    status = status_by_place(path, {}, result.status)
    document = Document(
        source=root.name,
        path=path,
        title=result.title,
        text=result.text,
        url=None,
        language=result.language or "en",
        cluster=None,
        revision="",
        status=status,
        notice=result.notice or NOTICES.get(status, ""),
        metadata=dict(result.metadata),
        warnings=result.warnings,
    )
    examined, _ = Examiner(Locator(()), TODAY).examine(document)
    return chunk_document(examined, count_tokens=count_tokens)


def outline(folder: Path, name: str) -> list[Line]:
    """Return the outline of a file: a line about it, then one for each chunk in reading order."""
    archive, _, path = name.partition("/")
    data = (folder / name).read_bytes()
    chunks = chunks_of(folder / archive, path)
    status = chunks[0].status if chunks else "current"
    head = {"file": name, "source": _digest(data), "status": status, "chunks": len(chunks)}
    return [head, *map(_chunk_line, chunks)]


def _chunk_line(chunk: Chunk) -> Line:
    return {
        "path": list(chunk.headings),
        "anchor": chunk.anchor,
        "words": len(chunk.text.split()),
        "blocks": [block.kind for block in parse_blocks(chunk.text)],
        "text": _digest(chunk.text.encode()),
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def load() -> dict[str, list[Line]]:
    """Return the recorded outlines by file, empty where none were recorded."""
    found: dict[str, list[Line]] = {}
    lines: list[Line] = []
    if OUTLINES.is_file():
        for text in OUTLINES.read_text(encoding="utf-8").split("\n"):
            line = json.loads(text) if text else {}
            if "file" in line:
                lines = found[line["file"]] = []
            if line:
                lines.append(line)
    return found


def save(outlines: Iterable[list[Line]]) -> None:
    """Write outlines, one line of JSON for each of their lines."""
    lines = (json.dumps(line, ensure_ascii=False) for lines in outlines for line in lines)
    OUTLINES.write_text("\n".join(lines) + "\n", encoding="utf-8")


def differences(old: list[Line], new: list[Line]) -> list[str]:
    """Return what differs between two outlines of a file, a sentence each."""
    if not old or not new:
        return ["is new" if new else "is no longer chosen"]
    found = [
        f"{key}: {old[0].get(key)} became {new[0].get(key)}"
        for key in ("source", "status", "chunks")
        if old[0].get(key) != new[0].get(key)
    ]
    for number, (before, after) in enumerate(zip(old[1:], new[1:], strict=False), 1):
        changed = [key for key in after if before.get(key) != after[key]]
        if changed:
            found.append(f"chunk {number} ({' > '.join(after['path'])}): {', '.join(changed)}")
    return found
