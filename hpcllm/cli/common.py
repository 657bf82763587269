"""What all commands share: the workspace option, progress bars, reading question files."""

from __future__ import annotations

import json
import sys
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


@contextmanager
def progress_bar(label: str, unit: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar with rate and time left on standard error while it is a terminal.

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
    rate = TextColumn("{task.fields[rate]}")
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        rate,
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=None, rate="")

        def update(advance: int, total: int | None = None) -> None:
            bar.update(task, advance=advance, total=bar.tasks[0].total if total is None else total)
            speed = bar.tasks[0].speed
            bar.update(task, rate=f"{speed:,.0f} {unit}/s" if speed else "")

        yield update
