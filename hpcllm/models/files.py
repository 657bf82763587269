"""Model files on this disk: where they lie, whether they are whole.

Role: hashing and verification. A file is hashed once; a stamp beside it remembers size, times and
hash, so that later starts only compare the stamp.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hpcllm.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from hpcllm.models.catalog import ModelEntry, ModelFile

logger = logging.getLogger(__name__)

STAMP_FILE = ".verified.json"
BLOCK_BYTES = 1 << 20
"""Bytes read and hashed at a time."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file looked like when it was hashed.

    Attributes:
        size: bytes.
        modified_ns: time of the last change of content.
        changed_ns: time of the last change of the entry itself; survives no copy.
        sha256: hash of the content.
        derived: whether the file was made on this machine.
        named: hash that the catalog named when it was made; empty takes its own.
    """

    size: int
    modified_ns: int
    changed_ns: int
    sha256: str
    derived: bool = False
    named: str = ""

    @classmethod
    def of(cls, path: Path, sha256: str, *, derived: bool = False, named: str = "") -> Stamp:
        """Return the stamp of the file as it is now."""
        status = path.stat()
        times = (status.st_mtime_ns, status.st_ctime_ns)
        return cls(status.st_size, *times, sha256, derived, named)

    def matches(self, path: Path) -> bool:
        """Whether the file still looks as it did."""
        status = path.stat()
        seen = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return seen == (self.size, self.modified_ns, self.changed_ns)


def model_folder(entry: ModelEntry, models_dir: Path) -> Path:
    """Return the folder of one model's files."""
    return models_dir / entry.id


def sha256_of(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """Return the SHA-256 of a file in hex.

    Args:
        path: the file.
        progress: called with the bytes read so far.
    """
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
            done += len(block)
            if progress:
                progress(done)
    return digest.hexdigest()


def needed_files(entry: ModelEntry, names: Iterable[str] = ()) -> list[ModelFile]:
    """Return the files that running the model takes, and those of ``names``.

    Raises:
        ModelError: a name is not among the entry's files.
    """
    asked = {entry.file(name).name for name in names}
    return [f for f in entry.files if f.name in asked or not (f.optional or f.role == "source")]


def local_files(
    entry: ModelEntry, models_dir: Path, *, names: Iterable[str] = (), verify: bool = False
) -> dict[str, Path]:
    """Return the model's files on this disk, each proven to be whole.

    Args:
        entry: the model.
        models_dir: folder that holds one folder a model.
        names: further files to include, such as optional ones.
        verify: hash every file again, even one whose stamp still matches.

    Returns:
        Path by file name, in the entry's order. Writes the stamps of files hashed for the first
        time.

    Raises:
        ModelError: files are absent or damaged; the message says how to fetch them.
    """
    stamps = read_stamps(model_folder(entry, models_dir))
    found: dict[str, Path] = {}
    missing: list[str] = []
    for file in needed_files(entry, names):
        path = model_folder(entry, models_dir) / file.name
        if not path.is_file():
            missing.append(file.name)
            continue
        problem = damage_of(path, file, stamps.get(file.name), verify=verify)
        if problem:
            raise ModelError(f"{path} is damaged: {problem}. {_remedy(entry, names, again=True)}")
        found[file.name] = path
    if missing:
        raise ModelError(
            f"model {entry.id} is not on this machine (missing in "
            f"{model_folder(entry, models_dir)}: {', '.join(missing)}). {_remedy(entry, names)}"
        )
    return found


def _remedy(entry: ModelEntry, names: Iterable[str], *, again: bool = False) -> str:
    options = "".join(f" --file {name}" for name in names)
    return f"Fetch it{' again' if again else ''} with: hpcllm models pull {entry.id}{options}"


def damage_of(path: Path, file: ModelFile, stamp: Stamp | None, *, verify: bool = False) -> str:
    """Return what is wrong with a file's content, or an empty string.

    A file that looks as its stamp says is taken as it is unless ``verify`` is set; any other is
    hashed, and stamped when it is whole.
    """
    made_here = stamp if file.derive and stamp and stamp.derived else None
    if made_here and (made_here.named or made_here.sha256) != file.sha256:
        return "it was made for another version of the catalog, perhaps with an older adapter"
    expected = made_here.sha256 if made_here else file.sha256
    size = path.stat().st_size
    if size != file.size and not (stamp and stamp.derived):
        return f"it has {size} bytes, expected {file.size}"
    if stamp and not verify and stamp.sha256 == expected and stamp.matches(path):
        return ""
    logger.info("checking %s (%d bytes)", path, size)
    actual = sha256_of(path)
    if actual != expected:
        return f"its SHA-256 is {actual}, expected {expected}"
    derived, named = (stamp.derived, stamp.named) if stamp else (False, "")
    write_stamp(path, Stamp.of(path, actual, derived=derived, named=named))
    return ""


def read_stamps(folder: Path) -> dict[str, Stamp]:
    """Return the stamps of a model's folder by file name; a damaged stamp file counts as none."""
    try:
        data = json.loads((folder / STAMP_FILE).read_text(encoding="utf-8"))
        return {name: Stamp(**fields) for name, fields in data.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as exc:
        logger.info("ignoring %s: %s", folder / STAMP_FILE, exc)
        return {}


def write_stamp(path: Path, stamp: Stamp) -> None:
    """Remember ``stamp`` for ``path``, unless the folder cannot be written."""
    folder = path.parent
    stamps = {**read_stamps(folder), path.name: stamp}
    partial = folder / f"{STAMP_FILE}.{os.getpid()}.partial"
    text = json.dumps({name: asdict(value) for name, value in stamps.items()}, indent=1)
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, folder / STAMP_FILE)
    except OSError as exc:
        logger.info("%s will be hashed again next time: %s", path, exc.strerror)
