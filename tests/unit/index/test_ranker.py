"""The ranker's arithmetic by hand, and its batches through a real ONNX session."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpcllm.errors import ModelError
from hpcllm.index.ranker import Head, _batches, _ends, apply_head


def head(dimension: int, mix: tuple[float, float, float], outer: float = 0.0) -> Head:
    return Head(
        np.array(mix, dtype=np.float32),
        (np.zeros((2, 3 * dimension), np.float32), np.ones(2, np.float32)),
        (np.full((1, 2), outer, np.float32), np.zeros(1, np.float32)),
    )


def hidden(*rows: tuple[float, float]) -> np.ndarray:
    return np.array([rows], dtype=np.float32)


def test_cosine_of_the_halves() -> None:
    # [CLS], two question tokens along x and y, two piece tokens along x: halves 45 degrees apart.
    tokens = hidden((1, 1), (2, 0), (0, 3), (5, 0), (1, 0))
    mask = np.ones((1, 5), dtype=np.int64)
    score = apply_head(head(2, (1, 0, 0)), tokens, 3, mask)
    assert score == pytest.approx([math.sqrt(0.5)], abs=1e-6)


def test_best_match_of_each_question_token() -> None:
    tokens = hidden((1, 1), (2, 0), (0, 3), (5, 0), (1, 0))
    mask = np.ones((1, 5), dtype=np.int64)
    score = apply_head(head(2, (0, 1, -0.25)), tokens, 3, mask)
    assert score == pytest.approx([(1 + 0) / 2 - 0.25], abs=1e-6)


def test_padding_matches_nothing() -> None:
    # The last token is padding; it would match the second question token.
    tokens = hidden((1, 1), (2, 0), (0, 3), (5, 0), (0, 1))
    mask = np.array([[1, 1, 1, 1, 0]], dtype=np.int64)
    score = apply_head(head(2, (1, 1, 0)), tokens, 3, mask)
    assert score == pytest.approx([math.sqrt(0.5) + 0.5], abs=1e-6)


def test_the_network_adds_its_output() -> None:
    # Inner weights 0 and bias 1: each of two units gives gelu(1) = 0.841345.
    tokens = hidden((1, 0), (1, 0), (1, 0))
    mask = np.ones((1, 3), dtype=np.int64)
    score = apply_head(head(2, (0, 0, 0), outer=0.5), tokens, 2, mask)
    assert score == pytest.approx([0.841345], abs=1e-5)


def test_a_head_without_an_array_is_named() -> None:
    with pytest.raises(ModelError, match=r"lacks the array 'l1.weight'"):
        Head.read({"w": np.zeros(3)})


def test_of_a_long_question_both_ends_are_read() -> None:
    assert _ends(list(range(10)), 4) == [0, 1, 8, 9]
    assert _ends([1, 2], 4) == [1, 2]


def test_batches_hold_every_row_once_and_few_tokens() -> None:
    lengths = [100, 20, 300, 100, 90, 600]
    batches = _batches(lengths)
    assert sorted(row for batch in batches for row in batch) == list(range(6))
    assert batches[0] == [5]  # longer than a batch: alone
    for batch in batches[1:]:
        assert len(batch) * max(lengths[row] for row in batch) <= 512
