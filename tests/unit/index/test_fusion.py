from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from hpcllm.index.fusion import STATUS_FACTORS, STUB_FACTOR, best_rows, fuse, row_factor
from hpcllm.records import Status
from tests.unit.index.helpers import page

TEXT = "ten words are enough for a chunk to answer something"


def ranking(**scores: float) -> Any:
    """Return a ranking of rows named ``r<number>``."""
    rows = np.array([int(name[1:]) for name in scores], dtype=np.int64)
    return rows, np.array(list(scores.values()), dtype=np.float32)


def test_relative_scores_and_ranks_add_up_as_computed_by_hand() -> None:
    meaning, words = ranking(r7=0.8, r3=0.6, r5=0.4), ranking(r3=10.0, r9=5.0)
    order, scores = fuse(meaning, words)
    # k = 10: rank 1 adds 1/2, rank 2 adds 11/12/2, rank 3 adds 11/13/2, a quarter of it counts.
    expected = {
        3: 0.5 * 0.5 + 0.25 * 11 / 24 + 0.5 * 1.0 + 0.25 / 2,
        7: 0.5 * 1.0 + 0.25 / 2,
        9: 0.5 * 0.5 + 0.25 * 11 / 24,
        5: 0.25 * 11 / 26,
    }
    assert order.tolist() == list(expected)
    assert scores.tolist() == pytest.approx(list(expected.values()))


def test_equal_scores_are_ordered_by_row() -> None:
    order, scores = fuse(ranking(r9=0.5, r1=0.5), ranking())
    assert order.tolist() == [9, 1]  # the ranking's own order, by rank
    same = fuse(ranking(r9=0.5), ranking())[1], fuse(ranking(r1=0.5), ranking())[1]
    assert same[0].tolist() == same[1].tolist()
    assert scores[0] > scores[1]


def test_one_ranking_alone_keeps_its_order() -> None:
    assert fuse(ranking(), ranking(r4=3.0, r2=1.0))[0].tolist() == [4, 2]
    assert fuse(ranking(r4=0.3, r2=0.1), ranking())[0].tolist() == [4, 2]


def test_empty_rankings_give_nothing() -> None:
    assert fuse(ranking(), ranking())[0].tolist() == []


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
    document, chunks = page("a.md", [TEXT], status=status, metadata={"weight": "0.5"})
    assert row_factor(chunks[0], document) == STATUS_FACTORS[status] * 0.5


def test_a_weight_that_is_no_number_is_reported_and_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    document, chunks = page("a.md", [TEXT], metadata={"weight": "much"})
    with caplog.at_level(logging.WARNING):
        assert row_factor(chunks[0], document) == 1
    assert "no number: 'much'" in caplog.text


def test_a_chunk_that_is_little_more_than_a_heading_counts_less() -> None:
    document, chunks = page("a.md", ["## Applications on the cluster and more\n\nSee below.", TEXT])
    factors = [row_factor(chunk, document) for chunk in chunks]
    assert factors == [STUB_FACTOR, 1]


def test_a_table_of_contents_counts_less_but_prose_with_links_does_not() -> None:
    contents = "## Users\n\n" + "\n".join(f"- [Why does my {w}?](#{w})" for w in "abcdefghijkl")
    prose = f"{TEXT} [Why is that?](#why)"
    pages = "\n".join(f"- [How to run {w}](run-{w}.md)" for w in "abcdefghijkl")
    document, chunks = page("a.md", [contents, prose, pages])
    assert [row_factor(chunk, document) for chunk in chunks] == [STUB_FACTOR, 1, 1]
