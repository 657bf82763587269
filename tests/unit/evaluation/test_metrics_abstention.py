from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcllm.evaluation.metrics.abstention import (
    CurvePoint,
    Judged,
    area_under_risk,
    choose_threshold,
    refusals,
    risk_coverage,
)

RIGHT, WRONG = True, False


def said(confidence: float, right: bool, *, answerable: bool = True) -> Judged:
    return Judged(confidence, answerable, abstained=False, right=right)


def refused(answerable: bool) -> Judged:
    return Judged(0.1, answerable, abstained=True, right=False)


ROWS = [said(0.9, RIGHT), said(0.8, RIGHT), said(0.6, WRONG), said(0.6, RIGHT), refused(False)]


def test_refusals_are_counted_by_hand() -> None:
    rows = [refused(False), refused(False), refused(True), said(0.5, RIGHT), said(0.5, WRONG)]
    found = refusals([*rows, said(0.4, WRONG, answerable=False)])
    assert found.precision == 2 / 3
    assert found.recall == 2 / 3
    assert found.over_refusal == 1 / 3


def test_refusals_without_cases_are_none() -> None:
    found = refusals([said(0.5, RIGHT)])
    assert (found.precision, found.recall, found.over_refusal) == (None, None, 0.0)


def test_curve_takes_equal_confidences_together_and_ends_at_the_refusals() -> None:
    assert risk_coverage(ROWS) == [
        CurvePoint(0.2, 0.0, 0.9),
        CurvePoint(0.4, 0.0, 0.8),
        CurvePoint(0.8, 0.25, 0.6),
    ]


def test_area_is_the_mean_risk_over_the_coverage_reached() -> None:
    assert area_under_risk(risk_coverage(ROWS)) == pytest.approx(0.25 * 0.4 / 0.8)
    assert area_under_risk([]) is None


def test_threshold_refuses_what_costs_more_than_it_gives() -> None:
    rows = [said(0.9, RIGHT), said(0.8, RIGHT), said(0.5, WRONG), said(0.4, WRONG)]
    assert choose_threshold(rows) == 0.8
    assert choose_threshold(rows, wrong_cost=0.0) == 0.0


def test_threshold_answers_all_when_that_is_best() -> None:
    assert choose_threshold([said(0.9, WRONG), said(0.2, RIGHT), said(0.1, RIGHT)]) == 0.0


def test_threshold_refuses_all_when_every_answer_is_wrong() -> None:
    assert choose_threshold([said(0.9, WRONG), said(0.2, WRONG)]) > 0.9


def test_among_equal_values_the_lower_threshold_wins() -> None:
    rows = [said(0.9, RIGHT), said(0.5, WRONG), said(0.4, RIGHT), said(0.2, WRONG)]
    assert choose_threshold(rows) == 0.4


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
def test_curve_rises_in_coverage_and_stays_in_bounds(pairs: list[tuple[float, bool]]) -> None:
    points = risk_coverage([said(confidence, right) for confidence, right in pairs])
    assert points[-1].coverage == 1.0
    assert all(0 <= p.risk <= 1 for p in points)
    assert [p.coverage for p in points] == sorted({p.coverage for p in points})
