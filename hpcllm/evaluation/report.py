"""The report: one HTML file with tables, plots and the worst answers, and Markdown tables.

Role: ``Results -> text``. The HTML holds everything it needs and loads nothing; all text of
questions and answers is escaped.
"""

from __future__ import annotations

from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from hpcllm.evaluation.comparison import compare
from hpcllm.evaluation.plots import (
    Axis,
    Series,
    bar_plot,
    line_plot,
    logarithmic_axis,
    scatter_plot,
)
from hpcllm.evaluation.tables import overview, tables, to_markdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hpcllm.evaluation.comparison import Comparison, SystemSummary
    from hpcllm.evaluation.results import Header, Results, Row
    from hpcllm.evaluation.tables import Table

WORST = 20
"""Answers shown of each system."""
STYLE_FILE = "report.css"
TEXT_LIMIT = 4000
"""Characters of an answer that are shown."""


def html_report(results: Sequence[Results], *, title: str = "Evaluation") -> str:
    """Return the report as one HTML page.

    Args:
        results: one a system, in the order of columns.
        title: heading of the page.
    """
    comparison = compare(results)
    style = resources.files("hpcllm.evaluation").joinpath(STYLE_FILE).read_text(encoding="utf-8")
    parts = [
        f"<h1>{escape(title)}</h1>",
        *_provenance(results),
        f'<div class="plots">{"".join(plots(comparison))}</div>',
        *(_table(table) for table in tables(comparison)),
        *(worst_section(each, results) for each in results),
        _headers(results),
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def markdown_report(results: Sequence[Results]) -> str:
    """Return all tables as Markdown."""
    comparison = compare(results)
    return "\n".join(to_markdown(table, heading=3) for table in tables(comparison))


def markdown_overview(results: Sequence[Results]) -> str:
    """Return the main table as Markdown, for a README."""
    return to_markdown(overview(compare(results)))


def plots(comparison: Comparison) -> list[str]:
    """Return the plots that the numbers allow, as SVG figures."""
    systems = comparison.systems
    shares = Axis("answers right", 0.0, 1.0, percent=True)
    found = [_risk_plot(systems), _latency_plot(systems)]
    memory = {s.system: s.memory_mib for s in systems if s.memory_mib}
    seconds = {
        s.system: s.latency_ms["total_ms_p50"] / 1000
        for s in systems
        if s.latency_ms.get("total_ms_p50")
    }
    for title, label, values in (
        ("Accuracy against memory", "peak memory, MiB", memory),
        ("Accuracy against latency", "time to the end of an answer, median, s", seconds),
    ):
        if values:
            axis = logarithmic_axis(label, list(values.values()))
            found.append(scatter_plot(title, _accuracy(systems, values), axis, shares))
    return found


def _risk_plot(systems: Sequence[SystemSummary]) -> str:
    series = [Series(s.label, [(p.coverage, p.risk) for p in s.curve]) for s in systems if s.curve]
    return line_plot(
        "Risk and coverage: share of wrong answers when only the most certain are given",
        series,
        Axis("coverage: questions answered", 0.0, 1.0, percent=True),
        Axis("risk: answers wrong", 0.0, 1.0, percent=True),
    )


def _latency_plot(systems: Sequence[SystemSummary]) -> str:
    names = ("total_ms_p95", "total_ms_p50")
    series = [
        Series(s.label, [(i, s.latency_ms[n] / 1000) for i, n in enumerate(reversed(names))])
        for s in systems
        if all(name in s.latency_ms for name in names)
    ]
    longest = max((value for s in series for _, value in s.points), default=1.0)
    axis = Axis("time to the end of an answer, s", 0.0, max(longest * 1.1, 1e-3))
    return bar_plot("Latency: bar to the median, line to the 95th percentile", series, axis)


def _accuracy(systems: Sequence[SystemSummary], x: Mapping[str, float]) -> list[Series]:
    return [
        Series(s.label, [(x[s.system], right.estimate)], [(right.low, right.high)])
        for s in systems
        if s.system in x and (right := s.metrics.get("right"))
    ]


def worst_rows(rows: Sequence[Row], count: int = WORST) -> list[Row]:
    """Return the answers that would do most harm, worst first.

    Only wrong ones: failures last, inventions first, then what was said with the most confidence,
    then what holds the fewest facts.
    """
    wrong = [row for row in rows if not row.scores["right"]]
    return sorted(
        wrong,
        key=lambda row: (
            row.status == "failed",
            row.abstained,
            -len(row.invented),
            -row.confidence,
            row.scores.get("facts_share") or 0.0,
            row.id,
        ),
    )[:count]


def worst_section(own: Results, results: Sequence[Results]) -> str:
    """Return the worst answers of one system, those of all systems beside them."""
    answers = [(each.header, {row.id: row for row in each.rows}) for each in results]
    items = [_worst(row, own.header.system, answers) for row in worst_rows(own.rows)]
    label = own.header.settings.get("label") or own.header.system
    body = "".join(items) or "<p>No wrong answer.</p>"
    return f"<h2>The {len(items)} worst answers of {escape(label)}</h2>{body}"


def _worst(row: Row, own: str, answers: Sequence[tuple[Header, Mapping[str, Row]]]) -> str:
    columns = "".join(
        _answer(header, rows[row.id], is_own=header.system == own)
        for header, rows in sorted(answers, key=lambda pair: pair[0].system != own)
        if row.id in rows
    )
    kind = "answerable" if row.answerable else "not answerable"
    return (
        f"<details><summary>{escape(row.id)} · {escape(_start(row.question, 140))}</summary>"
        f'<p class="small">{escape(row.category)}, {escape(row.difficulty)}, '
        f"{escape(row.language)}, {kind}</p><pre>{escape(row.question)}</pre>"
        f"<p><b>Gold answer:</b> {escape(row.gold_answer)}</p>"
        f'<div class="answers">{columns}</div></details>'
    )


def _answer(header: Header, row: Row, *, is_own: bool) -> str:
    label = header.settings.get("label") or header.system
    mark = '<b class="good">right</b>' if row.scores["right"] else '<b class="bad">wrong</b>'
    facts = row.scores.get("facts_share")
    details = [mark]
    if facts is not None:
        details.append(f"{facts:.0%} of the facts")
    if row.invented:
        details.append(f"invented: {escape(', '.join(row.invented))}")
    if row.fallback:
        details.append(f"fallback: {escape(row.fallback)}")
    if row.error:
        details.append(f"failed: {escape(row.error)}")
    return (
        f"<div{' class=own' if is_own else ''}><b>{escape(label)}</b>"
        f'<p class="small">{" · ".join(details)}</p>'
        f"<pre>{escape(_start(row.text, TEXT_LIMIT))}</pre></div>"
    )


def _start(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows
    )
    note = f'<p class="small">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<h2>{escape(table.title)}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def _provenance(results: Sequence[Results]) -> list[str]:
    sets = {
        f"{h.questions.get('name')} ({h.questions.get('count')} questions, "
        f"{str(h.questions.get('sha256'))[:12]})"
        for h in (each.header for each in results)
    }
    return [f'<p class="small">Questions: {escape("; ".join(sorted(sets)))}</p>']


def _headers(results: Sequence[Results]) -> str:
    import json
    from dataclasses import asdict

    items = []
    for each in results:
        data = {k: v for k, v in asdict(each.header).items() if k != "summary"}
        text = escape(json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False))
        name = escape(each.header.system)
        items.append(f"<details><summary>{name}</summary><pre>{text}</pre></details>")
    return f"<h2>What produced these results</h2>{''.join(items)}"
