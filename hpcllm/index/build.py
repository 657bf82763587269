"""Build the next generation of the index.

Role: ``chunks, documents -> generation``. One process builds at a time; readers are never in the
way and never see a part. Order of writing: files of the generation, flush, manifest, flush, rename
of the folder, flush, ``current``. A kill at any point leaves the generation before in use.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import sqlite3
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hpcllm.errors import StoreError
from hpcllm.index import text as chunk_text
from hpcllm.index import tokenizer
from hpcllm.index.admission import (
    LOCK_TIMEOUT_S,
    BuildReport,
    is_admitted,
    locked,
    offer,
    open_held,
    unchanged_report,
)
from hpcllm.index.dense import EXACT_LIMIT, VECTORS_FILE, write_vectors
from hpcllm.index.duplicates import fold
from hpcllm.index.files import sync_folder, sync_tree, write_atomically
from hpcllm.index.fusion import row_factor
from hpcllm.index.generation import (
    BUILDING_PREFIX,
    LOCK_FILE,
    PREFIX,
    ROW_TYPE,
    ROWS_FILE,
    Generation,
    current_name,
    hold_back,
    open_current,
    prune,
    record_inputs,
    remove_leftovers,
    set_current,
)
from hpcllm.index.lexical import LEXICAL_FOLDER, write_lexical
from hpcllm.index.manifest import FORMAT, MANIFEST_FILE, Manifest, describe_files
from hpcllm.index.store import SCOPE_KEY, STORE_FILE, write_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hpcllm.index.admission import Admit
    from hpcllm.index.embedders.base import Embedder, Vectors
    from hpcllm.records import Chunk, Document

    Progress = Callable[[int, int | None], None]

logger = logging.getLogger(__name__)


def build_generation(
    index_dir: Path,
    chunks: Iterable[Chunk],
    documents: Iterable[Document],
    embedder: Embedder,
    *,
    progress: Progress | None = None,
    inputs: str = "",
    keep: int = 2,
    reuse: bool = True,
    admit: Admit | None = None,
    exact_limit: int = EXACT_LIMIT,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> BuildReport:
    """Bring the index to the given state: what is not given is gone afterwards.

    Args:
        index_dir: folder of the index, made where it is missing.
        chunks: all chunks; ids are unique and each chunk's document is among ``documents``.
        documents: all documents.
        embedder: computes vectors of chunks that the current generation does not hold.
        progress: called as ``progress(advance, total)`` with chunks embedded and to embed.
        inputs: fingerprint of what was read; :func:`~hpcllm.index.generation.recorded_inputs`
            gives it back for as long as this state is current.
        keep: generations to keep, the new one included.
        reuse: whether to take over vectors, and to do nothing where nothing has changed.
        admit: asked with the name of a complete generation whether it may serve, while the one
            before still does. Where it says no or raises, the new one is held back: it stays, and
            no reader opens it. None admits all.
        exact_limit: most vectors that are searched exactly.
        lock_timeout_s: longest wait for another build to end.

    Returns:
        What was done.

    Raises:
        StoreError: there is nothing to index, another build does not end, or the disk is full or
            cannot be written; what was in use stays in use.
        ModelError: embedding failed; what was in use stays in use.
        ValueError: chunk ids repeat, or a chunk's document is missing.
    """
    start = time.perf_counter()
    job = _Job(list(chunks), list(documents), embedder)
    job.check()
    options = _Options(reuse, keep, exact_limit, progress, admit, inputs)
    with locked(index_dir, lock_timeout_s), ExitStack() as opened:
        remove_leftovers(index_dir)
        before = _open_before(index_dir)
        held = open_held(index_dir) if reuse else None
        for generation in (before, held):
            if generation:
                opened.enter_context(generation)
        report = _next(index_dir, job, before, held, options, start)
        if not report.held:
            record_inputs(index_dir, report.generation, inputs)
        return report


@dataclass(frozen=True, slots=True)
class _Options:
    """How to build it."""

    reuse: bool
    keep: int
    exact_limit: int
    progress: Progress | None
    admit: Admit | None
    inputs: str


class _Job:
    """The state asked for."""

    def __init__(self, chunks: list[Chunk], documents: list[Document], embedder: Embedder) -> None:
        self.chunks = chunks
        self.documents = documents
        self.embedder = embedder
        self.corpus_sha256 = corpus_hash(chunks, documents, embedder)

    def check(self) -> None:
        if not self.chunks:
            raise StoreError(
                f"there is nothing to index: {len(self.documents)} documents gave 0 chunks; what "
                "was indexed before stays in use. Check the paths and patterns in sources.toml"
            )
        counts = Counter(chunk.id for chunk in self.chunks)
        twice = next((chunk_id for chunk_id, count in counts.items() if count > 1), None)
        if twice:
            raise ValueError(f"chunk ids must be unique, got {twice!r} {counts[twice]} times")
        known = {(document.source, document.path) for document in self.documents}
        if len(known) != len(self.documents):
            raise ValueError("documents must be unique by source and path")
        lost = next((c for c in self.chunks if (c.source, c.path) not in known), None)
        if lost:
            raise ValueError(f"the document of {lost!r} is not among the documents given")


def corpus_hash(chunks: Iterable[Chunk], documents: Iterable[Document], embedder: Embedder) -> str:
    """Return a hash over everything that decides the content of a generation."""
    versions = (FORMAT, tokenizer.VERSION, chunk_text.VERSION, embedder.id, embedder.sha256)
    digest = hashlib.sha256(repr(versions).encode())
    for document in documents:
        digest.update(_bytes_of(document, sorted(document.metadata.items())))
    for chunk in chunks:
        digest.update(_bytes_of(chunk, None))
    return digest.hexdigest()


def _bytes_of(record: Document | Chunk, metadata: object) -> bytes:
    values = tuple(
        metadata if name == "metadata" else getattr(record, name) for name in record.__slots__
    )
    return repr(values).encode("utf-8", "surrogatepass")


def _open_before(index_dir: Path) -> Generation | None:
    """Open what is in use, or what could be; None where there is nothing sound."""
    try:
        return open_current(index_dir)
    except StoreError as exc:
        if current_name(index_dir) is not None:
            logger.warning("building anew: %s", exc)
        return None


def _reinstate(before: Generation) -> None:
    """Put ``before`` in use again where a damaged successor that equals it is named as current."""
    if current_name(before.path.parent) != before.name:
        set_current(before.path.parent, before.name)


def _next(
    index_dir: Path,
    job: _Job,
    before: Generation | None,
    held: Generation | None,
    options: _Options,
    start: float,
) -> BuildReport:
    """Take what is in use or held back where it is of the state asked for; else build it."""
    if before and options.reuse and before.manifest.corpus_sha256 == job.corpus_sha256:
        _reinstate(before)
        return unchanged_report(before, start)
    if held and held.manifest.corpus_sha256 == job.corpus_sha256:
        hold_back(held.path, options.inputs)
        return offer(index_dir, held, options.admit, options.keep, start)
    return _build(index_dir, job, before, held, options, start)


def _build(
    index_dir: Path,
    job: _Job,
    before: Generation | None,
    held: Generation | None,
    options: _Options,
    start: float,
) -> BuildReport:
    keys = [chunk_text.vector_key(chunk) for chunk in job.chunks]
    reusable = [known for known in (before, held) if known and options.reuse]
    vectors, reused = _all_vectors(job, keys, reusable, options.progress)
    apart = {item.source for item in job.documents if SCOPE_KEY in item.metadata}
    folded = fold(job.chunks, vectors, apart)
    name = _new_name(job)
    with _writing(index_dir, name) as folder:
        _write(folder, job, keys, vectors, folded, name, options.exact_limit)
        if options.admit:
            hold_back(folder, options.inputs)
    serves = is_admitted(index_dir, name, options.admit)
    removed = before.store.ids() - {chunk.id for chunk in job.chunks} if before else ()
    for known in reusable if before is None else [before, *reusable]:
        known.close()
    return BuildReport(
        generation=name if serves else current_name(index_dir) or "",
        unchanged=False,
        documents=len(job.documents),
        chunks=len(job.chunks),
        embedded=len(job.chunks) - reused,
        reused=reused,
        removed=len(removed),
        folded=sum(kept is not None for kept in folded),
        seconds=time.perf_counter() - start,
        pruned=tuple(prune(index_dir, keep=options.keep)),
        held="" if serves else name,
    )


def _new_name(job: _Job) -> str:
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    return f"{PREFIX}{now}Z-{job.corpus_sha256[:8]}"


def _all_vectors(
    job: _Job, keys: Sequence[bytes], known: Sequence[Generation], progress: Progress | None
) -> tuple[Vectors, int]:
    """Return the vectors of all chunks and how many of them were not computed."""
    vectors = np.zeros((len(keys), job.embedder.dimension), dtype=np.float32)
    reused = _reused(vectors, keys, job.embedder, known)
    missing = np.flatnonzero(~reused)
    if progress:
        progress(0, len(missing))
    if len(missing):
        texts = [chunk_text.embedding_text(job.chunks[i]) for i in missing]
        vectors[missing] = job.embedder.embed(
            texts, progress=progress and partial(_advance, progress)
        )
    return vectors, len(keys) - len(missing)


def _advance(progress: Progress, count: int) -> None:
    progress(count, None)


def _reused(
    vectors: Vectors, keys: Sequence[bytes], embedder: Embedder, known: Sequence[Generation]
) -> NDArray[np.bool_]:
    """Fill in the vectors that ``known`` hold; return ``(len(keys),)`` bool, True where so."""
    reused = np.zeros(len(keys), dtype=bool)
    for generation in known:
        if reused.all() or not _same_embedder(generation.manifest, embedder):
            continue
        rows_by_key = generation.store.vector_rows()
        rows = np.array([rows_by_key.get(key, -1) for key in keys], dtype=np.int64)
        found = (rows >= 0) & ~reused
        vectors[found] = generation.dense.vectors(rows[found])
        reused |= found
    return reused


def _same_embedder(manifest: Manifest, embedder: Embedder) -> bool:
    known = (manifest.embedder_id, manifest.embedder_sha256, manifest.dimension)
    return known == (embedder.id, embedder.sha256, embedder.dimension)


@contextmanager
def _writing(index_dir: Path, name: str) -> Iterator[Path]:
    """Give a folder to write in that becomes generation ``name`` on success."""
    folder = index_dir / f"{BUILDING_PREFIX}{name}"
    try:
        folder.mkdir()
        yield folder
        folder.rename(index_dir / name)
        sync_folder(index_dir)
    except (OSError, sqlite3.Error, RuntimeError) as exc:  # FAISS raises RuntimeError
        reason = getattr(exc, "strerror", None) or str(exc).rsplit("\n", 1)[-1]
        raise StoreError(
            f"the new index cannot be written to {folder}: {reason}; what was in use stays in "
            "use. Free some space or check the folder's permissions, then: hpcllm ingest"
        ) from exc
    finally:
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)


def _write(
    folder: Path,
    job: _Job,
    keys: Sequence[bytes],
    vectors: Vectors,
    folded: Sequence[int | None],
    name: str,
    exact_limit: int,
) -> None:
    kept = [i for i, target in enumerate(folded) if target is None]
    copies = [i for i, target in enumerate(folded) if target is not None]
    rows = np.empty(len(folded), dtype=np.int64)
    rows[kept + copies] = np.arange(len(folded))
    clusters, languages = _names(job.chunks)
    dense = write_vectors(folder / VECTORS_FILE, vectors[kept], exact_limit=exact_limit)
    write_lexical(folder / LEXICAL_FOLDER, _searched_tokens(job.chunks, kept))
    table = _row_table(job, kept, clusters, languages)
    np.save(folder / ROWS_FILE, table, allow_pickle=False)
    write_store(
        folder / STORE_FILE,
        job.documents,
        job.chunks,
        rows=rows.tolist(),
        stands_in=[None if target is None else int(rows[target]) for target in folded],
        vector_keys=keys,
    )
    (folder / LOCK_FILE).touch()
    sync_tree(folder)
    manifest = Manifest(
        name=name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        corpus_sha256=job.corpus_sha256,
        embedder_id=job.embedder.id,
        embedder_sha256=job.embedder.sha256,
        dimension=job.embedder.dimension,
        documents=len(job.documents),
        chunks=len(job.chunks),
        vectors=len(kept),
        clusters=clusters,
        languages=languages,
        dense=dense,
        files=describe_files(folder),
    )
    write_atomically(folder / MANIFEST_FILE, manifest.to_text())


def _searched_tokens(chunks: Sequence[Chunk], kept: Sequence[int]) -> Iterator[list[str]]:
    for i in kept:
        yield chunk_text.lexical_tokens(chunks[i])


def _names(chunks: Iterable[Chunk]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    clusters, languages = set(), set()
    for chunk in chunks:
        languages.add(chunk.language)
        if chunk.cluster is not None:
            clusters.add(chunk.cluster)
    return tuple(sorted(clusters)), tuple(sorted(languages))


def _row_table(
    job: _Job, kept: Sequence[int], clusters: Sequence[str], languages: Sequence[str]
) -> NDArray[np.void]:
    numbers = {(item.source, item.path): number for number, item in enumerate(job.documents)}
    table = np.zeros(len(kept), dtype=ROW_TYPE)
    for row, i in enumerate(kept):
        chunk = job.chunks[i]
        number = numbers[chunk.source, chunk.path]
        table[row] = (
            number,
            chunk.position,
            -1 if chunk.cluster is None else clusters.index(chunk.cluster),
            languages.index(chunk.language),
            row_factor(chunk, job.documents[number]),
        )
    return table
