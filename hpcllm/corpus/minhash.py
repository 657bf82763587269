"""Hashes by which nearly equal texts meet, without comparing every pair.

Role: shared by the search for copies (:mod:`hpcllm.index.duplicates`) and by that for pages that
disagree (:mod:`hpcllm.corpus.disagreements`).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

SHINGLE_WORDS = 4
"""Words of the overlapping runs that candidates are found by."""

BANDS, BAND_ROWS = 8, 4
"""Minhash bands: with these, texts that share 9 of 10 runs meet almost surely."""


def bands(words: Sequence[str], minimum_words: int) -> Iterable[bytes]:
    """Return the minhash bands of a text; two texts that share one are worth comparing.

    Args:
        words: the text's words in order.
        minimum_words: fewer words give no band.
    """
    if len(words) < max(minimum_words, SHINGLE_WORDS):
        return ()
    hashes = np.array([zlib.crc32(w.encode("utf-8", "replace")) for w in words], dtype=np.uint64)
    runs = np.zeros(len(words) - SHINGLE_WORDS + 1, dtype=np.uint64)
    for offset in range(SHINGLE_WORDS):
        runs = runs * _RUN_FACTOR + hashes[offset : offset + len(runs)]
    smallest = ((runs[None, :] * _FACTORS + _OFFSETS) >> np.uint64(32)).min(axis=1)
    return [band.tobytes() for band in smallest.reshape(BANDS, BAND_ROWS)]


def _odd_numbers(seed: int, count: int) -> NDArray[np.uint64]:
    numbers = np.random.default_rng(seed).integers(0, 2**63, size=(count, 1), dtype=np.uint64)
    return numbers | np.uint64(1)


_RUN_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = _odd_numbers(1, BANDS * BAND_ROWS)
_OFFSETS = _odd_numbers(2, BANDS * BAND_ROWS)
