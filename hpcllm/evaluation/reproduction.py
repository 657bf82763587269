"""Reference rows, and whether a rerun elsewhere agrees with them.

Role: ``Results of all test questions -> reference file``, and later ``Results of the smoke
questions + reference file -> Agreement``. A rerun asks fewer questions, so that its means are
compared with the reference's means over the same questions and with their 95 % intervals, not with
those over all questions, which are narrower than chance allows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.comparison import summarise_system
from hpcllm.evaluation.fingerprints import json_sha256
from hpcllm.evaluation.results import Results
from hpcllm.evaluation.scoring import METRIC
from hpcllm.evaluation.tables import NOTHING, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from hpcllm.evaluation.results import Row
    from hpcllm.evaluation.statistics import Interval

FORMAT = 1
"""Version of the reference file."""
REPRODUCED = (
    "right",
    "facts_share",
    "commands_share",
    "has_invented",
    "citation_precision",
    "refused_right",
    "refused_wrong",
    "facts_first_8",
    "words",
)
"""Metrics that a rerun is compared in."""
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Agreement:
    """One metric of one system, then and now.

    Attributes:
        system: its id.
        metric: its name.
        whole: the reference's mean over all its questions; None where it has none.
        mean: the reference's mean over the questions of the rerun.
        low: lower end of its interval.
        high: upper end.
        now: mean of the rerun; None where no answer tells.
    """

    system: str
    metric: str
    whole: float | None
    mean: float
    low: float
    high: float
    now: float | None

    @property
    def is_within(self) -> bool:
        """Whether the rerun lies in the interval."""
        slack = 10**-DIGITS
        return self.now is not None and self.low - slack <= self.now <= self.high + slack


def reference_of(results: Sequence[Results], ids: Sequence[str]) -> dict[str, Any]:
    """Return the content of a reference file.

    Args:
        results: one a system, of all test questions.
        ids: questions that reruns ask. Systems that were not asked all of them get no part on
            these questions, and cannot be compared with.
    """
    wanted = set(ids)
    systems = {}
    shared = ""
    for each in results:
        rows = tuple(row for row in each.rows if row.id in wanted)
        entry = _entry(each)
        if len(rows) == len(wanted):
            entry["rerun"] = {"n": len(rows), "metrics": _intervals(Results(each.header, rows))}
            shared = _asked_sha256(rows)
        systems[each.header.system] = entry
    return {
        "format": FORMAT,
        "rerun": {"count": len(wanted), "sha256": shared},
        "systems": systems,
    }


def merged(reference: dict[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reference with the rows of an earlier one for systems that it lacks.

    Where reruns ask other questions than before, earlier rows can no longer be compared with.
    """
    now, before = reference["rerun"], earlier["rerun"]
    rerun = now if now["sha256"] else before
    systems = dict(reference["systems"])
    for name, entry in earlier["systems"].items():
        kept = dict(entry)
        if before["sha256"] != rerun["sha256"]:
            kept.pop("rerun", None)
        systems.setdefault(name, kept)
    return {**reference, "rerun": rerun, "systems": systems}


def _entry(results: Results) -> dict[str, Any]:
    header = results.header
    summary = summarise_system(results)
    return {
        "label": summary.label,
        "n": summary.n,
        "failed": summary.failed,
        "metrics": _intervals(results),
        "latency_ms": {name: round(value, 1) for name, value in summary.latency_ms.items()},
        "peak_memory_mib": summary.memory_mib,
        "date": header.run.get("date", ""),
        "machine": header.run.get("machine", ""),
        "commit": header.commit,
    }


def _intervals(results: Results) -> dict[str, dict[str, float]]:
    metrics = summarise_system(results).metrics
    return {name: _bounds(name, metrics[name]) for name in REPRODUCED if name in metrics}


def _bounds(name: str, interval: Interval) -> dict[str, float]:
    low, high = interval.low, interval.high
    if low == high and METRIC[name].form == "share":
        # All questions agree, and resampling cannot say more: the rule of three does.
        low, high = max(0.0, low - 3 / interval.n), min(1.0, high + 3 / interval.n)
    return {
        "mean": round(interval.estimate, DIGITS),
        "low": round(low, DIGITS),
        "high": round(high, DIGITS),
        "n": interval.n,
    }


def _asked_sha256(rows: Iterable[Row]) -> str:
    return json_sha256(sorted([row.id, row.question] for row in rows))


def write_reference(path: Path, reference: Mapping[str, Any]) -> None:
    """Write a reference file."""
    text = json.dumps(reference, indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def read_reference(path: Path) -> dict[str, Any]:
    """Read a reference file.

    Raises:
        EvaluationError: it is missing, damaged or of another format.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise EvaluationError(
            f"the reference {path} cannot be read ({exc}): write it with hpcllm eval publish"
        ) from exc
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise EvaluationError(
            f"{path} is no reference of format {FORMAT}: write it anew with hpcllm eval publish"
        )
    return data


def agreements(
    results: Sequence[Results], reference: Mapping[str, Any]
) -> tuple[list[Agreement], list[str]]:
    """Compare a rerun with the reference.

    Args:
        results: of the rerun, one a system.
        reference: as :func:`read_reference` returns it.

    Returns:
        One agreement a system and metric, and the ids of systems without a reference row.

    Raises:
        EvaluationError: the rerun asked other questions than the reference.
    """
    found, missing = [], []
    for each in results:
        entry = reference["systems"].get(each.header.system, {})
        if "rerun" not in entry:
            missing.append(each.header.system)
            continue
        if _asked_sha256(each.rows) != reference["rerun"]["sha256"]:
            raise EvaluationError(
                f"{each.header.system} was asked other questions ({len(each.rows)}) than the "
                f"reference ({reference['rerun']['count']}): run hpcllm eval run with the list of "
                "ids of the reference, or write it anew with hpcllm eval publish"
            )
        found += _of_system(each, entry)
    return found, missing


def _of_system(results: Results, entry: Mapping[str, Any]) -> list[Agreement]:
    now = summarise_system(results).metrics
    return [
        Agreement(
            results.header.system,
            name,
            whole=entry["metrics"].get(name, {}).get("mean"),
            mean=then["mean"],
            low=then["low"],
            high=then["high"],
            now=round(now[name].estimate, DIGITS) if name in now else None,
        )
        for name, then in entry["rerun"]["metrics"].items()
    ]


def reproduction_table(found: Sequence[Agreement], reference: Mapping[str, Any]) -> Table:
    """Return the comparison, one line a system and metric."""
    labels = {name: entry["label"] for name, entry in reference["systems"].items()}
    rows = tuple(
        (
            labels[each.system],
            METRIC[each.metric].label,
            _value(each.metric, each.whole),
            f"{_value(each.metric, each.mean)} [{_value(each.metric, each.low)}, "
            f"{_value(each.metric, each.high)}]",
            _value(each.metric, each.now),
            "within" if each.is_within else "OUTSIDE",
        )
        for each in found
    )
    columns = (
        "system",
        "metric",
        "published, all questions",
        "published, these questions [95 %]",
        "now",
        "in the interval",
    )
    return Table("Reproduction", columns, rows)


def _value(name: str, value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value * 100:.1f}" if METRIC[name].form == "share" else f"{value:.1f}"
