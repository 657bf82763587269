"""Find man pages that are installed on this machine.

Role: the man part of :mod:`hpcllm.corpus.sources`.
"""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from hpcllm.corpus.source_files import FileEntry
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DEFAULT_FOLDERS = ("/usr/local/share/man", "/usr/share/man", "/usr/local/man")
"""Where manuals are when neither ``manpath`` nor ``man`` can say."""
PAGE = re.compile(r"(?P<name>.+)\.(?P<section>[1-9])(?P<kind>[a-z]\w*)?(?P<packed>\.gz)?$")
PACKED_OTHERWISE = re.compile(r".+\.[1-9]\w*\.(xz|bz2|zst|lzma|Z)$")
TIMEOUT_S = 20


def manual_folders() -> list[Path]:
    """Return the folders of manuals on this machine, in the order that ``man`` searches them."""
    for command in (["manpath", "-q"], ["man", "-w"]):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        folders = [Path(part) for part in done.stdout.strip().split(":") if part]
        if done.returncode == 0 and folders:
            return [folder for folder in folders if folder.is_dir()]
    return [Path(name) for name in DEFAULT_FOLDERS if Path(name).is_dir()]


def find_pages(
    folders: Sequence[Path],
    pages: Iterable[str],
    sections: Iterable[int],
    names: Sequence[str],
    size_limit: int,
) -> tuple[list[FileEntry], list[tuple[str, str]]]:
    """Find pages in folders of manuals.

    Args:
        folders: folders that hold ``man1``, ``man5`` and so on; the first that has a page wins.
        pages: single pages, such as ``"sbatch.1"``.
        sections: sections to take pages of.
        names: globs of page names within ``sections``; empty takes all.
        size_limit: bytes of the largest file that is read.

    Returns:
        Files with paths such as ``man1/sbatch.1`` (also where the file is compressed), sorted,
        and what was not found or cannot be unpacked, with the reason.
    """
    wanted = list(dict.fromkeys(pages))
    found: dict[str, FileEntry] = {}
    skipped: list[tuple[str, str]] = []
    needed = {page.rpartition(".")[2][:1] for page in wanted} | {str(n) for n in sections}
    for folder in folders:
        for section in sorted(needed):
            for path, file in _listed(folder / f"man{section}", section, skipped):
                page = path.rpartition("/")[2]
                chosen = int(section) in set(sections) and _is_named(page, names)
                if path not in found and (chosen or page in wanted):
                    _add(path, file, size_limit, found, skipped)
    missing = [page for page in wanted if not any(p.endswith(f"/{page}") for p in found)]
    places = ", ".join(map(str, folders)) or "no folder of manuals"
    skipped += [(page, f"no such page in {places}: install the package that holds it, "
                 "or name the folder in 'folders'") for page in missing]  # fmt: skip
    return sorted(found.values(), key=lambda entry: entry.path), skipped


def _listed(
    folder: Path, section: str, skipped: list[tuple[str, str]]
) -> Iterator[tuple[str, Path]]:
    if not folder.is_dir():
        return
    try:
        files = sorted(folder.iterdir())
    except OSError as exc:
        skipped.append((str(folder), f"cannot be opened: {exc.strerror}"))
        return
    for file in files:
        parts = PAGE.fullmatch(file.name)
        if parts and parts["section"] == section:
            yield f"man{section}/{parts['name']}.{section}", file
        elif PACKED_OTHERWISE.fullmatch(file.name):
            skipped.append((f"man{section}/{file.name}", "compressed otherwise than by gzip"))


def _is_named(page: str, names: Sequence[str]) -> bool:
    stem = page.rpartition(".")[0]
    return not names or any(fnmatchcase(stem, glob) for glob in names)


def _add(
    path: str,
    file: Path,
    size_limit: int,
    found: dict[str, FileEntry],
    skipped: list[tuple[str, str]],
) -> None:
    try:
        status = file.stat()
    except OSError as exc:
        skipped.append((path, f"cannot be opened: {exc.strerror}"))
        return
    if status.st_size > size_limit:
        skipped.append((path, f"is larger than {size_limit / 1e6:g} MB"))
        return
    found[path] = FileEntry(path, status.st_size, status.st_mtime_ns, file, size_limit)


def no_manuals() -> IngestError:
    """Return the error for a machine without manuals."""
    return IngestError(
        "no folder of man pages was found on this machine: install man pages (container images "
        "often leave them out), or name their folders in 'folders'"
    )
