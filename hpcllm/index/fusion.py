"""Bring rankings by meaning and by words together, and weigh rows by how far they are trusted.

Role: numbers in, order out; knows rows, not texts.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hpcllm.records import Chunk, Document, Status

    Rows = NDArray[np.int64]
    Values = NDArray[np.float32]
    Ranking: TypeAlias = tuple[Rows, Values]

logger = logging.getLogger(__name__)

MEANING_SHARE = 0.5
"""How much of the relative scores comes from meaning, the rest from words, 0 to 1."""

RANK_SHARE = 0.25
"""What reciprocal ranks add to the relative scores. Higher trusts order more than distance."""

RANK_OFFSET = 10
"""The k of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): a row at rank r adds
1 / (k + r). The paper's 60 is made for results of hundreds; of eight passages the first matter."""

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


STUB_WORDS = 10
"""A chunk with fewer words below its headings, links within the page aside, answers nothing: it
says "Applications" and no more, or is a table of contents."""

STUB_FACTOR = 0.6
"""What similarities of such a chunk are multiplied by; its title alone would carry it high."""

HEADING_LINE = re.compile(r"^#{1,6} .*$", re.MULTILINE)

PLACE_LINK = re.compile(r"\[[^\[\]\n]*(?:\n[^\[\]\n]+)?\]\(#[^()\s]*\)")
"""A link to a place on the same page; its words are those of what it leads to."""


def row_factor(chunk: Chunk, document: Document) -> float:
    """Return what the similarities of ``chunk`` are multiplied by."""
    said = PLACE_LINK.sub("", HEADING_LINE.sub("", chunk.text))
    stub = sum(any(c.isalnum() for c in word) for word in said.split()) < STUB_WORDS
    text = document.metadata.get(WEIGHT_KEY, "")
    try:
        weight = float(text) if text else 1.0
    except ValueError:
        logger.warning("%r has a weight that is no number: %r; 1 is taken", document, text)
        weight = 1.0
    return STATUS_FACTORS[chunk.status] * weight * (STUB_FACTOR if stub else 1.0)


def best_rows(scores: Values, n: int) -> Rows:
    """Return the ``n`` rows with the highest positive scores, best first, ties by row."""
    positive = np.flatnonzero(scores > 0)
    if len(positive) > n:
        part = np.argpartition(-scores[positive], n - 1)[:n]
        threshold = scores[positive[part]].min()
        positive = positive[scores[positive] >= threshold]
    order = np.lexsort((positive, -scores[positive]))
    return positive[order][:n]


def fuse(meaning: Ranking, words: Ranking) -> Ranking:
    """Fuse two rankings by how far their scores stand out and by reciprocal rank.

    A score counts by where it lies between the ranking's last (0) and first (1) for meaning, since
    cosines crowd together, and between zero and the first for words, where zero means "no word in
    common". Ranks alone would forget that one row is far ahead, scores alone that both agree.

    Args:
        meaning: rows by similarity, best first, with their similarities.
        words: rows by BM25, best first, with their scores.

    Returns:
        Every row of either, best first, ties by row; and scores, ``(n,)`` float32 in
        [0, 1 + RANK_SHARE].
    """
    total: dict[int, float] = {}
    for ranking, floor, share in (
        (meaning, _last(meaning), MEANING_SHARE),
        (words, 0.0, 1 - MEANING_SHARE),
    ):
        span = max(_first(ranking) - floor, 1e-9)
        scored = zip(ranking[0].tolist(), ranking[1].tolist(), strict=True)
        for rank, (row, score) in enumerate(scored, 1):
            by_rank = (RANK_OFFSET + 1) / (RANK_OFFSET + rank) / 2
            value = share * (score - floor) / span + RANK_SHARE * by_rank
            total[row] = total.get(row, 0.0) + value
    order = sorted(total, key=lambda row: (-total[row], row))
    return (
        np.array(order, dtype=np.int64),
        np.array([total[row] for row in order], dtype=np.float32),
    )


def _first(ranking: Ranking) -> float:
    return float(ranking[1][0]) if len(ranking[1]) else 0.0


def _last(ranking: Ranking) -> float:
    return float(ranking[1][-1]) if len(ranking[1]) > 1 else 0.0
