"""How sure we are: standard errors and paired bootstrap intervals.

Two systems answer the same questions, so that their difference is computed question by question
and the questions are resampled (Efron and Tibshirani 1993, chapter 13): hard questions then count
against both and do not blur the comparison. Seeded: the same rows give the same interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

RESAMPLES = 10_000
SEED = 20_260
LEVEL = 0.95
"""Share of resamples that the interval holds."""
_BLOCK = 1000
"""Resamples drawn at once, to bound memory."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval.

    Attributes:
        estimate: the mean.
        low: lower end at level :data:`LEVEL`.
        high: upper end.
        n: number of questions.
    """

    estimate: float
    low: float
    high: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside: the difference is more than chance."""
        return self.low > 0 or self.high < 0


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard error (sample deviation over the root of n; 0 for one value)."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return mean, 0.0
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, math.sqrt(variance / count)


def bootstrap_mean(
    values: Sequence[float], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the mean of ``values`` with its percentile bootstrap interval.

    Args:
        values: one a question, at least one.
        resamples: draws of as many questions with replacement.
        seed: of the draws.
    """
    data = np.asarray(values, dtype=np.float64)  # (n,)
    counts = _resampling(len(data), resamples, seed)
    means = counts @ data.astype(np.float32) / len(data)  # (resamples,)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(data.mean()), float(low), float(high), len(data))


@lru_cache(maxsize=8)
def _resampling(count: int, resamples: int, seed: int) -> NDArray[np.float32]:
    """Return how often each draw holds each question, ``(resamples, count)``.

    Metrics over the same number of questions share it, which makes reports several times quicker.
    """
    generator = np.random.default_rng(seed)
    counts = np.zeros((resamples, count), dtype=np.float32)
    for start in range(0, resamples, _BLOCK):
        size = min(_BLOCK, resamples - start)
        picks = generator.integers(0, count, size=(size, count))  # (block, count)
        flat = picks + np.arange(size)[:, None] * count
        counts[start : start + size] = np.bincount(flat.ravel(), minlength=size * count).reshape(
            size, count
        )
    return counts


def paired_difference(
    first: Sequence[float], second: Sequence[float], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the mean of ``first - second`` over the same questions, with its interval.

    Args:
        first: values of one system.
        second: values of the other one, in the same order of questions.
        resamples: as in :func:`bootstrap_mean`.
        seed: as in :func:`bootstrap_mean`.
    """
    if len(first) != len(second):
        raise ValueError(f"expected as many values of both, got {len(first)} and {len(second)}")
    differences = [a - b for a, b in zip(first, second, strict=True)]
    return bootstrap_mean(differences, resamples=resamples, seed=seed)
