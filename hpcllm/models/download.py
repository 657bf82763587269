"""Fetch a model's files, prove their hashes, and put them in place at once.

Role: the way from the catalog to files on this disk. The order for each file: already there and
whole; made from another file; each place in turn. What arrives with a wrong hash is discarded, and
nothing that was there before is touched until its successor is proven.
"""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from hpcllm.errors import DownloadError, ModelError
from hpcllm.models.files import (
    Stamp,
    damage_of,
    local_files,
    model_folder,
    needed_files,
    read_stamps,
    sha256_of,
    write_stamp,
)
from hpcllm.models.places import (
    FULL_DISK_ERRORS,
    DiskFullError,
    Fetch,
    HubAccess,
    PlaceError,
    copies_at_once,
    fetch,
    journal_of,
)
from hpcllm.workspace import reference_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hpcllm.models.catalog import Derivation, ModelEntry, ModelFile, Place

    Progress = Callable[[int, int, str], None]

__all__ = ["HubAccess", "local_files", "pull"]

logger = logging.getLogger(__name__)

ADAPTERS_FOLDER = "training/adapters"
"""Where adapters lie in a workspace."""

SPARE_BYTES = 16 << 20
"""Room that must be left over on the disk."""


def pull(
    entry: ModelEntry,
    models_dir: Path,
    *,
    progress: Progress | None = None,
    places: Sequence[Place] | None = None,
    names: Iterable[str] = (),
    hub: HubAccess | None = None,
) -> dict[str, Path]:
    """Make sure that a model's files are on this disk and whole; fetch what is not.

    Several processes may call this at once for one model: one fetches, the others wait.

    Args:
        entry: the model.
        models_dir: folder that holds one folder a model; made where it is absent.
        progress: called with bytes done, bytes in all and the file's name.
        places: tried instead of the catalog's own places.
        names: further files to fetch, such as optional ones.
        hub: how to reach the Hub; None takes the environment's settings.

    Returns:
        Path by file name.

    Raises:
        DownloadError: no place gave a file; every place is listed with its reason, and the path
            that the file can be copied to by hand.
        ModelError: the disk is full or cannot be written, or a file cannot be derived.
    """
    puller = _Puller(entry, models_dir, progress, places, hub or HubAccess())
    wanted = needed_files(entry, names)
    if not all(puller.is_whole(file) for file in wanted):
        with puller.locked():
            for file in wanted:
                puller.provide(file)
    return {file.name: puller.folder / file.name for file in wanted}


class _Puller:
    """One call of :func:`pull`."""

    def __init__(
        self,
        entry: ModelEntry,
        models_dir: Path,
        progress: Progress | None,
        places: Sequence[Place] | None,
        hub: HubAccess,
    ) -> None:
        self.entry = entry
        self.folder = model_folder(entry, models_dir)
        self._progress = progress or (lambda done, total, name: None)
        self._places = places
        self._hub = hub

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the model's lock; leave no work folder behind."""
        self._make_folder()
        lock = FileLock(self.folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            logger.warning("another process is fetching %s; waiting for it", self.entry.id)
            lock.acquire()
        try:
            yield
        finally:
            shutil.rmtree(self._work, ignore_errors=True)
            lock.release()

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ModelError(
                f"the folder of models {self.folder} cannot be made: {exc.strerror}. "
                "Set HPCLLM_HOME to a folder that you can write to"
            ) from exc
        if not os.access(self.folder, os.W_OK):
            raise ModelError(
                f"the folder of models {self.folder} cannot be written to. "
                "Set HPCLLM_HOME to a folder that you can write to"
            )

    @property
    def _work(self) -> Path:
        return self.folder / ".work"

    def is_whole(self, file: ModelFile) -> bool:
        """Whether the file lies in place with the right content."""
        path = self.folder / file.name
        if not path.is_file():
            return False
        problem = damage_of(path, file, read_stamps(self.folder).get(file.name))
        if problem:
            logger.warning("%s is damaged and will be replaced: %s", path, problem)
        return not problem

    def provide(self, file: ModelFile) -> Path:
        """Return the path of the file, fetched or made where need be."""
        path = self.folder / file.name
        if self.is_whole(file):
            return path
        if file.derive:
            self._derive(file, path)
        elif not self._take_over(file, path):
            self._fetch(file, path)
        return path

    def _take_over(self, file: ModelFile, path: Path) -> bool:
        """Use the same file of another model, such as the base that an adapter is merged into."""
        for folder in sorted(self.folder.parent.iterdir()):
            other = folder / file.name
            if folder == self.folder or not other.is_file() or other.stat().st_size != file.size:
                continue
            if damage_of(other, file, read_stamps(folder).get(file.name)):
                continue
            try:
                os.link(other, path)
            except OSError:  # other file system, or one without hard links
                continue
            write_stamp(path, Stamp.of(path, file.sha256))
            # A second name changes the file's time of change, which its first stamp holds.
            write_stamp(other, Stamp.of(other, file.sha256))
            logger.info("%s is %s", path, other)
            return True
        return False

    def _derive(self, file: ModelFile, path: Path) -> None:
        assert file.derive is not None
        source = self.provide(self.entry.file(file.derive.source))
        self._check_room(file, 1.0)
        logger.info("making %s from %s", file.name, source.name)
        with self._full_disk_named(file):
            _make(source, path, file.derive, self._progress_of_tensors(file))
        actual = sha256_of(path)
        if actual != file.sha256:
            # The source was proven and the work done here, so this is another version of the
            # writer, not damage; later damage shows against the hash that is remembered.
            logger.warning(
                "%s was made with SHA-256 %s, the catalog names %s: the libraries of this machine "
                "write it differently",
                *(path, actual, file.sha256),
            )
        write_stamp(path, Stamp.of(path, actual, derived=True, named=file.sha256))

    def _progress_of_tensors(self, file: ModelFile) -> Progress:
        return lambda done, total, name: self._progress(
            file.size * done // total, file.size, f"making {name}"
        )

    def _fetch(self, file: ModelFile, path: Path) -> None:
        reasons: list[str] = []
        for place in file.places if self._places is None else self._places:
            try:
                self._fetch_from(place, file, path)
            except PlaceError as exc:
                logger.info("%s: %s: %s", file.name, place.describe(), exc)
                reasons.append(f"{place.describe()}: {exc}")
            else:
                return
        raise DownloadError(self._failure(file, path, reasons))

    def _failure(self, file: ModelFile, path: Path, reasons: list[str]) -> str:
        lines = [f"{file.name} of {self.entry.id} could not be fetched from any place:"]
        lines += [f"  - {reason}" for reason in reasons]
        lines.append(
            f"To bring it by hand, copy the file ({file.size} bytes, SHA-256 {file.sha256}) to "
            f"{path} and run: hpcllm models pull {self.entry.id}"
        )
        return "\n".join(lines)

    def _fetch_from(self, place: Place, file: ModelFile, path: Path) -> None:
        partial = self.folder / f".{file.name}.partial"
        self._check_room(file, copies_at_once(place), partial)
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir()
        job = Fetch(file, partial, self._work, self._hub, self._report(file))
        try:
            with self._full_disk_named(file):
                actual = fetch(place, job)
        except BaseException:
            if not journal_of(partial).exists():  # nothing that a later run could go on from
                partial.unlink(missing_ok=True)
            raise
        if actual != file.sha256:
            partial.unlink()
            raise PlaceError(
                f"what arrived has SHA-256 {actual} instead of {file.sha256} and was discarded"
            )
        os.replace(partial, path)
        write_stamp(path, Stamp.of(path, actual))

    def _report(self, file: ModelFile) -> Callable[[int], None]:
        return lambda done: self._progress(done, file.size, file.name)

    def _check_room(self, file: ModelFile, copies: float, partial: Path | None = None) -> None:
        there = partial.stat().st_size if partial is not None and partial.exists() else 0
        needed = int(file.size * copies) + SPARE_BYTES - there
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise self._full_disk(file, needed, free)

    @contextmanager
    def _full_disk_named(self, file: ModelFile) -> Iterator[None]:
        try:
            yield
        except DiskFullError as exc:
            raise self._full_disk(file, file.size, shutil.disk_usage(self.folder).free) from exc
        except ModelError as exc:
            if getattr(exc.__cause__, "errno", None) in FULL_DISK_ERRORS:
                free = shutil.disk_usage(self.folder).free
                raise self._full_disk(file, file.size, free) from exc
            raise

    def _full_disk(self, file: ModelFile, needed: int, free: int) -> ModelError:
        return ModelError(
            f"no room for {file.name} in {self.folder}: {readable(needed)} needed, "
            f"{readable(free)} free. Make room there, or set HPCLLM_HOME to a larger disk"
        )


def _make(source: Path, target: Path, how: Derivation, progress: Progress) -> None:
    if how.kind == "requantise":
        from hpcllm.models.gguf import requantise

        requantise(source, target, how.type, progress=progress)
        return
    from hpcllm.models.adapters import merge_adapter

    merge_adapter(source, adapter_folder(how.adapter), target, how.type, progress=progress)


def adapter_folder(name: str) -> Path:
    """Return the folder of an adapter: a path as it is, else one that ships.

    Raises:
        ModelError: there is no such folder.
    """
    folder = Path(name).expanduser()
    if not folder.is_absolute():
        folder = reference_root() / ADAPTERS_FOLDER / name
    if not folder.is_dir():
        raise ModelError(
            f"adapter {name!r} is not in {folder.parent}: train it with hpcllm train, or copy its "
            "folder there"
        )
    return folder


def readable(size: int) -> str:
    """Return a number of bytes as people write it: ``491 MB``, ``1.1 GB``."""
    if size < 10**6:
        return f"{size} bytes"
    return f"{size / 10**6:.0f} MB" if size < 10**9 else f"{size / 10**9:.1f} GB"
