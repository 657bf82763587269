"""What all commands share: the workspace option, output, reading question files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hpcllm.workspace import Workspace

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
