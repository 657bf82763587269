from __future__ import annotations

import math

import pytest

from hpcllm.evaluation.statistics import bootstrap_mean, mean_and_error, paired_difference


def test_mean_and_standard_error_by_hand() -> None:
    mean, error = mean_and_error([1.0, 0.0, 1.0, 1.0])
    assert mean == 0.75
    assert error == pytest.approx(math.sqrt(0.25 / 4))
    assert mean_and_error([0.4]) == (0.4, 0.0)


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    values = [1.0] * 300 + [0.0] * 200
    interval = bootstrap_mean(values)
    half = 1.96 * mean_and_error(values)[1]
    assert interval.estimate == 0.6
    assert interval.low == pytest.approx(0.6 - half, abs=0.006)
    assert interval.high == pytest.approx(0.6 + half, abs=0.006)
    assert interval.n == 500


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [math.sin(i) for i in range(40)]
    assert bootstrap_mean(values) == bootstrap_mean(values)
    assert bootstrap_mean(values, seed=1) != bootstrap_mean(values, seed=2)


def test_constant_values_have_no_width() -> None:
    interval = bootstrap_mean([0.5] * 10)
    assert (interval.low, interval.high) == (0.5, 0.5)


def test_pairing_sees_a_small_steady_difference() -> None:
    first = [float(i % 2) for i in range(100)]
    second = [value - 0.05 for value in first]
    paired = paired_difference(first, second)
    assert paired.estimate == pytest.approx(0.05)
    assert paired.excludes_zero
    assert not paired_difference(first, first[::-1]).excludes_zero


def test_pairs_need_both_values() -> None:
    with pytest.raises(ValueError, match="as many values of both, got 2 and 1"):
        paired_difference([1.0, 0.0], [1.0])
