"""``hpcllm ask``: one cited, checked answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcllm.cli.common import (
    JsonOption,
    ScopeOption,
    WorkspaceOption,
    note,
    open_workspace,
    print_json,
    read_questions,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from hpcllm.assistant import Assistant
    from hpcllm.records import Answer, Turn


def ask(
    question: Annotated[list[str] | None, typer.Argument(help="What to answer.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Cluster that the question is about.")] = None,
    scope: ScopeOption = None,
    model: Annotated[
        str | None, typer.Option(help="Model of the catalog, or extractive for none.")
    ] = None,
    questions: Annotated[
        Path | None, typer.Option(help="JSONL file of questions, one JSON line of answer each.")
    ] = None,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Answer a question from the documentation, with citations.

    Example: hpcllm ask "How do I request two A100 GPUs for 12 hours?"
    """
    text = " ".join(question or ()) or _from_pipe(questions)
    if bool(text) == bool(questions):
        raise typer.BadParameter("give either a question or --questions FILE.jsonl")
    from hpcllm.assistant import Assistant

    with Assistant.open(open_workspace(workspace), model=model) as assistant:
        if questions:
            for row in read_questions(questions):
                answer = answer_row(assistant, row, cluster, scope or ())
                print_json({**({"id": row["id"]} if "id" in row else {}), **answer.to_json()})
        elif json_output:
            print_json(assistant.answer(text, cluster=cluster, scopes=scope or ()).to_json())
        else:
            show_answer(stream_answer(assistant, text, cluster=cluster, scopes=scope or ()))


def _from_pipe(questions: Path | None) -> str:
    """Read the question from standard input where something is piped in."""
    return "" if questions or sys.stdin is None or sys.stdin.isatty() else sys.stdin.read().strip()


def answer_row(
    assistant: Assistant, row: dict[str, Any], cluster: str | None, scopes: Collection[str] = ()
) -> Answer:
    """Answer one line of a question file, its history and cluster included."""
    from hpcllm.records import Turn

    history = [Turn(turn["role"], turn["text"]) for turn in row.get("history") or ()]
    chosen = cluster or row.get("cluster")
    return assistant.answer(row["question"], history=history, cluster=chosen, scopes=scopes)


def stream_answer(
    assistant: Assistant,
    text: str,
    *,
    history: tuple[Turn, ...] = (),
    cluster: str | None = None,
    scopes: Collection[str] = (),
) -> Answer:
    """Print what happens on standard error while an answer is made, and return the answer."""
    answer: Answer | None = None
    for event in assistant.stream(text, history=history, cluster=cluster, scopes=scopes):
        if event.kind == "passages" and sys.stderr.isatty():
            note(f"reading {len(event.payload)} passages…")
        elif event.kind == "done":
            answer = event.payload
    if answer is None:
        raise RuntimeError("the stream of an answer ended without the answer")
    return answer


def show_answer(answer: Answer) -> None:
    """Print an answer and its sources; how it came about goes to standard error."""
    typer.echo(answer.text.strip())
    if answer.citations:
        typer.echo("\nSources" if not answer.abstained else "\nNearest pages")
    for citation in answer.citations:
        place = " > ".join(dict.fromkeys([citation.title, *citation.headings]))
        typer.echo(f"  [{citation.number}] {place}\n      {citation.url or citation.path}")
        if citation.notice:
            typer.echo(f"      {citation.notice}")
    failed = [f"{check.name}: {check.detail}" for check in answer.checks if not check.passed]
    note(f"\n({answer.model}, {answer.timings_ms.get('total', 0) / 1000:.1f} s)")
    if answer.fallback:
        note(_why_quoted(answer))
    for line in failed:
        note(f"({line})")


def _why_quoted(answer: Answer) -> str:
    """Return why no model wrote an answer, as a sentence."""
    reason = answer.fallback.rstrip(".")
    reason = f"T{reason[1:]}" if reason.startswith("the ") else reason
    return f"{reason}." if answer.abstained else f"{reason}; this answer quotes the pages."
