"""The results that the documentation shows, written from result files between markers.

Role: ``reference rows -> Markdown in README and docs/evaluation.md``, so that no number there is
typed by hand. What stands between the markers is replaced, the rest of a file stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.comparison import compare
from hpcllm.evaluation.statistics import Interval
from hpcllm.evaluation.tables import (
    NOTHING,
    Table,
    discrimination,
    discrimination_pairs,
    number,
    share,
    to_markdown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from hpcllm.evaluation.results import Results

    Entry = Mapping[str, Any]
    """A row of the reference file."""

RESULTS = "results"
"""Marked place of the main table, with the interval of every share."""
SHORT_RESULTS = "short results"
"""Marked place of the main table, with the interval of the first share alone."""
DISCRIMINATION = "discrimination"
"""Marked place of the tables of what metrics tell apart."""
COLUMNS = (
    "system",
    "n",
    "right [95 %]",
    "facts",
    "commands",
    "citations hold",
    "refused rightly / wrongly",
    "words",
    "first token s",
    "answer s, p50",
    "p95",
    "peak memory MiB",
)


def published_table(systems: Mapping[str, Entry], *, intervals: bool) -> Table:
    """Return the main table, one line a system in the order given.

    Args:
        systems: the reference's rows by system; they need not be of the same questions.
        intervals: whether facts, commands and citations have theirs; ``right`` always has it.
    """
    rows = tuple(_row(entry, intervals=intervals) for entry in systems.values())
    return Table("Results", COLUMNS, rows, _note(systems.values()))


def _row(entry: Entry, *, intervals: bool) -> tuple[str, ...]:
    form = share if intervals else _percent
    latency, memory = entry["latency_ms"], entry["peak_memory_mib"]
    metrics = {name: _interval(bounds) for name, bounds in entry["metrics"].items()}
    failed = f" ({entry['failed']} failed)" if entry["failed"] else ""
    refused = (_percent(metrics.get(name)) for name in ("refused_right", "refused_wrong"))
    times = ("first_token_ms_p50", "total_ms_p50", "total_ms_p95")
    return (
        entry["label"],
        f"{entry['n']}{failed}",
        share(metrics.get("right")),
        *(form(metrics.get(name)) for name in ("facts_share", "commands_share")),
        form(metrics.get("citation_precision")),
        " / ".join(refused),
        number(metrics.get("words")),
        *(f"{latency[name] / 1000:.2f}" if name in latency else NOTHING for name in times),
        f"{memory:,.0f}" if memory else NOTHING,
    )


def _interval(bounds: Mapping[str, Any]) -> Interval:
    return Interval(bounds["mean"], bounds["low"], bounds["high"], bounds["n"])


def _percent(interval: Interval | None) -> str:
    return NOTHING if interval is None else f"{interval.estimate * 100:.1f}"


def _note(entries: Iterable[Entry]) -> str:
    """Say what the columns mean and where the numbers come from."""
    entries = list(entries)
    machines = sorted({entry["machine"] for entry in entries if entry["machine"]})
    commits: dict[str, list[str]] = {}
    for entry in entries:
        if entry["date"]:
            when = f"{entry['date'][:10]}, commit {entry['commit'] or 'unknown'}"
            commits.setdefault(when, []).append(entry["label"])
    note = (
        "Shares in percent, in brackets 95 % bootstrap intervals over the questions. Right: all "
        "facts of an answerable question, or an unanswerable one refused. First token: median."
    )
    if machines and commits:
        runs = list(commits) if len(commits) == 1 else _runs(commits)
        note += f" Measured on {'; '.join(machines)}, {'; '.join(runs)}."
    return note


def _runs(commits: Mapping[str, Sequence[str]]) -> list[str]:
    """Name the systems of each run but of the one with most of them, which comes last."""
    by_size = sorted(commits.items(), key=lambda run: (len(run[1]), run[0]))
    named = [f"{', '.join(labels)}: {when}" for when, labels in by_size[:-1]]
    return [*named, f"the others: {by_size[-1][0]}"]


def published_parts(systems: Mapping[str, Entry], results: Sequence[Results]) -> dict[str, str]:
    """Return the Markdown of every place that can be marked, by its name.

    Args:
        systems: the reference's rows by system, in the order of lines.
        results: those that there are answers of. What metrics tell apart is said of them, where
            they are two or more; these must share questions. With one of several systems, that
            place stays as it is.

    Raises:
        EvaluationError: two of them share no question.
    """
    parts = {
        RESULTS: to_markdown(published_table(systems, intervals=True)),
        SHORT_RESULTS: to_markdown(published_table(systems, intervals=False)),
    }
    if len(systems) == 1:
        parts[DISCRIMINATION] = "One system alone: there is nothing to tell apart.\n"
    if len(results) > 1:
        comparison = compare(results)
        whole, pairs = discrimination(comparison), discrimination_pairs(comparison)
        parts[DISCRIMINATION] = f"{to_markdown(whole)}\n{_folded('Every pair', to_markdown(pairs))}"
    return parts


def _folded(title: str, content: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{content.strip()}\n\n</details>\n"


def publish(files: Sequence[Path], parts: Mapping[str, str]) -> list[Path]:
    """Write the parts between the markers of files.

    Args:
        files: Markdown files, each with at least one pair of markers.
        parts: Markdown by the name of its place.

    Returns:
        The files that changed.

    Raises:
        EvaluationError: a file cannot be read or written, or has no complete pair of markers; no
            file is changed then.
    """
    planned = {}
    try:
        for path in files:
            before = path.read_text(encoding="utf-8")
            after = _filled(path, before, parts)
            if after != before:
                planned[path] = after
        for path, text in planned.items():
            path.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise EvaluationError(f"results cannot be published: {exc}") from exc
    return list(planned)


def markers(name: str) -> tuple[str, str]:
    """Return the lines that begin and end a marked place."""
    return f"<!-- {name}: begin (hpcllm eval publish) -->", f"<!-- {name}: end -->"


def _filled(path: Path, text: str, parts: Mapping[str, str]) -> str:
    filled = 0
    for name, content in parts.items():
        begin, end = markers(name)
        if begin not in text:
            continue
        head, _, rest = text.partition(begin)
        _, found, tail = rest.partition(end)
        if not found:
            raise EvaluationError(f"{path} has {begin!r} and no {end!r} after it: add that line")
        text = f"{head}{begin}\n\n{content.strip()}\n\n{end}{tail}"
        filled += 1
    if not filled:
        begin, end = markers(SHORT_RESULTS)
        raise EvaluationError(
            f"{path} has no place for results: add the lines {begin!r} and {end!r} where the table "
            f"belongs (places: {', '.join(parts)})"
        )
    return text
