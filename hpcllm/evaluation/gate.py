"""The gate: a golden set and thresholds that a new index, model or adapter has to meet.

Role: ``Results + GateRules -> GateReport``; the command line turns a gate that does not hold into
exit code 3, for the automatic checks of a documentation repository. A mean must reach its
threshold; and where results of the last accepted state are given, it must not be surely worse
than they are (upper end of the paired bootstrap interval below zero).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcllm.errors import ConfigError, nearest
from hpcllm.evaluation.comparison import compare_pair
from hpcllm.evaluation.scoring import METRIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hpcllm.evaluation.results import Results

GUARDED = ("right", "facts_share", "commands_share", "has_invented", "refused_wrong")
"""Metrics that must not get surely worse than the accepted state."""


@dataclass(frozen=True, slots=True)
class GateRules:
    """What has to hold.

    Attributes:
        minimum: lowest mean by metric.
        maximum: highest mean by metric.
        allowed_failures: most questions that may stay without an answer.
    """

    minimum: Mapping[str, float] = field(default_factory=dict)
    maximum: Mapping[str, float] = field(default_factory=dict)
    allowed_failures: int = 0

    def __post_init__(self) -> None:
        """Refuse metrics that do not exist, and rules that guard nothing."""
        names = [*self.minimum, *self.maximum]
        if unknown := [f"{name!r}{nearest(name, METRIC)}" for name in names if name not in METRIC]:
            raise ConfigError(
                f"the gate names unknown metrics: {', '.join(unknown)}. Known: {', '.join(METRIC)}"
            )
        if not names:
            raise ConfigError(
                "the gate has no threshold: set some in hpcllm.toml, such as "
                "[gate.minimum] facts_share = 0.6"
            )


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One condition.

    Attributes:
        name: what is looked at.
        value: what was measured; None where no question tells.
        bound: the condition, for a person.
        holds: whether it is met.
    """

    name: str
    value: float | None
    bound: str
    holds: bool


@dataclass(frozen=True, slots=True)
class GateReport:
    """All conditions of a gate.

    Attributes:
        system: id of the system.
        checks: in the order of the rules.
    """

    system: str
    checks: tuple[GateCheck, ...]

    @property
    def holds(self) -> bool:
        """Whether every condition is met."""
        return all(check.holds for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the stable machine-readable form (docs/cli.md, ``hpcllm eval gate --json``)."""
        return {
            "system": self.system,
            "holds": self.holds,
            "checks": [
                {"name": c.name, "value": c.value, "bound": c.bound, "holds": c.holds}
                for c in self.checks
            ],
        }


def check_gate(
    results: Results, rules: GateRules, *, accepted: Results | None = None
) -> GateReport:
    """Check results against the rules and against the accepted state.

    Args:
        results: of the golden set.
        rules: thresholds.
        accepted: results of the state that serves now, on the same questions; None skips that.
    """
    header = results.header
    checks = [
        GateCheck(
            "failed questions",
            float(header.failed),
            f"at most {rules.allowed_failures}",
            header.failed <= rules.allowed_failures,
        )
    ]
    for name, bound in rules.minimum.items():
        value = _mean(results, name)
        checks.append(
            GateCheck(name, value, f"at least {bound:g}", value is not None and value >= bound)
        )
    for name, bound in rules.maximum.items():
        value = _mean(results, name)
        checks.append(GateCheck(name, value, f"at most {bound:g}", value is None or value <= bound))
    if accepted is not None:
        checks += _no_worse(results, accepted)
    return GateReport(header.system, tuple(checks))


def _mean(results: Results, name: str) -> float | None:
    summary = results.header.summary.get(name)
    return None if summary is None else summary["mean"]


def _no_worse(results: Results, accepted: Results) -> list[GateCheck]:
    pair = compare_pair(results, accepted)
    checks = []
    for name in GUARDED:
        if name not in pair.differences:
            continue
        change = pair.differences[name]
        is_worse = change.high < 0 if METRIC[name].better == "higher" else change.low > 0
        bound = f"not surely worse than accepted (change {change.low:+.3f} to {change.high:+.3f})"
        checks.append(GateCheck(f"change of {name}", change.estimate, bound, not is_worse))
    return checks
