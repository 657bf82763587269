"""Vectors: FAISS, exact for an ordinary site, with inverted lists for a very large one.

Role: rows by inner product. FAISS itself is imported on use.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcllm.errors import StoreError
from hpcllm.index.embedders.base import normalise_rows
from hpcllm.index.manifest import REBUILD

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from hpcllm.index.embedders.base import Vectors

    Rows = NDArray[np.int64]
    Mask = NDArray[np.bool_]

VECTORS_FILE = "vectors.faiss"

EXACT_LIMIT = 100_000
"""Most vectors searched exactly; past it a query would take more than some 15 ms."""

LISTS_PER_ROOT = 4
"""Inverted lists by square root of the number of vectors."""

TRAINING_PER_LIST = 64
"""Vectors a list that the lists are learnt from."""

RECALL_AIM = 0.98
"""Share of the true ten nearest that the number of probed lists is raised to reach."""

RECALL_SAMPLE = 200
"""Vectors that this share is measured on."""


QUERY_LIKENESS = 0.7
"""Cosine between a vector and the made-up question near it that this share is measured with."""


def _faiss() -> Any:
    """Import FAISS; its stubs know too little of its own classes to be of use."""
    return importlib.import_module("faiss")


@dataclass(frozen=True, slots=True)
class DenseHits:
    """Rows found for each query, best first.

    Attributes:
        rows: ``(queries, n)`` int64, -1 where fewer were found.
        similarities: ``(queries, n)`` float32, cosine in [-1, 1].
    """

    rows: Rows
    similarities: Vectors


def write_vectors(
    path: Path, vectors: Vectors, *, exact_limit: int = EXACT_LIMIT
) -> dict[str, Any]:
    """Write an index over ``vectors`` and return its description for the manifest.

    Args:
        path: file to create.
        vectors: ``(n, dimension)`` float32, unit rows.
        exact_limit: most vectors that are searched exactly.

    Raises:
        RuntimeError: the file cannot be written.
    """
    faiss = _faiss()
    count, dimension = vectors.shape
    if count <= exact_limit:
        index = faiss.IndexFlatIP(dimension)
        index.add(vectors)
        faiss.write_index(index, str(path))
        return {"kind": "flat"}
    lists = round(LISTS_PER_ROOT * math.sqrt(count))
    quantizer = faiss.IndexFlatIP(dimension)
    index = faiss.IndexIVFFlat(quantizer, dimension, lists, faiss.METRIC_INNER_PRODUCT)
    sample = np.random.default_rng(0).permutation(count)[: lists * TRAINING_PER_LIST]
    index.train(vectors[np.sort(sample)])
    index.add(vectors)
    index.nprobe = _probes(index, vectors)
    faiss.write_index(index, str(path))
    return {"kind": "ivf", "lists": lists, "probes": index.nprobe}


def _probes(index: Any, vectors: Vectors) -> int:
    """Return the fewest lists, doubling, whose search finds the true neighbours often enough."""
    queries = _made_up_queries(vectors)
    index.nprobe = index.nlist
    truth = index.search(queries, 10)[1]
    probes = 4
    while probes < index.nlist:
        index.nprobe = probes
        found = index.search(queries, 10)[1]
        shared = sum(len(np.intersect1d(a, b)) for a, b in zip(found, truth, strict=True))
        if shared >= RECALL_AIM * truth.size:
            break
        probes *= 2
    return min(probes, int(index.nlist))


def _made_up_queries(vectors: Vectors) -> Vectors:
    """Return unit rows at a set cosine from a sample of ``vectors``.

    The vectors themselves would flatter the search: each lies in the very list that is probed
    first, a real question lies between lists.
    """
    random = np.random.default_rng(1)
    near = vectors[np.sort(random.permutation(len(vectors))[:RECALL_SAMPLE])]
    noise = normalise_rows(random.standard_normal(near.shape).astype(np.float32))
    away = math.sqrt(1 - QUERY_LIKENESS**2)
    return normalise_rows(QUERY_LIKENESS * near + away * noise)


class DenseIndex:
    """Searches the vectors of one generation; read-only, memory-mapped, thread-safe.

    Args:
        path: the index file.
        dimension: expected length of a vector.
        count: expected number of vectors.
        settings: the manifest's description.

    Raises:
        StoreError: the file is damaged or holds something else.
    """

    def __init__(
        self, path: Path, *, dimension: int, count: int, settings: Mapping[str, Any]
    ) -> None:
        faiss = _faiss()
        try:
            # The plain IO_FLAG_MMAP reads a flat index into memory; this one maps it. What is
            # mapped so must never be added to: FAISS aborts the process.
            self._index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as exc:
            reason = str(exc).rsplit("\n", 1)[-1][:120]
            raise StoreError(f"index file {path} is damaged ({reason}); {REBUILD}") from exc
        if (self._index.d, self._index.ntotal) != (dimension, count):
            raise StoreError(
                f"index file {path} holds {self._index.ntotal} vectors of length {self._index.d}, "
                f"expected {count} of length {dimension}; {REBUILD}"
            )
        self.dimension = dimension
        self.count = count
        self._probes = int(settings.get("probes", 0))

    def search(self, queries: Vectors, n: int, mask: Mask | None = None) -> DenseHits:
        """Return the ``n`` rows nearest to each query.

        Args:
            queries: ``(queries, dimension)`` float32, unit rows.
            n: rows wanted a query, at least 1.
            mask: ``(count,)`` bool, True for rows that may be found; None for all.

        Raises:
            StoreError: the queries are of another length than the vectors.
        """
        if queries.ndim != 2 or queries.shape[1] != self.dimension:
            raise StoreError(
                f"the question's vector has shape {queries.shape}, expected (questions, "
                f"{self.dimension}): the index was built with another embedder; {REBUILD}"
            )
        n = max(1, min(n, self.count))
        parameters = self._parameters(mask)
        # One question is too little work to share: waiting for a second OpenMP thread costs tens
        # of times what the search does. The setting holds for the calling thread alone.
        _faiss().omp_set_num_threads(1)
        similarities, rows = self._index.search(
            np.ascontiguousarray(queries, dtype=np.float32), n, params=parameters
        )
        return DenseHits(rows, similarities)

    def _parameters(self, mask: Mask | None) -> Any:
        faiss = _faiss()
        selector = None
        if mask is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        if self._probes:
            return faiss.SearchParametersIVF(sel=selector, nprobe=self._probes)
        return faiss.SearchParameters(sel=selector) if selector else None

    def vectors(self, rows: Rows) -> Vectors:
        """Return ``(len(rows), dimension)`` float32: the stored vectors of ``rows``."""
        if self._probes:
            self._index.make_direct_map()
        found = np.empty((len(rows), self.dimension), dtype=np.float32)
        for place, row in enumerate(rows):
            self._index.reconstruct(int(row), found[place])
        return found
