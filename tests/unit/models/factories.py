"""Small catalog entries, files and wheels for the tests of models."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

from hpcllm.models.catalog import ModelEntry

CONTENT = bytes(range(256)) * 20


def file_table(name: str, content: bytes, **fields: Any) -> dict[str, Any]:
    """Return the catalog table of a file."""
    digest = hashlib.sha256(content).hexdigest()
    return {"name": name, "size": len(content), "sha256": digest, **fields}


def entry_of(*files: dict[str, Any], **fields: Any) -> ModelEntry:
    """Return an embedder entry with these files."""
    defaults = {
        "id": "tiny",
        "kind": "embedder",
        "family": "bert",
        "parameters": 1,
        "context": 8,
        "licence": "MIT",
    }
    return ModelEntry.model_validate({**defaults, "files": files, **fields})


def path_entry(source: Path, content: bytes = CONTENT) -> ModelEntry:
    """Return an entry whose one file comes from ``source``."""
    return entry_of(
        file_table("model.bin", content, places=[{"kind": "path", "path": str(source)}])
    )


def make_wheel(folder: Path, project: str, members: dict[str, bytes]) -> Path:
    """Write a wheel of version 1.0 that pip accepts."""
    name = project.replace("-", "_")
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path
