"""The files of an opened source: found once, read one by one, each with its public address.

Role: what :func:`hpcllm.corpus.sources.open_source` returns, and the walk over a folder.
"""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from hpcllm.corpus.matching import matches_any
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

logger = logging.getLogger(__name__)

UrlStyle = Literal["auto", "directory", "html", "file", "repository"]
"""How paths become addresses, see :class:`Links`."""

SIZE_LIMIT = 20_000_000
"""Bytes of the largest file that is read by default."""
SKIPPED_FOLDERS = frozenset(("CVS", "node_modules", "__pycache__"))
"""Folders never looked into, besides hidden ones."""
PAGE_SUFFIXES = frozenset((".md", ".markdown", ".mdx", ".rst", ".ipynb", ".snip", ".shtml",
                           *(f".{section}" for section in range(1, 10))))  # fmt: skip
"""Files that a site generator turns into a page; others are published as they are."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a source.

    Attributes:
        path: POSIX path relative to the source's root.
        size: length in bytes when it was found.
        modified_ns: time of last change, nanoseconds since 1970.
        location: where it lies.
        size_limit: most bytes that are read.
    """

    path: str
    size: int
    modified_ns: int
    location: Path
    size_limit: int = SIZE_LIMIT

    def read(self) -> bytes:
        """Return the content.

        Raises:
            IngestError: unreadable, gone, or grown past the size limit.
        """
        try:
            with self.location.open("rb") as stream:
                data = stream.read(self.size_limit + 1)
        except OSError as exc:
            raise IngestError(
                f"{self.path} cannot be read: {exc.strerror or exc}; check its permissions"
            ) from exc
        if len(data) > self.size_limit:
            raise IngestError(f"{self.path} {_over(len(data), self.size_limit)}")
        return data


@dataclass(frozen=True, slots=True)
class Links:
    """Turns paths into public addresses.

    Attributes:
        base_url: address of the published root, or None for no addresses.
        style: ``directory`` (``a/b.md`` is ``a/b/``, as MkDocs does), ``html`` (``a/b.html``, as
            Sphinx and mdBook do), ``file`` (``a/b.md``), ``repository`` (the file at its commit
            on GitHub, GitLab or alike) or ``auto``.
        prefixes: leading folders that are no part of the address, such as ``docs``.
        root: folder of the source, where ``auto`` looks for the site generator's settings.
        revision: commit, for ``repository``.
        subfolder: place of the root in its repository, for ``repository``.
        known: addresses by path, which come before all rules (websites).
    """

    base_url: str | None = None
    style: UrlStyle = "auto"
    prefixes: tuple[str, ...] = ()
    root: Path | None = None
    revision: str = ""
    subfolder: str = ""
    known: Mapping[str, str] = field(default_factory=dict)

    def address(self, path: str) -> str | None:
        """Return the address of ``path``, or None where the source has no base URL."""
        if path in self.known:
            return self.known[path]
        if not self.base_url:
            return None
        base = self.base_url.rstrip("/")
        style = self._detected(path) if self.style == "auto" else self.style
        if style == "repository":
            return self._in_repository(base, path)
        return f"{base}/{quote(_published(self._stripped(path), style))}"

    def _stripped(self, path: str) -> str:
        for prefix in sorted(self.prefixes, key=len, reverse=True):
            folder = f"{prefix.strip('/')}/"
            if path.startswith(folder):
                return path[len(folder) :]
        return path

    def _in_repository(self, base: str, path: str) -> str:
        base = base.removesuffix(".git")
        place = "/".join(filter(None, [self.subfolder.strip("/"), path]))
        marker = "-/blob" if "gitlab" in base.split("/")[2:3][0] else "blob"
        return f"{base}/{marker}/{self.revision or 'HEAD'}/{quote(place)}"

    def _detected(self, path: str) -> UrlStyle:
        """Tell the site generator from the file itself, or from its settings near the root."""
        suffix = os.path.splitext(path)[1].lower()
        if suffix in (".rst", ".shtml"):
            return "html"
        if self.root is not None:
            for folder in (self.root, self.root.parent):
                if (folder / "mkdocs.yml").is_file() or (folder / "mkdocs.yaml").is_file():
                    return "directory"
                if (folder / "book.toml").is_file() or (folder / "conf.py").is_file():
                    return "html"
        return "file"


def _published(path: str, style: UrlStyle) -> str:
    stem, suffix = os.path.splitext(path)
    folder, _, name = stem.rpartition("/")
    if style == "file" or suffix.lower() not in PAGE_SUFFIXES:
        return path
    is_index = name.lower() == "index" or (name.lower() == "readme" and suffix != ".rst")
    if style == "html":
        return f"{folder}/index.html".lstrip("/") if is_index else f"{stem}.html"
    if is_index:
        return f"{folder}/" if folder else ""
    return f"{stem}/"


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files of an opened source, in the order of their paths; iterate to get them.

    Attributes:
        root: folder that paths are relative to.
        entries: the files.
        revision: commit of what was opened, or empty.
        skipped: what was left out: path and reason.
        links: turns paths into addresses.
    """

    root: Path
    entries: tuple[FileEntry, ...] = ()
    revision: str = ""
    skipped: tuple[tuple[str, str], ...] = ()
    links: Links = Links()

    def __iter__(self) -> Iterator[FileEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def url_for(self, path: str) -> str | None:
        """Return the public address of a file, or None where the source has no base URL."""
        return self.links.address(path)


@dataclass(slots=True)
class FolderWalk:
    """One walk over a folder.

    Attributes:
        root: the folder.
        include: globs of files to take; empty takes all.
        exclude: globs of files and folders to leave out.
        size_limit: bytes of the largest file taken.
        entries: files found.
        skipped: what was left out for another reason than the globs.
    """

    root: Path
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    size_limit: int = SIZE_LIMIT
    entries: list[FileEntry] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def run(self) -> None:
        """Fill :attr:`entries` and :attr:`skipped`, sorted by path."""
        real_root = self.root.resolve()
        # Links to folders come last, so that a folder is read under its own name.
        pending, linked = [(self.root, "")], list[tuple[Path, str]]()
        while pending or linked:
            folder, prefix = pending.pop() if pending else linked.pop(0)
            if not self._is_new(folder, prefix):
                continue
            for entry in self._listed(folder, prefix):
                path = f"{prefix}{entry.name}"
                if self._is_ruled_out(entry.name, path):
                    continue
                if entry.is_symlink() and not self._stays_inside(entry, path, real_root):
                    continue
                if self._is_folder(entry):
                    target = linked if entry.is_symlink() else pending
                    target.append((Path(entry.path), f"{path}/"))
                else:
                    self._add(entry, path)
        self.entries.sort(key=lambda found: found.path)
        # Names that are not UTF-8 are shown escaped: they can neither be printed nor stored.
        self.skipped[:] = sorted((_printable(path), reason) for path, reason in self.skipped)

    def _is_new(self, folder: Path, prefix: str) -> bool:
        """Say whether a folder was not walked yet: links may lead to one twice, or in circles."""
        try:
            status = folder.stat()
        except OSError as exc:
            self.skipped.append((prefix or ".", f"cannot be opened: {exc.strerror}"))
            return False
        key = (status.st_dev, status.st_ino)
        if key in self._seen:
            self.skipped.append((prefix.rstrip("/"), "a link to a folder that is read elsewhere"))
            return False
        self._seen.add(key)
        return True

    def _listed(self, folder: Path, prefix: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as found:
                return sorted(found, key=lambda entry: entry.name)
        except OSError as exc:
            self.skipped.append(
                (prefix or ".", f"cannot be opened: {exc.strerror}; check its permissions")
            )
            return []

    def _is_ruled_out(self, name: str, path: str) -> bool:
        if name.startswith(".") or name in SKIPPED_FOLDERS:
            return True
        return bool(self.exclude) and matches_any(path, self.exclude)

    def _stays_inside(self, entry: os.DirEntry[str], path: str, real_root: Path) -> bool:
        try:
            inside = Path(entry.path).resolve(strict=True).is_relative_to(real_root)
        except (OSError, RuntimeError):
            self.skipped.append((path, "a link that leads nowhere or in a circle"))
            return False
        if not inside:
            self.skipped.append((path, "a link that leads out of the source's folder"))
        return inside

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir()
        except OSError:
            return False

    def _add(self, entry: os.DirEntry[str], path: str) -> None:
        if self.include and not matches_any(path, self.include):
            return
        try:
            status = entry.stat()
        except OSError as exc:
            self.skipped.append((path, f"cannot be opened: {exc.strerror}"))
            return
        reason = self._objection(status, entry.path)
        if reason:
            self.skipped.append((path, reason))
            return
        self.entries.append(
            FileEntry(path, status.st_size, status.st_mtime_ns, Path(entry.path), self.size_limit)
        )

    def _objection(self, status: os.stat_result, location: str) -> str:
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        if status.st_size > self.size_limit:
            return _over(status.st_size, self.size_limit)
        if not os.access(location, os.R_OK):
            return "cannot be read: check its permissions"
        try:
            location.encode()
        except UnicodeEncodeError:
            return "its name is not UTF-8: rename it"
        return ""


def _printable(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _over(size: int, limit: int) -> str:
    return (
        f"is larger than {limit / 1e6:g} MB ({size / 1e6:.1f} MB): split it, "
        "exclude it, or raise size_limit_mb of the source"
    )
