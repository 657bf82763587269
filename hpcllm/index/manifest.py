"""What a generation says of itself: ``manifest.json``, written last.

Role: its presence means that the generation is complete; its content decides whether this program,
this embedder and these files fit together. index/README.md explains each key.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from hpcllm.errors import StoreError
from hpcllm.index.files import files_under, sha256_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MANIFEST_FILE = "manifest.json"

FORMAT = 1
"""Version of the layout that this program writes, and the only one that it reads. An index holds
nothing that cannot be built again, so another version is rebuilt, not migrated."""

REBUILD = "rebuild it with: hpcllm ingest --rebuild"

VERIFIED_BYTES = 64_000_000
"""Files of a generation are hashed when it is opened until this many bytes, smallest first; of the
others the size is compared. Raising it finds more damage and makes opening slower."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """Size in bytes and SHA-256 of one file."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a generation holds and what it was made with.

    Attributes:
        name: the generation's name.
        created: UTC time in ISO 8601.
        corpus_sha256: hash over all documents, chunks and what else decides the content.
        embedder_id: name of the embedding model.
        embedder_sha256: hash of its weights.
        dimension: length of a vector.
        documents: pages.
        chunks: chunks in all.
        vectors: chunks that are searched: all but the folded ones.
        clusters: names of clusters; a chunk's number points into this list, -1 for all clusters.
        languages: language codes, likewise.
        dense: kind of vector index and its settings.
        files: every other file of the generation.
        format: version of the layout.
    """

    name: str
    created: str
    corpus_sha256: str
    embedder_id: str
    embedder_sha256: str
    dimension: int
    documents: int
    chunks: int
    vectors: int
    clusters: tuple[str, ...]
    languages: tuple[str, ...]
    dense: Mapping[str, Any]
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    format: int = FORMAT

    def to_text(self) -> str:
        """Return the JSON text, with a checksum over all other keys."""
        data = asdict(self)
        return json.dumps({**data, "checksum": _checksum(data)}, indent=1, sort_keys=True) + "\n"


def _checksum(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def describe_files(folder: Path) -> dict[str, FileEntry]:
    """Return an entry for every file under ``folder``."""
    return {
        name: FileEntry((folder / name).stat().st_size, sha256_of(folder / name))
        for name in files_under(folder)
    }


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of the generation in ``folder``.

    Raises:
        StoreError: it is missing, damaged, or of another format.
    """
    path = folder / MANIFEST_FILE
    try:
        data = json.loads(path.read_bytes())
        checksum = data.pop("checksum")
        version = data["format"]
    except FileNotFoundError as exc:
        raise StoreError(
            f"{folder} holds no {MANIFEST_FILE}, so it is not complete; {REBUILD}"
        ) from exc
    except OSError as exc:
        raise StoreError(f"{path} cannot be read: {exc.strerror}; check its permissions") from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise StoreError(f"{path} is damaged ({exc!r}); {REBUILD}") from exc
    if version != FORMAT:
        raise StoreError(
            f"{path} is of format {version!r}; this version of hpcllm reads format {FORMAT}; "
            f"{REBUILD}"
        )
    if checksum != _checksum(data):
        raise StoreError(f"{path} is damaged (its checksum does not match); {REBUILD}")
    data["files"] = {name: FileEntry(**entry) for name, entry in data["files"].items()}
    for key in ("clusters", "languages"):
        data[key] = tuple(data[key])
    return Manifest(**data)


def verify_files(folder: Path, manifest: Manifest, *, limit_bytes: int = VERIFIED_BYTES) -> None:
    """Compare the files of a generation with its manifest: all sizes, and hashes up to a limit.

    Args:
        folder: the generation.
        manifest: its manifest.
        limit_bytes: bytes to hash, smallest files first; sizes are always compared.

    Raises:
        StoreError: a file is missing or differs; the message names it.
    """
    for name, entry in sorted(manifest.files.items(), key=lambda item: item[1].size):
        path = folder / name
        try:
            size = path.stat().st_size
            limit_bytes -= size
            actual = sha256_of(path) if limit_bytes >= 0 and size == entry.size else entry.sha256
        except OSError as exc:
            raise StoreError(
                f"index file {path} cannot be read: {exc.strerror}; {REBUILD}"
            ) from exc
        if size != entry.size:
            raise StoreError(
                f"index file {path} is damaged: {size} bytes, expected {entry.size}; {REBUILD}"
            )
        if actual != entry.sha256:
            raise StoreError(
                f"index file {path} is damaged: SHA-256 {actual[:12]}…, expected "
                f"{entry.sha256[:12]}…; {REBUILD}"
            )
