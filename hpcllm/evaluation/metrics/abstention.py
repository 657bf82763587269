"""Abstention: does the system refuse what it cannot answer, and only that?

Precision and recall of refusing; the risk-coverage curve (El-Yaniv and Wiener 2010,
https://jmlr.org/papers/v11/el-yaniv10a.html) over the confidence that the assistant itself uses;
and the threshold that serves users best, chosen on development questions and reported on others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Judged:
    """One question as abstention sees it.

    Attributes:
        confidence: the system's own, 0 to 1.
        answerable: whether the corpus answers it.
        abstained: whether the system refused, for whatever reason.
        right: whether an answer, where one was given, is right; False for a refusal.
    """

    confidence: float
    answerable: bool
    abstained: bool
    right: bool


@dataclass(frozen=True, slots=True)
class Refusals:
    """How well a system refuses.

    Attributes:
        precision: share of the refused questions that are unanswerable; None without refusals.
        recall: share of the unanswerable questions that were refused; None without such.
        over_refusal: share of the answerable questions that were refused; None without such.
    """

    precision: float | None
    recall: float | None
    over_refusal: float | None


def refusals(rows: Sequence[Judged]) -> Refusals:
    """Return precision and recall of refusing.

    Comparable between systems on the same questions; precision also depends on how many of the
    questions are unanswerable, so that it must not be compared between question sets.
    """
    refused = [row for row in rows if row.abstained]
    unanswerable = [row for row in rows if not row.answerable]
    right = sum(not row.answerable for row in refused)
    wrong = len(refused) - right
    return Refusals(
        precision=right / len(refused) if refused else None,
        recall=right / len(unanswerable) if unanswerable else None,
        over_refusal=wrong / (len(rows) - len(unanswerable))
        if len(rows) > len(unanswerable)
        else None,
    )


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of the risk-coverage curve.

    Attributes:
        coverage: share of all questions that are answered at this threshold, 0 to 1.
        risk: share of those answers that are wrong, 0 to 1.
        threshold: lowest confidence that is answered.
    """

    coverage: float
    risk: float
    threshold: float


def risk_coverage(rows: Sequence[Judged]) -> list[CurvePoint]:
    """Return the curve, from the most confident answers on.

    Questions are taken in order of falling confidence, equal confidences together. Refused ones
    are never covered: the curve ends where the system stopped answering. Answering an
    unanswerable question is wrong.
    """
    answered = sorted((r for r in rows if not r.abstained), key=lambda r: -r.confidence)
    points: list[CurvePoint] = []
    wrong = 0
    for count, row in enumerate(answered, 1):
        wrong += not row.right
        following = answered[count].confidence if count < len(answered) else None
        if following != row.confidence:
            points.append(CurvePoint(count / len(rows), wrong / count, row.confidence))
    return points


def area_under_risk(points: Sequence[CurvePoint]) -> float | None:
    """Return the mean risk over the coverage reached, 0 to 1, lower is better; None without points.

    Each point's risk holds from the coverage before it to its own. Two systems are comparable
    when their curves reach the same coverage.
    """
    if not points:
        return None
    total, before = 0.0, 0.0
    for point in points:
        total += point.risk * (point.coverage - before)
        before = point.coverage
    return total / before


def choose_threshold(rows: Sequence[Judged], *, wrong_cost: float = 1.0) -> float:
    """Return the confidence below which refusing serves users best on these questions.

    A right answer is worth 1, a wrong one costs ``wrong_cost``, a refusal is worth 0. Among equal
    values the lowest threshold wins: it answers more. 0 where answering everything is best.
    To be chosen on development questions only.
    """
    best_value, best = 0.0, _above(rows)
    answered = [row for row in rows if not row.abstained]
    for threshold in sorted({row.confidence for row in answered}, reverse=True):
        taken = [row for row in answered if row.confidence >= threshold]
        right = sum(row.right for row in taken)
        value = right - wrong_cost * (len(taken) - right)
        if value >= best_value:
            best_value, best = value, threshold
    lowest = min((row.confidence for row in answered), default=0.0)
    return 0.0 if best <= lowest else best


def _above(rows: Sequence[Judged]) -> float:
    """Return a threshold that nothing reaches."""
    return max((row.confidence for row in rows), default=0.0) + 1e-6
