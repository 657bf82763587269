from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from hpcllm.evaluation.comparison import compare
from hpcllm.evaluation.plots import Axis, Series, line_plot, logarithmic_axis, scatter_plot
from hpcllm.evaluation.report import html_report, markdown_report, plots, worst_rows
from tests.unit.evaluation.helpers import results, row

EVIL = '<script>alert("x")</script> & <img src=http://evil.invalid/x>'


class Collector(HTMLParser):
    """Collects tags and everything that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [str(v) for k, v in attrs if k in ("src", "href", "srcset", "action")]


def two() -> list[object]:
    rows = [row(n, right=n % 2 == 0, confidence=n / 30, text=EVIL) for n in range(30)]
    return [results("one", rows), results("two", [row(n, right=True) for n in range(30)])]


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = html_report(two(), title=EVIL)  # type: ignore[arg-type]
    seen = Collector()
    seen.feed(page)
    assert seen.fetched == []
    assert not {"script", "img", "link", "iframe"} & set(seen.tags)
    assert "&lt;script&gt;" in page
    assert "url(" not in page and "@import" not in page


def test_worst_answers_stand_side_by_side() -> None:
    page = html_report(two())  # type: ignore[arg-type]
    assert "The 15 worst answers of one" in page
    assert "The 0 worst answers of two" in page and "No wrong answer." in page
    section = page[page.index("The 15 worst answers") :]
    assert section.index("q-029") < section.index("q-027")
    first = section[: section.index("</details>")]
    assert first.count('<b class="bad">wrong</b>') == 1
    assert first.count('<b class="good">right</b>') == 1


def test_at_most_twenty_and_the_most_harmful_first() -> None:
    rows = [row(n, right=False, confidence=n / 100) for n in range(30)]
    rows += [
        row(50, False, invented=["option x --y"], confidence=0.0),
        row(51, False, status="failed", confidence=1.0),
        row(52, False, abstained=True, confidence=0.9),
        row(53, True, confidence=1.0),
    ]
    worst = worst_rows(rows)
    assert len(worst) == 20
    assert [r.id for r in worst[:3]] == ["q-050", "q-029", "q-028"]
    assert [r.id for r in worst_rows(rows, 99)[-2:]] == ["q-052", "q-051"]


def test_four_plots_are_well_formed() -> None:
    figures = plots(compare(two()))  # type: ignore[arg-type]
    assert len(figures) == 4
    for figure in figures:
        ElementTree.fromstring(figure.replace(" class=own", ""))


def test_without_memory_and_times_two_plots_are_left() -> None:
    bare = results("s", [row(n, True, measured={}) for n in range(3)])
    assert len(plots(compare([bare]))) == 2


def test_markdown_holds_all_tables() -> None:
    text = markdown_report(two())  # type: ignore[arg-type]
    for title in ("### Results", "### Pairs", "### Abstention", "### Right by category"):
        assert title in text


def test_points_lie_where_the_axes_say() -> None:
    x, y = Axis("x", 0, 10), Axis("y", 0, 1, percent=True)
    figure = scatter_plot("t", [Series("s", [(5, 0.5)], [(0.25, 0.75)])], x, y)
    assert 'cx="334.0" cy="163.0"' in figure  # the middle of the plotting area
    assert 'y1="235.5" y2="90.5"' in figure
    assert ">50 %<" not in figure and ">40 %<" in figure


def test_lines_are_drawn_in_order() -> None:
    unit = Axis("a", 0, 1)
    assert 'points="64.0,308.0 604.0,18.0"' in line_plot(
        "t", [Series("s", [(0, 0), (1, 1)])], unit, unit
    )


def test_logarithmic_axes_mark_one_two_and_five() -> None:
    axis = logarithmic_axis("MiB", [100, 2000])
    assert axis.ticks() == [100, 200, 500, 1000, 2000]
    assert axis.place(axis.low) == 0.0 and axis.place(axis.high) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("high", "step"), [(1.0, 0.2), (7.0, 2.0), (0.012, 0.0025), (900.0, 200.0)]
)
def test_linear_ticks_are_round(high: float, step: float) -> None:
    ticks = Axis("a", 0.0, high).ticks()
    assert ticks[1] == pytest.approx(step) and ticks[-1] <= high
