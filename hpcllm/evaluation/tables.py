"""Tables of a comparison as rows of text; Markdown from them.

Role: what the terminal, the README and the HTML report print alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcllm.evaluation.comparison import COMPARED, metric_label
from hpcllm.evaluation.discrimination import verdict
from hpcllm.evaluation.scoring import METRIC, METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcllm.evaluation.comparison import Comparison, SystemSummary
    from hpcllm.evaluation.statistics import Interval

NOTHING = "–"
DISCRIMINATION_TITLE = "What each metric can tell apart"
DISCRIMINATION_PAIRS_TITLE = "Which pairs each metric tells apart"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        title: heading.
        columns: names of the columns.
        rows: cells, as many as columns each.
        note: one sentence under the table, or empty.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def overview(comparison: Comparison) -> Table:
    """Return the main table: one line a system."""
    columns = (
        "system",
        "n",
        "right",
        "facts",
        "commands",
        "inventions",
        "citations hold",
        "unanswerable refused",
        "answerable refused",
        "words",
        "first token s, p50 / p95",
        "answer s, p50 / p95",
        "memory MiB",
    )
    note = (
        "In brackets: 95 % bootstrap interval. Right: all facts of an answerable question, or an "
        "unanswerable one refused. Inventions: share of answers with an unknown option, "
        "partition, module or path."
    )
    return Table("Results", columns, tuple(_overview_row(s) for s in comparison.systems), note)


def _overview_row(system: SystemSummary) -> tuple[str, ...]:
    failed = f" ({system.failed} failed)" if system.failed else ""
    shares = (
        "right",
        "facts_share",
        "commands_share",
        "has_invented",
        "citation_precision",
        "refused_right",
        "refused_wrong",
    )
    return (
        system.label,
        f"{system.n}{failed}",
        *(share(system.metrics.get(name)) for name in shares),
        number(system.metrics.get("words")),
        _seconds(system, "first_token_ms"),
        _seconds(system, "total_ms"),
        f"{system.memory_mib:,.0f}" if system.memory_mib else NOTHING,
    )


def share(interval: Interval | None) -> str:
    """Return a share in percent with its interval."""
    if interval is None:
        return NOTHING
    return f"{interval.estimate * 100:.1f} [{interval.low * 100:.1f}, {interval.high * 100:.1f}]"


def number(interval: Interval | None) -> str:
    """Return a plain mean."""
    return NOTHING if interval is None else f"{interval.estimate:.1f}"


def _seconds(system: SystemSummary, name: str) -> str:
    values = [system.latency_ms.get(f"{name}_p{percent}") for percent in (50, 95)]
    return " / ".join(NOTHING if v is None else f"{v / 1000:.2f}" for v in values)


def all_metrics(comparison: Comparison) -> Table:
    """Return every metric, one line each, one column a system."""
    rows = []
    for metric in METRICS:
        cells = [system.metrics.get(metric.name) for system in comparison.systems]
        if any(cells):
            form = share if metric.form == "share" else number
            rows.append((metric.label, metric.family, *(form(cell) for cell in cells)))
    labels = tuple(system.label for system in comparison.systems)
    return Table("All metrics", ("metric", "family", *labels), tuple(rows))


def groups(comparison: Comparison, field: str = "category") -> Table:
    """Return the share of right answers by a field of the questions, one column a system."""
    values = sorted({value for system in comparison.systems for value in system.groups[field]})
    rows = tuple(
        (
            value,
            *(
                f"{share(cell)} (n={cell.n})" if (cell := s.groups[field].get(value)) else NOTHING
                for s in comparison.systems
            ),
        )
        for value in values
    )
    labels = tuple(system.label for system in comparison.systems)
    return Table(f"Right by {field}", (field, *labels), rows)


def pairs(comparison: Comparison) -> Table:
    """Return the differences of every pair with their intervals."""
    names = [n for n in COMPARED if any(n in pair.differences for pair in comparison.pairs)]
    labels = {system.system: system.label for system in comparison.systems}
    rows = tuple(
        (
            f"{labels[pair.first]} − {labels[pair.second]}",
            str(pair.n),
            f"{len(pair.wins)} / {len(pair.losses)} / {pair.ties}",
            *(_difference(name, pair.differences.get(name)) for name in names),
        )
        for pair in comparison.pairs
    )
    columns = ("pair", "n", "wins / losses / ties", *(metric_label(name) for name in names))
    note = "Differences of shares in points; * marks those whose 95 % interval excludes zero."
    return Table("Pairs", columns, rows, note)


def _difference(name: str, interval: Interval | None) -> str:
    if interval is None:
        return NOTHING
    scale = 100 if METRIC[name].form == "share" else 1
    mark = "*" if interval.excludes_zero else ""
    low, high = interval.low * scale, interval.high * scale
    return f"{interval.estimate * scale:+.1f} [{low:+.1f}, {high:+.1f}]{mark}"


def discrimination(comparison: Comparison) -> Table:
    """Return how well each metric tells the systems apart, and how far it puts them apart."""
    labels = {system.system: system.label for system in comparison.systems}
    rows = []
    for name, found in comparison.separations.items():
        resolution = found.resolution
        rows.append(
            (
                metric_label(name),
                f"{len(found.apart)} of {len(found.pairs)}",
                str(found.n),
                *(
                    f"{end[1] * 100:.1f} ({labels[end[0]]})" if end else NOTHING
                    for end in (found.lowest, found.highest)
                ),
                f"{found.spread * 100:.1f}",
                f"±{found.half_width * 100:.1f}",
                NOTHING if resolution is None else f"{resolution:.1f}",
            )
        )
    columns = (
        "metric",
        "pairs told apart",
        "common questions",
        "lowest",
        "highest",
        "spread",
        "uncertainty of a difference",
        "spread / uncertainty",
    )
    return Table(DISCRIMINATION_TITLE, columns, tuple(rows), verdict(comparison.separations))


def discrimination_pairs(comparison: Comparison) -> Table:
    """Return for every pair which metric tells it apart."""
    labels = {system.system: system.label for system in comparison.systems}
    names = list(comparison.separations)
    rows = tuple(
        (
            f"{labels[pair.first]} − {labels[pair.second]}",
            *(_told_apart(name, pair.differences.get(name)) for name in names),
        )
        for pair in comparison.pairs
    )
    columns = ("pair", *(metric_label(name) for name in names))
    note = "Difference in points with its paired 95 % bootstrap interval; yes: it excludes zero."
    return Table(DISCRIMINATION_PAIRS_TITLE, columns, rows, note)


def _told_apart(name: str, interval: Interval | None) -> str:
    if interval is None:
        return NOTHING
    answer = "yes" if interval.excludes_zero else "no"
    return f"{answer}, {_difference(name, interval).rstrip('*')}"


def abstention(comparison: Comparison) -> Table:
    """Return how systems refuse."""
    rows = tuple(
        (
            system.label,
            NOTHING if system.refusal_precision is None else f"{system.refusal_precision:.1%}",
            share(system.metrics.get("refused_right")),
            share(system.metrics.get("refused_wrong")),
            NOTHING if system.risk_area is None else f"{system.risk_area:.3f}",
            NOTHING if system.threshold is None else f"{system.threshold:.3f}",
        )
        for system in comparison.systems
    )
    columns = (
        "system",
        "refusal precision",
        "refusal recall",
        "answerable refused",
        "area under risk",
        "chosen threshold",
    )
    return Table("Abstention", columns, rows, "Thresholds are chosen on development questions.")


def tables(comparison: Comparison) -> list[Table]:
    """Return all tables in the order of the report."""
    found = [overview(comparison)]
    if comparison.pairs:
        found += [pairs(comparison)]
        found += [discrimination(comparison), discrimination_pairs(comparison)]
    found += [abstention(comparison), groups(comparison)]
    found += [groups(comparison, name) for name in ("difficulty", "language", "kind")]
    return [*found, all_metrics(comparison)]


def to_markdown(table: Table, *, heading: int = 0) -> str:
    """Return a table as Markdown, with a heading of that level where it is above 0."""
    lines = [f"{'#' * heading} {table.title}", ""] if heading else []
    lines.append(_line(table.columns))
    lines.append(_line(["---"] * len(table.columns)))
    lines += [_line(row) for row in table.rows]
    if table.note:
        lines += ["", table.note]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
