"""Which metric can tell which systems apart, on the same answers.

Role: ``pairs with intervals, rows -> Separation by metric``. A metric tells a pair apart when the
paired bootstrap interval of the difference excludes zero. Beside that stands how far the systems
lie apart in the metric, and how that compares with the uncertainty of a difference: a metric whose
values are all alike cannot serve for a choice, however precisely they are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hpcllm.evaluation.comparison import PairComparison
    from hpcllm.evaluation.results import Results

DISCRIMINATION = ("right", "facts_share", "similarity", "rouge_l")
"""Metrics whose power to tell systems apart is set side by side, that of this project first."""
OWN = "facts_share"
"""Metric that the ones of the literature are held against."""
LITERATURE = ("similarity", "rouge_l")
"""Metrics of the literature."""


@dataclass(frozen=True, slots=True)
class Separation:
    """What one metric says of all systems.

    Attributes:
        metric: its name.
        pairs: pairs of systems that it applies to.
        apart: those whose interval excludes zero.
        n: questions that all systems were scored on; 0 where there are none.
        lowest: system with the lowest mean over these questions, and that mean; None without any.
        highest: the same for the highest mean.
        half_width: mean half width of the pairs' intervals.
    """

    metric: str
    pairs: tuple[PairComparison, ...]
    apart: tuple[PairComparison, ...]
    n: int
    lowest: tuple[str, float] | None
    highest: tuple[str, float] | None
    half_width: float

    @property
    def spread(self) -> float:
        """Highest mean minus lowest mean."""
        return self.highest[1] - self.lowest[1] if self.highest and self.lowest else 0.0

    @property
    def resolution(self) -> float | None:
        """Spread in units of the half width of an interval; None where that is 0."""
        return self.spread / self.half_width if self.half_width else None

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form (docs/cli.md, ``hpcllm eval compare --json``)."""
        resolution = self.resolution
        return {
            "pairs": len(self.pairs),
            "apart": len(self.apart),
            "n": self.n,
            "lowest": list(self.lowest) if self.lowest else None,
            "highest": list(self.highest) if self.highest else None,
            "spread": round(self.spread, 4),
            "half_width": round(self.half_width, 4),
            "resolution": None if resolution is None else round(resolution, 2),
        }


def separations(
    results: Sequence[Results], pairs: Sequence[PairComparison]
) -> dict[str, Separation]:
    """Return what each metric of :data:`DISCRIMINATION` says, by its name.

    Args:
        results: one a system.
        pairs: all pairs of them, compared; empty for one system.
    """
    return {
        name: found for name in DISCRIMINATION if (found := _separation(name, results, pairs)).pairs
    }


def _separation(
    name: str, results: Sequence[Results], pairs: Sequence[PairComparison]
) -> Separation:
    known = tuple(pair for pair in pairs if name in pair.differences)
    halves = [(p.differences[name].high - p.differences[name].low) / 2 for p in known]
    count, means = _common_means(name, results)
    ordered = sorted(means.items(), key=lambda item: (item[1], item[0]))
    return Separation(
        metric=name,
        pairs=known,
        apart=tuple(pair for pair in known if pair.differences[name].excludes_zero),
        n=count,
        lowest=ordered[0] if ordered else None,
        highest=ordered[-1] if ordered else None,
        half_width=sum(halves) / len(halves) if halves else 0.0,
    )


def _common_means(name: str, results: Sequence[Results]) -> tuple[int, Mapping[str, float]]:
    """Return the number of questions that all systems have a value for, and each one's mean."""
    values = {
        each.header.system: {
            row.id: value for row in each.rows if (value := row.scores.get(name)) is not None
        }
        for each in results
    }
    common = set.intersection(*(set(found) for found in values.values())) if values else set()
    if not common:
        return 0, {}
    ids = sorted(common)
    return len(ids), {
        system: sum(found[i] for i in ids) / len(ids) for system, found in values.items()
    }


def verdict(separations: Mapping[str, Separation]) -> str:
    """Return in a few sentences how the metrics of the literature compare with facts present."""
    own = separations.get(OWN)
    if own is None:
        return ""
    parts = [
        f"Facts present tells {len(own.apart)} of {len(own.pairs)} pairs apart."
        if len(own.pairs) != 1
        else f"Facts present {'tells' if own.apart else 'does not tell'} the pair apart."
    ]
    names = {"similarity": "Embedding similarity", "rouge_l": "ROUGE-L"}
    others = {name: separations[name] for name in LITERATURE if name in separations}
    return " ".join([*parts, *(_against(own, o, names[name]) for name, o in others.items())])


def _against(own: Separation, other: Separation, name: str) -> str:
    mine = {(p.first, p.second): p.differences[own.metric].estimate for p in own.apart}
    theirs = {(p.first, p.second): p.differences[other.metric].estimate for p in other.apart}
    reverse = sum(mine[pair] * theirs[pair] < 0 for pair in mine.keys() & theirs.keys())
    sentence = (
        f"{name}: {len(theirs)} of {len(other.pairs)}; it misses {len(mine.keys() - theirs.keys())}"
        f" of those and adds {len(theirs.keys() - mine.keys())}"
    )
    return f"{sentence}, and puts {reverse} in the reverse order." if reverse else f"{sentence}."
