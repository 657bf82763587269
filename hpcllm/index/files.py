"""Writing that survives a crash: flush to disk, replace in one step, prove what was read.

Role: the few file operations that the promise "a crash leaves the old index serving" rests on.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Force the content of ``path`` to disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Force the entries of folder ``path`` (names, renames) to disk."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    """Force all files and folders under ``path`` to disk, inner ones first."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            sync_file(Path(folder, name))
        sync_folder(Path(folder))


def write_atomically(path: Path, text: str) -> None:
    """Replace the content of ``path`` so that a reader sees the old or the new, never a part."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_under(path: Path) -> list[str]:
    """Return the files under ``path``, relative to it, POSIX style, sorted."""
    return sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
