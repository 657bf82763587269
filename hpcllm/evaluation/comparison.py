"""Compare systems question by question: who is better, by how much, how sure, and where.

Role: ``Results of several systems -> Comparison``, which tables and reports print. Every pair is
compared on the questions that both answered; a question counts as the same only with the same id
and the same text.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.discrimination import DISCRIMINATION, Separation, separations
from hpcllm.evaluation.metrics.abstention import (
    CurvePoint,
    area_under_risk,
    choose_threshold,
    refusals,
    risk_coverage,
)
from hpcllm.evaluation.metrics.cost import percentile
from hpcllm.evaluation.scoring import METRIC, METRICS, judged
from hpcllm.evaluation.statistics import Interval, bootstrap_mean, paired_difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hpcllm.evaluation.results import Results, Row

COMPARED = (
    "right",
    "facts_share",
    "commands_share",
    "has_invented",
    "citation_precision",
    "refused_right",
    "refused_wrong",
    "facts_first_3",
    "words",
    "rouge_l",
    "similarity",
)
"""Metrics whose differences are computed for every pair."""
GROUPINGS = ("category", "difficulty", "language", "kind")
"""Fields that results are broken down by."""
EVERYTHING = "all"


@dataclass(frozen=True, slots=True)
class SystemSummary:
    """One system in numbers.

    Attributes:
        system: its id.
        label: its name in tables.
        n: questions.
        failed: questions without an answer.
        metrics: mean with interval, by metric; only what applies.
        groups: mean of ``right`` with interval, by field and value.
        latency_ms: percentiles by ``first_token_ms``/``total_ms`` and ``p50``/``p95``.
        tokens: mean prompt and generated tokens.
        memory_mib: largest memory, None where it is not known.
        curve: risk-coverage curve.
        risk_area: area under it, None without answers.
        refusal_precision: share of refusals that are right, None without refusals.
        threshold: confidence chosen on these questions if they are development ones, else None.
    """

    system: str
    label: str
    n: int
    failed: int
    metrics: Mapping[str, Interval]
    groups: Mapping[str, Mapping[str, Interval]]
    latency_ms: Mapping[str, float]
    tokens: Mapping[str, float]
    memory_mib: float | None
    curve: Sequence[CurvePoint]
    risk_area: float | None
    refusal_precision: float | None
    threshold: float | None


@dataclass(frozen=True, slots=True)
class PairComparison:
    """Two systems on the questions that both answered.

    Attributes:
        first: id of one system.
        second: id of the other.
        n: common questions.
        differences: first minus second, by metric.
        wins: questions that only the first got right.
        losses: questions that only the second got right.
    """

    first: str
    second: str
    n: int
    differences: Mapping[str, Interval]
    wins: tuple[str, ...]
    losses: tuple[str, ...]

    @property
    def ties(self) -> int:
        """Questions that both got right, or neither."""
        return self.n - len(self.wins) - len(self.losses)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All systems and all pairs.

    Attributes:
        systems: in the order given.
        pairs: each pair once, in that order.
        separations: how well metrics tell the systems apart, by metric; empty for one system.
    """

    systems: tuple[SystemSummary, ...]
    pairs: tuple[PairComparison, ...]
    separations: Mapping[str, Separation]

    def separated(self, metric: str) -> list[tuple[str, str]]:
        """Return the pairs whose difference in ``metric`` is more than chance."""
        return [
            (pair.first, pair.second)
            for pair in self.pairs
            if metric in pair.differences and pair.differences[metric].excludes_zero
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the stable machine-readable form (docs/cli.md, ``hpcllm eval compare --json``)."""
        return {
            "systems": [_system_json(system) for system in self.systems],
            "pairs": [_pair_json(pair) for pair in self.pairs],
            "separated": {m: [list(p) for p in self.separated(m)] for m in DISCRIMINATION},
            "discrimination": {m: found.to_json() for m, found in self.separations.items()},
        }


def _interval_json(interval: Interval) -> dict[str, float]:
    return {
        "mean": round(interval.estimate, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "n": interval.n,
    }


def _system_json(system: SystemSummary) -> dict[str, Any]:
    return {
        "system": system.system,
        "n": system.n,
        "failed": system.failed,
        "metrics": {name: _interval_json(value) for name, value in system.metrics.items()},
        "latency_ms": {name: round(value, 1) for name, value in system.latency_ms.items()},
        "tokens": {name: round(value, 1) for name, value in system.tokens.items()},
        "peak_memory_mib": system.memory_mib,
        "risk_area": system.risk_area,
        "refusal_precision": system.refusal_precision,
        "threshold": system.threshold,
    }


def _pair_json(pair: PairComparison) -> dict[str, Any]:
    return {
        "first": pair.first,
        "second": pair.second,
        "n": pair.n,
        "wins": len(pair.wins),
        "losses": len(pair.losses),
        "ties": pair.ties,
        "differences": {name: _interval_json(v) for name, v in pair.differences.items()},
    }


def compare(results: Sequence[Results], *, resamples: int = 10_000) -> Comparison:
    """Compare result files.

    Args:
        results: one a system.
        resamples: of the bootstrap.

    Raises:
        EvaluationError: two of them share no question, or use one id for different questions.
    """
    summaries = tuple(summarise_system(each, resamples=resamples) for each in results)
    pairs = tuple(
        compare_pair(first, second, resamples=resamples)
        for first, second in itertools.combinations(results, 2)
    )
    return Comparison(summaries, pairs, separations(results, pairs))


def summarise_system(results: Results, *, resamples: int = 10_000) -> SystemSummary:
    """Return one system in numbers."""
    rows, header = results.rows, results.header
    judgements = [judged(row) for row in rows]
    curve = risk_coverage(judgements)
    times = ("first_token_ms", "total_ms")
    is_development = bool(rows) and all(row.split == "dev" for row in rows)
    memory = max((row.measured.get("peak_memory_mib", 0.0) for row in rows), default=0.0)
    served = bool(header.settings.get("base_url"))
    return SystemSummary(
        system=header.system,
        label=header.settings.get("label") or header.system,
        n=len(rows),
        failed=header.failed,
        metrics=_metrics(rows, resamples),
        groups={name: _groups(rows, name, resamples) for name in GROUPINGS},
        latency_ms={
            f"{name}_p{percent}": value
            for name in times
            for percent in (50, 95)
            if (value := percentile(_values(rows, name), percent)) is not None
        },
        tokens={
            name: sum(values) / len(values)
            for name in ("prompt_tokens", "generated_tokens")
            if (values := _values(rows, name))
        },
        memory_mib=None if served or not memory else memory,
        curve=curve,
        risk_area=area_under_risk(curve),
        refusal_precision=refusals(judgements).precision,
        threshold=choose_threshold(judgements) if is_development else None,
    )


def _values(rows: Iterable[Row], name: str) -> list[float]:
    return [row.measured[name] for row in rows if row.status == "ok" and name in row.measured]


def _metrics(rows: Sequence[Row], resamples: int) -> dict[str, Interval]:
    found = {}
    for metric in METRICS:
        values = [v for row in rows if (v := row.scores.get(metric.name)) is not None]
        if values:
            found[metric.name] = bootstrap_mean(values, resamples=resamples)
    return found


def _groups(rows: Sequence[Row], name: str, resamples: int) -> dict[str, Interval]:
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(getattr(row, name) or "none", []).append(row.scores["right"] or 0.0)
    return {
        group: bootstrap_mean(values[group], resamples=min(resamples, 2000))
        for group in sorted(values)
    }


def compare_pair(first: Results, second: Results, *, resamples: int = 10_000) -> PairComparison:
    """Compare two systems on their common questions.

    Raises:
        EvaluationError: there is no common question, or one id stands for different questions.
    """
    common = _common_rows(first, second)
    differences = {}
    for name in COMPARED:
        both = [
            (x, y)
            for a, b in common
            if (x := a.scores.get(name)) is not None and (y := b.scores.get(name)) is not None
        ]
        if both:
            differences[name] = paired_difference(
                [x for x, _ in both], [y for _, y in both], resamples=resamples
            )
    return PairComparison(
        first.header.system,
        second.header.system,
        n=len(common),
        differences=differences,
        wins=tuple(a.id for a, b in common if a.scores["right"] and not b.scores["right"]),
        losses=tuple(a.id for a, b in common if b.scores["right"] and not a.scores["right"]),
    )


def _common_rows(first: Results, second: Results) -> list[tuple[Row, Row]]:
    others = {row.id: row for row in second.rows}
    common = [(row, others[row.id]) for row in first.rows if row.id in others]
    names = f"{first.header.system} and {second.header.system}"
    if changed := [a.id for a, b in common if a.question != b.question]:
        raise EvaluationError(
            f"{names} were asked different questions under the same ids ({', '.join(changed[:5])}"
            f"{' …' if len(changed) > 5 else ''}): run both again with the same questions"
        )
    if not common:
        raise EvaluationError(f"{names} share no question: run both on the same questions")
    return common


def metric_label(name: str) -> str:
    """Return the heading of a metric."""
    return METRIC[name].label
