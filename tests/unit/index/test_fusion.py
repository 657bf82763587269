from __future__ import annotations

import logging

import numpy as np
import pytest

from hpcllm.index.fusion import STATUS_FACTORS, best_rows, fuse, row_factor
from hpcllm.records import Status
from tests.unit.index.helpers import page


def rows(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, dtype=np.int64)


def test_ranks_add_up_as_computed_by_hand() -> None:
    order, scores = fuse([rows(7, 3), rows(3, 9)], offset=60)
    assert order.tolist() == [3, 7, 9]
    assert scores.tolist() == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])


def test_equal_scores_are_ordered_by_row() -> None:
    assert fuse([rows(9, 1), rows(1, 9)])[0].tolist() == [1, 9]


def test_empty_rankings_give_nothing() -> None:
    assert fuse([rows(), rows()])[0].tolist() == []


def test_best_rows_are_positive_sorted_and_stable() -> None:
    scores = np.array([0, 2, -1, 5, 2, 2, 0.5], dtype=np.float32)
    assert best_rows(scores, 3).tolist() == [3, 1, 4]
    assert best_rows(scores, 50).tolist() == [3, 1, 4, 5, 6]


def test_trust_falls_from_current_to_generated() -> None:
    factors = [STATUS_FACTORS[s] for s in ("current", "outdated", "decommissioned", "generated")]
    assert factors[0] == 1
    assert factors == sorted(factors, reverse=True)
    assert len(set(factors)) == 4


@pytest.mark.parametrize("status", ["current", "outdated"])
def test_the_weight_of_a_source_multiplies_the_factor(status: Status) -> None:
    document, chunks = page("a.md", ["x"], status=status, metadata={"weight": "0.5"})
    assert row_factor(chunks[0], document) == STATUS_FACTORS[status] * 0.5


def test_a_weight_that_is_no_number_is_reported_and_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    document, chunks = page("a.md", ["x"], metadata={"weight": "much"})
    with caplog.at_level(logging.WARNING):
        assert row_factor(chunks[0], document) == 1
    assert "no number: 'much'" in caplog.text
