"""What all commands share: the workspace option, progress bars, reading question files."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hpcllm.workspace import Workspace

    Advance = Callable[[int], None]

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        help="Folder that holds hpcllm.toml. Default: the nearest one upwards, else the reference "
        "workspace.",
        show_default=False,
    ),
]
ScopeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scope", help="Search this too, such as tickets; may be repeated.", show_default=False
    ),
]
LOG_EVERY_S = 30.0
"""Seconds between two lines about the progress of a long work where there is no terminal."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def open_workspace(directory: Path | None) -> Workspace:
    """Open the workspace that a command works on."""
    from hpcllm.workspace import Workspace

    return Workspace.find(directory)


def print_json(data: Any) -> None:
    """Print ``data`` as one line of JSON on standard output at once.

    Letters are escaped where standard output is not UTF-8, so that none is lost.
    """
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(json.dumps(data, ensure_ascii=not is_utf8) + "\n")
    sys.stdout.flush()


def note(message: str) -> None:
    """Print a line for the person at the terminal on standard error."""
    typer.echo(message, err=True)


def read_questions(path: Path) -> list[dict[str, Any]]:
    """Read a JSONL file whose lines hold at least ``question``.

    Raises:
        ConfigError: the file cannot be read, or lines are wrong (all of them are listed).
    """
    from hpcllm.errors import ConfigError

    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} is not UTF-8 (byte {exc.start}): save it as UTF-8") from exc
    questions, problems = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            questions.append(_question(json.loads(line)))
        except ValueError as exc:
            problems.append(f"line {number}: {exc}")
    if problems:
        raise ConfigError(f"{path} holds {len(problems)} line(s) that are no question:", problems)
    return questions


def _question(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict) or not isinstance(row.get("question"), str):
        raise ValueError('expected a JSON object with "question": "…"')
    return row


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
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _ProgressLines(label, unit).update
        return
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
