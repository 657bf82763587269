"""Commands of ``hpcllm eval``: contamination, judge, export to another harness."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcllm.cli.common import (
    JsonOption,
    WorkspaceOption,
    note,
    open_workspace,
    print_json,
    progress_bar,
)
from hpcllm.cli.evaluate_common import (
    IdsOption,
    QuestionsOption,
    SplitOption,
    load_selected,
    results_folder,
)
from hpcllm.cli.evaluate_gate import EXIT_GATE

if TYPE_CHECKING:
    from hpcllm.evaluation.contamination import ContaminationReport

SHOWN = 20
"""Findings shown to a person; ``--json`` has all."""


def contamination(
    training: Annotated[
        list[Path] | None, typer.Argument(help="Training data, JSON lines.")
    ] = None,
    questions: QuestionsOption = None,
    closed_book: Annotated[
        Path | None, typer.Option(help="Result file of a system without retrieval.")
    ] = None,
    twins: Annotated[
        Path | None, typer.Option(help="Reworded questions, for the perplexity test.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Server for the perplexity test.")] = None,
    model: Annotated[str | None, typer.Option(help="Model on that server.")] = None,
    out: Annotated[Path | None, typer.Option(help="JSON file to write the report to.")] = None,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Look for questions in training data, and for signs that a model knows them.

    Exit code 3 when training data holds a question. Candidates for paraphrases are listed only.
    """
    from hpcllm.evaluation.contamination import find_contamination, read_training_texts
    from hpcllm.index.embedders import load_embedder

    space = open_workspace(workspace)
    asked = load_selected(space, questions, None, None)
    embedder = load_embedder(
        space.settings.index.embedder, models_dir=space.models_dir, threads=space.threads
    )
    texts = read_training_texts(training or [])
    report = find_contamination(asked, texts, embedder=embedder)
    data = report.to_json()
    if closed_book:
        data["closed_book"] = _closed_book(closed_book)
    if twins and base_url and model:
        from hpcllm.evaluation.perplexity import (
            CompletionsLogprobs,
            compare_perplexity,
            read_twins,
        )

        source = CompletionsLogprobs(base_url, model, api_key=os.environ.get("HPCLLM_API_KEY"))
        data["perplexity"] = asdict(compare_perplexity(asked, read_twins(twins), source))
    if out:
        import json

        out.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print_json(data) if json_output else _show_contamination(report, data)
    raise typer.Exit(0 if report.is_clean else EXIT_GATE)


def _closed_book(path: Path) -> dict[str, object]:
    """Return the share of answerable questions that a system got right without passages."""
    from hpcllm.evaluation.results import read_results
    from hpcllm.evaluation.statistics import bootstrap_mean

    results = read_results(path)
    right = {row.id: row.scores["right"] or 0.0 for row in results.rows if row.answerable}
    interval = bootstrap_mean(list(right.values()))
    return {
        "system": results.header.system,
        "right": asdict(interval),
        "ids": [name for name, value in right.items() if value],
    }


def _show_contamination(report: ContaminationReport, data: dict[str, object]) -> None:
    typer.echo(f"{report.questions} questions, {report.examples} training texts")
    for title, hits in (("found", report.hits), ("candidates", report.candidates)):
        typer.echo(f"{title}: {len(hits)}")
        for hit in hits[:SHOWN]:
            typer.echo(f"  {hit.question}  {hit.kind} {hit.score}  {hit.training}  {hit.text!r}")
    for name in ("closed_book", "perplexity"):
        if name in data:
            typer.echo(f"{name}: {data[name]}")


def judge(
    first: Annotated[Path, typer.Argument(help="Result file of one system.")],
    second: Annotated[Path, typer.Argument(help="Result file of the other.")],
    base_url: Annotated[str, typer.Option(help="OpenAI-compatible endpoint ending in /v1.")],
    model: Annotated[str, typer.Option(help="Name of the judge on that server.")],
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Let a larger model compare two systems, each pair shown in both orders."""
    from hpcllm.evaluation.judge import Judge
    from hpcllm.evaluation.results import read_results
    from hpcllm.models.backends.openai_api import OpenAiBackend, Secret

    space = open_workspace(workspace)
    key = os.environ.get("HPCLLM_API_KEY")
    backend = OpenAiBackend(base_url, model, api_key=Secret(key) if key else None)
    with progress_bar("judging", "questions") as bar:
        found = Judge(backend, results_folder(space) / "judge").compare(
            read_results(first), read_results(second), progress=bar
        )
    if json_output:
        print_json(asdict(found))
        return
    typer.echo(
        f"{found.first} better: {len(found.wins)}, {found.second} better: {len(found.losses)}, "
        f"ties: {len(found.ties)} (the order decided in {len(found.disagreements)}); "
        f"unreadable replies: {found.unreadable}"
    )


def export_lm_eval(
    directory: Annotated[Path, typer.Argument(help="Folder to write; empty or absent.")],
    questions: QuestionsOption = None,
    split: SplitOption = None,
    ids: IdsOption = None,
    passages: Annotated[
        int, typer.Option(min=0, max=50, help="Passages shown before each question; 0 shows none.")
    ] = 0,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the questions as a task of lm-evaluation-harness.

    Example: hpcllm eval export-lm-eval task --split test && lm_eval --include_path task --tasks
    hpcllm --model hf --model_args pretrained=NAME
    """
    from hpcllm.evaluation.lm_eval_export import export_task

    space = open_workspace(workspace)
    chosen = load_selected(space, questions, split, ids)
    search = None
    if passages:
        from hpcllm.assistant import Assistant

        assistant = Assistant.open(space, model="extractive")

        def search(question):  # type: ignore[no-untyped-def]
            return assistant.search(
                question.question, k=passages, history=question.history, cluster=question.cluster
            )

    written = export_task(directory, chosen, search=search)
    note(f"{len(chosen)} questions in {directory}: {', '.join(path.name for path in written)}")
