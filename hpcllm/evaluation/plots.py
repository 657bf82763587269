"""Small plots as inline SVG: no library, no script, readable in light and dark.

Role: numbers -> SVG text. Knows nothing of systems or metrics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 620, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 18, 52
COLOURS = (
    "#3366cc", "#dc7a14", "#109618", "#b3261e", "#7a3e9d", "#0b8fa8", "#8a6d3b", "#c2387f",
)  # fmt: skip
TICKS = 5


@dataclass(frozen=True, slots=True)
class Series:
    """One line or cloud of a plot.

    Attributes:
        label: shown in the legend.
        points: pairs of x and y in data units, in drawing order.
        errors: lower and upper end of y for each point, or empty.
    """

    label: str
    points: Sequence[tuple[float, float]]
    errors: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes:
        label: with the unit.
        low: value at its start.
        high: value at its end, above ``low``.
        logarithmic: whether equal steps are equal factors; ``low`` is then above 0.
        percent: whether ticks are printed as percent.
    """

    label: str
    low: float
    high: float
    logarithmic: bool = False
    percent: bool = False

    def place(self, value: float) -> float:
        """Return where a value lies, 0 at the start to 1 at the end, cut at both."""
        if self.logarithmic:
            low, high = math.log10(self.low), math.log10(self.high)
            value = math.log10(max(value, self.low))
        else:
            low, high = self.low, self.high
        return min(1.0, max(0.0, (value - low) / (high - low)))

    def ticks(self) -> list[float]:
        """Return the values that are marked."""
        if self.logarithmic:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            found = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
            return [value for value in found if self.low <= value <= self.high]
        step = _round_step((self.high - self.low) / TICKS)
        count = math.floor((self.high - self.low) / step + 1e-9)
        return [self.low + step * i for i in range(count + 1)]

    def show(self, value: float) -> str:
        """Return a value as a tick's text."""
        return f"{value * 100:g} %" if self.percent else f"{value:,.4g}"


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= step - 1e-12)


def logarithmic_axis(label: str, values: Sequence[float]) -> Axis:
    """Return an axis that holds all ``values``, which are above 0, with some room."""
    return Axis(label, min(values) / 1.6, max(values) * 1.6, logarithmic=True)


def line_plot(title: str, series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Return stepless lines through the points of each series."""
    body = []
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{_x(x, a):.1f},{_y(y, b):.1f}" for a, b in each.points)
        body.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2">'
            f"<title>{escape(each.label)}</title></polyline>"
        )
    return _frame(title, series, x, y, body)


def scatter_plot(title: str, series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Return a dot for each point, with bars where the series has errors."""
    body = []
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        for index, (a, b) in enumerate(each.points):
            left, top = _x(x, a), _y(y, b)
            if each.errors:
                low, high = (_y(y, end) for end in each.errors[index])
                body.append(
                    f'<line x1="{left:.1f}" x2="{left:.1f}" y1="{low:.1f}" y2="{high:.1f}" '
                    f'stroke="{colour}"/>'
                )
            body.append(
                f'<circle cx="{left:.1f}" cy="{top:.1f}" r="5" fill="{colour}">'
                f"<title>{escape(each.label)}: {x.show(a)}, {y.show(b)}</title></circle>"
            )
    return _frame(title, series, x, y, body)


def bar_plot(title: str, series: Sequence[Series], y: Axis) -> str:
    """Return one group of horizontal bars a series; a point is (row, value on ``y``).

    The second point of a series, where there is one, is drawn as a thinner line to its value.
    """
    body = []
    height = (HEIGHT - TOP - BOTTOM) / max(1, len(series))
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        top = TOP + number * height
        for index, (_, value) in enumerate(each.points):
            thick = height * (0.5 if index == 0 else 0.12)
            offset = top + (height - thick) / 2
            end = LEFT + y.place(value) * (WIDTH - LEFT - RIGHT)
            body.append(
                f'<rect x="{LEFT}" y="{offset:.1f}" width="{max(end - LEFT, 1):.1f}" '
                f'height="{thick:.1f}" fill="{colour}"><title>{escape(each.label)}: '
                f"{y.show(value)}</title></rect>"
            )
    return _svg(title, [*_x_axis(y), *body], series)


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - TOP - BOTTOM)


def _frame(title: str, series: Sequence[Series], x: Axis, y: Axis, body: Sequence[str]) -> str:
    lines = [*_x_axis(x)]
    for value in y.ticks():
        top = _y(y, value)
        lines.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{top:.1f}" y2="{top:.1f}"/>'
            f'<text x="{LEFT - 8}" y="{top + 4:.1f}" text-anchor="end">{y.show(value)}</text>'
        )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    lines.append(
        f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y.label)}</text>"
    )
    return _svg(title, [*lines, *body], series)


def _x_axis(axis: Axis) -> list[str]:
    bottom = HEIGHT - BOTTOM
    lines = []
    for value in axis.ticks():
        left = _x(axis, value)
        lines.append(
            f'<line class="grid" x1="{left:.1f}" x2="{left:.1f}" y1="{TOP}" y2="{bottom}"/>'
            f'<text x="{left:.1f}" y="{bottom + 16}" text-anchor="middle">{axis.show(value)}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(
        f'<text x="{middle:.0f}" y="{HEIGHT - 14}" text-anchor="middle">{escape(axis.label)}</text>'
    )
    return lines


def _svg(title: str, body: Sequence[str], series: Sequence[Series]) -> str:
    legend = "".join(
        f'<span><i style="background:{COLOURS[number % len(COLOURS)]}"></i>'
        f"{escape(each.label)}</span>"
        for number, each in enumerate(series)
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{escape(title, quote=True)}">{"".join(body)}</svg>'
        f'<div class="legend">{legend}</div></figure>'
    )
