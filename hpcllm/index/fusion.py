"""Bring rankings by meaning and by words together, and weigh rows by how far they are trusted.

Role: numbers in, order out; knows rows, not texts.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hpcllm.records import Chunk, Document, Status

    Rows = NDArray[np.int64]
    Values = NDArray[np.float32]

logger = logging.getLogger(__name__)

RANK_OFFSET = 60
"""The k of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): a row at rank r adds
1 / (k + r). Higher makes the first ranks count less against the later ones."""

STATUS_FACTORS: dict[Status, float] = {
    "current": 1.0,
    "outdated": 0.85,
    "decommissioned": 0.8,
    "generated": 0.6,
}
"""What both similarities of a row are multiplied by before it is ranked. An outdated page still
comes first where nothing current is nearly as close; machine-made bulk where it is far ahead."""

WEIGHT_KEY = "weight"
"""Key of a document's metadata that holds the weight of its source, 1 where there is none."""


def row_factor(chunk: Chunk, document: Document) -> float:
    """Return what the similarities of ``chunk`` are multiplied by."""
    text = document.metadata.get(WEIGHT_KEY, "")
    try:
        weight = float(text) if text else 1.0
    except ValueError:
        logger.warning("%r has a weight that is no number: %r; 1 is taken", document, text)
        weight = 1.0
    return STATUS_FACTORS[chunk.status] * weight


def best_rows(scores: Values, n: int) -> Rows:
    """Return the ``n`` rows with the highest positive scores, best first, ties by row."""
    positive = np.flatnonzero(scores > 0)
    if len(positive) > n:
        part = np.argpartition(-scores[positive], n - 1)[:n]
        threshold = scores[positive[part]].min()
        positive = positive[scores[positive] >= threshold]
    order = np.lexsort((positive, -scores[positive]))
    return positive[order][:n]


def fuse(
    rankings: Sequence[Rows],
    *,
    weights: Sequence[float] | None = None,
    offset: int = RANK_OFFSET,
) -> tuple[Rows, Values]:
    """Fuse rankings by reciprocal rank.

    Args:
        rankings: rows, best first, each row at most once in a ranking.
        weights: what each ranking counts; None for 1 each.
        offset: see :data:`RANK_OFFSET`.

    Returns:
        Rows, best first, ties by row; and their scores, ``(n,)`` float32.
    """
    total: dict[int, float] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, row in enumerate(ranking.tolist(), 1):
            total[row] = total.get(row, 0.0) + weight / (offset + rank)
    order = sorted(total, key=lambda row: (-total[row], row))
    return (
        np.array(order, dtype=np.int64),
        np.array([total[row] for row in order], dtype=np.float32),
    )
