"""``hpcllm search``: the passages that answer a question, without any answer written."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcllm.cli.common import (
    JsonOption,
    ScopeOption,
    WorkspaceOption,
    open_workspace,
    print_json,
    read_questions,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from hpcllm.assistant import Assistant
    from hpcllm.records import Passage


def search(
    question: Annotated[list[str] | None, typer.Argument(help="What to search for.")] = None,
    k: Annotated[int | None, typer.Option("-k", min=1, max=50, help="Passages to return.")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Only pages of this cluster and of none.")
    ] = None,
    scope: ScopeOption = None,
    questions: Annotated[
        Path | None, typer.Option(help="JSONL file of questions, one JSON line of results each.")
    ] = None,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Find passages of the documentation.

    Example: hpcllm search "time limit of the gpu partition" -k 5
    """
    if bool(question) == bool(questions):
        raise typer.BadParameter("give either a question or --questions FILE.jsonl")
    from hpcllm.assistant import Assistant

    assistant = Assistant.open(open_workspace(workspace), model="extractive")
    rows = read_questions(questions) if questions else [{"question": " ".join(question or ())}]
    for row in rows:
        result = run_search(assistant, row, k=k, cluster=cluster, scopes=scope or ())
        if json_output or questions:
            passages = [passage.to_json() for passage in result.pop("found")]
            print_json({**result, "passages": passages})
        else:
            show_passages(result["found"])


def run_search(
    assistant: Assistant,
    row: dict[str, Any],
    *,
    k: int | None,
    cluster: str | None,
    scopes: Collection[str] = (),
) -> dict[str, Any]:
    """Search for one question and return the parts of its JSON line."""
    start = time.perf_counter()
    chosen = cluster or row.get("cluster")
    found = assistant.search(row["question"], k=k, cluster=chosen, scopes=scopes)
    total = (time.perf_counter() - start) * 1000
    return {
        **({"id": row["id"]} if "id" in row else {}),
        "question": row["question"],
        "found": found,
        "timings_ms": {"total": round(total, 2)},
    }


def show_passages(passages: list[Passage]) -> None:
    """Print passages for a person."""
    if not passages:
        typer.echo("Nothing found.")
    for passage in passages:
        place = " > ".join(dict.fromkeys([passage.title, *passage.headings]))
        typer.secho(f"{passage.rank}. {place}", bold=True)
        typer.secho(f"   {passage.url or passage.path}", dim=True)
        if passage.notice:
            typer.secho(f"   {passage.notice}", fg=typer.colors.YELLOW)
        typer.echo("\n".join(f"   {line}" for line in passage.text.splitlines()) + "\n")
