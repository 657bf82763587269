"""How far a long work is, for whoever waits for it: a bar on a terminal, lines in a log."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hpcllm.cli.common import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOG_EVERY_S = 30.0
"""Seconds between two lines where there is no terminal."""


class _ProgressLines:
    """Says in a log how far a long work is, so that it can be told from one that hangs."""

    def __init__(self, label: str, unit: str) -> None:
        self._label = label
        self._unit = unit
        self._done = 0
        self._total: int | None = None
        self._began = self._told = time.monotonic()

    def update(self, advance: int, total: int | None = None) -> None:
        """Count ``advance`` more; ``total`` None leaves the total as it is."""
        self._done += advance
        self._total = self._total if total is None else total
        now = time.monotonic()
        if now - self._told >= LOG_EVERY_S:
            self._told = now
            note(self._line(now - self._began))

    def _line(self, seconds: float) -> str:
        of = f" of {self._total:,}" if self._total else ""
        line = f"{self._label}: {self._done:,}{of} {self._unit} in {duration(seconds)}"
        if self._total and self._done:
            left = seconds * (self._total - self._done) / self._done
            line += f", {duration(left)} left"
        return line


def duration(seconds: float) -> str:
    """Return a time for people, such as ``45 s``, ``12 min`` or ``3 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def progress_bar(label: str, unit: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar with rate and time left on standard error; a line now and then in a log.

    Yields:
        A function ``update(advance, total)``; ``total`` None leaves the total as it is.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _ProgressLines(label, unit).update
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    rate = TextColumn("{task.fields[rate]}")
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        rate,
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=None, rate="")

        def update(advance: int, total: int | None = None) -> None:
            bar.update(task, advance=advance, total=bar.tasks[0].total if total is None else total)
            speed = bar.tasks[0].speed
            bar.update(task, rate=f"{speed:,.0f} {unit}/s" if speed else "")

        yield update
