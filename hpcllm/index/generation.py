"""Generations: complete, immutable states of the index, of which one is current.

Role: opening, listing, switching and removing them. Layout (index/README.md has the details)::

    index/
        current                 name of the generation in use, replaced in one step
        inputs                  fingerprint of the files that it was made from
        build.lock              held by the one process that builds
        gen-<time>-<hash>/      a complete generation: manifest.json was written last
            held                it must not serve: its gate does not hold, or has not been asked
        building-…, discarded-… left by a builder that was killed; the next one removes them

A reader holds a shared lock on its generation as long as it is open, and :func:`prune` removes
only what nobody holds.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hpcllm.errors import StoreError
from hpcllm.index.files import sync_folder, write_atomically
from hpcllm.index.manifest import REBUILD, read_manifest, verify_files
from hpcllm.index.store import STORE_FILE, Store

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from hpcllm.index.dense import DenseIndex
    from hpcllm.index.lexical import LexicalIndex
    from hpcllm.index.manifest import Manifest
    from hpcllm.records import Chunk, Document

logger = logging.getLogger(__name__)

CURRENT_FILE = "current"
INPUTS_FILE = "inputs"
HELD_FILE = "held"
"""Marks a complete generation that must not serve; its text is the fingerprint of what was read."""
LOCK_FILE = "lock"
ROWS_FILE = "rows.npy"
PREFIX = "gen-"
BUILDING_PREFIX = "building-"
DISCARDED_PREFIX = "discarded-"

OPEN_ATTEMPTS = 5
"""Tries to open the current generation while others replace and remove generations."""

ROW_TYPE = np.dtype(
    [
        ("document", "<i4"),
        ("position", "<i4"),
        ("cluster", "<i2"),
        ("language", "<i2"),
        ("factor", "<f4"),
    ]
)
"""What search must know of every row without asking the database: number of its document, position
in it, numbers of cluster (-1: all) and language in the manifest's lists, weight of its score."""


class Generation:
    """One complete state of the index, open for reading; thread-safe.

    Args:
        path: folder of the generation.

    Attributes:
        name: its name.
        path: its folder.
        manifest: what it says of itself.

    Raises:
        StoreError: it is incomplete, damaged or of another format; the message names the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self._lock = _hold(path / LOCK_FILE)
        try:
            self.manifest: Manifest = read_manifest(path)
            verify_files(path, self.manifest)
            self.store = Store(path / STORE_FILE)
            self.rows = _read_rows(path / ROWS_FILE, self.manifest.vectors)
        except BaseException:
            self._release()
            raise

    @cached_property
    def dense(self) -> DenseIndex:
        """The vectors."""
        from hpcllm.index.dense import VECTORS_FILE, DenseIndex

        return DenseIndex(
            self.path / VECTORS_FILE,
            dimension=self.manifest.dimension,
            count=self.manifest.vectors,
            settings=self.manifest.dense,
        )

    @cached_property
    def lexical(self) -> LexicalIndex:
        """The words."""
        from hpcllm.index.lexical import LEXICAL_FOLDER, LexicalIndex

        return LexicalIndex(self.path / LEXICAL_FOLDER, count=self.manifest.vectors)

    def chunk(self, chunk_id: str) -> Chunk | None:
        """Return the chunk with this id, or None; folded duplicates are found too."""
        return self.store.chunk(chunk_id)

    def document(self, source: str, path: str) -> Document | None:
        """Return a page with its full canonical text, or None."""
        return self.store.document(source, path)

    def verify(self) -> None:
        """Compare every byte with the manifest.

        Raises:
            StoreError: a file differs; the message names it.
        """
        total = sum(entry.size for entry in self.manifest.files.values())
        verify_files(self.path, self.manifest, limit_bytes=total)

    def close(self) -> None:
        """Let go of the files; the generation may be removed from then on."""
        self.store.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_lock", None) is not None:
            self._release()

    def __repr__(self) -> str:
        return f"Generation({self.name}, {self.manifest.chunks} chunks)"


def _hold(path: Path) -> int | None:
    """Take a shared lock on ``path``; None where the file system knows no locks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as exc:
        raise StoreError(
            f"{path.parent} is not complete: it holds no {path.name}; {REBUILD}"
        ) from exc
    except OSError as exc:
        raise StoreError(f"{path} cannot be read: {exc.strerror}; check its permissions") from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError as exc:
        logger.debug("no lock on %s: %s", path, exc)
        os.close(descriptor)
        return None
    return descriptor


def _read_rows(path: Path, count: int) -> NDArray[np.void]:
    try:
        rows: NDArray[np.void] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as exc:
        raise StoreError(f"index file {path} is damaged ({exc}); {REBUILD}") from exc
    if rows.dtype != ROW_TYPE or rows.shape != (count,):
        raise StoreError(
            f"index file {path} holds {rows.dtype} of shape {rows.shape}, expected {count} rows; "
            f"{REBUILD}"
        )
    return rows


def current_name(index_dir: Path) -> str | None:
    """Return the name that ``current`` holds, or None where there is no such file."""
    try:
        return (index_dir / CURRENT_FILE).read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(
            f"{index_dir / CURRENT_FILE} cannot be read: {exc.strerror}; check its permissions"
        ) from exc


def set_current(index_dir: Path, name: str) -> None:
    """Make ``name`` the generation that new readers open, in one step."""
    write_atomically(index_dir / CURRENT_FILE, f"{name}\n")


def record_inputs(index_dir: Path, name: str, inputs: str) -> None:
    """Note that generation ``name`` was made from what ``inputs`` is the fingerprint of."""
    write_atomically(index_dir / INPUTS_FILE, f"{name} {inputs}\n")


def recorded_inputs(index_dir: Path, name: str | None = None) -> str | None:
    """Return the fingerprint of what a generation was made from, or None where it is not noted.

    Args:
        index_dir: folder of the index.
        name: the generation; None means the current one.
    """
    try:
        noted, _, inputs = (index_dir / INPUTS_FILE).read_text(encoding="utf-8").partition(" ")
    except (OSError, UnicodeDecodeError):
        return None  # nothing depends on it: what was read is then read again
    return (inputs.strip() or None) if noted == (name or current_name(index_dir)) else None


def is_held(path: Path) -> bool:
    """Say whether the generation in folder ``path`` is held back by its gate."""
    return (path / HELD_FILE).exists()


def hold_back(path: Path, inputs: str) -> None:
    """Mark the generation in ``path`` as one that must not serve, made from ``inputs``."""
    write_atomically(path / HELD_FILE, f"{inputs}\n")


def held_name(index_dir: Path) -> str | None:
    """Return the name of the newest generation that is held back, or None."""
    current = current_name(index_dir)
    names = (name for name in list_generations(index_dir) if name != current)
    return next((name for name in names if is_held(index_dir / name)), None)


def held_inputs(index_dir: Path, name: str) -> str | None:
    """Return the fingerprint of what a held generation was made from; None where it is not held."""
    try:
        return (index_dir / name / HELD_FILE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def put_in_use(index_dir: Path, name: str) -> None:
    """Make a generation current, whether it was held back or is an older one.

    Args:
        index_dir: folder of the index.
        name: the generation; it is held back no longer.

    Raises:
        StoreError: there is no such generation; the message lists those that are there.
    """
    known = list_generations(index_dir)
    if name not in known:
        raise StoreError(
            f"{index_dir} has no generation {name!r}: its generations are "
            f"{', '.join(known) or 'none'}"
        )
    inputs = held_inputs(index_dir, name)
    set_current(index_dir, name)
    if inputs is not None:
        record_inputs(index_dir, name, inputs)
        (index_dir / name / HELD_FILE).unlink(missing_ok=True)


def list_generations(index_dir: Path) -> list[str]:
    """Return the names of all generations, newest first; incomplete ones are never among them."""
    if not index_dir.is_dir():
        return []
    names = (entry.name for entry in index_dir.iterdir() if entry.is_dir())
    return sorted((name for name in names if name.startswith(PREFIX)), reverse=True)


def open_current(index_dir: Path) -> Generation:
    """Open the current generation, or the newest sound one where that is damaged.

    Args:
        index_dir: folder of the index.

    Returns:
        The generation; falling back to an older one is logged as a warning.

    Raises:
        StoreError: there is no index, or every generation is damaged; the message names the
            damaged file and says how to rebuild.
    """
    for attempt in range(1, OPEN_ATTEMPTS + 1):
        name = current_name(index_dir)
        if name is None and not _servable(index_dir):
            raise StoreError(_nothing_serves(index_dir))
        try:
            return Generation(_folder(index_dir, name))
        except StoreError as exc:
            if attempt < OPEN_ATTEMPTS and current_name(index_dir) != name:
                continue  # a builder put another one in its place meanwhile
            return _open_older(index_dir, name, exc)
    raise AssertionError("unreachable")


def _folder(index_dir: Path, name: str | None) -> Path:
    if name is None:
        raise StoreError(f"{index_dir / CURRENT_FILE} is missing; {REBUILD}")
    if name not in list_generations(index_dir):
        raise StoreError(
            f"{index_dir / CURRENT_FILE} names {name!r}, which does not exist; {REBUILD}"
        )
    return index_dir / name


def _servable(index_dir: Path) -> list[str]:
    return [name for name in list_generations(index_dir) if not is_held(index_dir / name)]


def _nothing_serves(index_dir: Path) -> str:
    held = held_name(index_dir)
    if held is None:
        return f"{index_dir} holds no index yet; build one with: hpcllm ingest"
    return (
        f"{index_dir} has no generation in use, for {held} is held back by its gate; ask the gate "
        f"again with: hpcllm ingest, or put it in use all the same with: hpcllm ingest --use {held}"
    )


def _open_older(index_dir: Path, damaged: str | None, error: StoreError) -> Generation:
    for name in _servable(index_dir):
        if name == damaged:
            continue
        try:
            generation = Generation(index_dir / name)
        except StoreError as exc:
            logger.debug("generation %s cannot serve either: %s", name, exc)
            continue
        logger.warning("%s. Serving the older generation %s meanwhile", error, name)
        return generation
    raise error


def prune(index_dir: Path, *, keep: int = 2) -> list[str]:
    """Remove old generations that nobody reads.

    Args:
        index_dir: folder of the index.
        keep: newest generations to keep, at least 1; the current one is kept in any case, and
            so is one newer than it that is held back.

    Returns:
        Names of those removed.
    """
    current = current_name(index_dir)
    names = list_generations(index_dir)
    held = [name for name in names if name != current and is_held(index_dir / name)]
    old = [name for name in names if name != current and name not in held]
    spared = keep - 1 if current in names else keep
    outdated = [name for name in held if name != held[0] or name < (current or "")]
    gone = [*old[max(spared, 0) :], *outdated]
    return [name for name in gone if _remove_unused(index_dir / name)]


def _remove_unused(path: Path) -> bool:
    """Remove a generation unless a reader holds it."""
    try:
        descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as exc:
        logger.warning("old generation %s cannot be removed: %s", path, exc.strerror)
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        discard(path)
    except BlockingIOError:
        logger.debug("generation %s is still being read", path.name)
        return False
    except OSError as exc:
        logger.warning("old generation %s cannot be removed: %s", path, exc.strerror)
        return False
    finally:
        os.close(descriptor)
    return True


def discard(path: Path) -> None:
    """Take a generation out of the listing in one step, then delete its files."""
    target = path.with_name(f"{DISCARDED_PREFIX}{path.name}")
    path.rename(target)
    sync_folder(path.parent)
    shutil.rmtree(target)


def remove_leftovers(index_dir: Path) -> list[str]:
    """Remove what a killed builder left; to be called by the holder of the build lock only."""
    prefixes = (BUILDING_PREFIX, DISCARDED_PREFIX)
    names = [entry.name for entry in index_dir.iterdir() if entry.name.startswith(prefixes)]
    for name in names:
        logger.info("removing %s, left by a build that did not finish", name)
        shutil.rmtree(index_dir / name, ignore_errors=True)
    return names
