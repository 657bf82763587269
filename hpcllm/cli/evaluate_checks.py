"""Commands of ``hpcllm eval``: contamination, judge, export to another harness."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcllm.cli.common import (
    JsonOption,
    WorkspaceOption,
    note,
    open_workspace,
    print_json,
)
from hpcllm.cli.evaluate_common import (
    IdsOption,
    QuestionsOption,
    SplitOption,
    load_selected,
    results_folder,
)
from hpcllm.cli.evaluate_gate import EXIT_GATE
from hpcllm.cli.progress import progress_bar

if TYPE_CHECKING:
    from hpcllm.evaluation.contamination import ContaminationReport
    from hpcllm.records import Question
    from hpcllm.workspace import Workspace

SHOWN = 20
"""Findings shown to a person; ``--json`` has all."""


def contamination(
    training: Annotated[
        list[Path] | None,
        typer.Argument(help="Training data, JSON lines. Default: training/data/*.jsonl."),
    ] = None,
    questions: QuestionsOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Take so many training texts, evenly spread.")
    ] = None,
    closed_book: Annotated[
        Path | None, typer.Option(help="Result file of a system without retrieval.")
    ] = None,
    twins: Annotated[
        Path | None, typer.Option(help="Reworded questions, for the perplexity test.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Server for the perplexity test.")] = None,
    model: Annotated[str | None, typer.Option(help="Model on that server.")] = None,
    out: Annotated[Path | None, typer.Option(help="JSON file to write the report to.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Markdown file to write the report to.")
    ] = None,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Look for questions in training data, and for signs that a model knows them.

    Exit code 3 when training data holds a question. Candidates for paraphrases are listed only.
    """
    from hpcllm.evaluation.contamination_text import contamination_markdown

    space = open_workspace(workspace)
    asked = load_selected(space, questions, None, None)
    report, data = _compared(space, asked, _training_files(space, training), limit)
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
        out.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if markdown:
        texts = {question.id: question.question for question in asked}
        markdown.write_text(contamination_markdown(data, texts), encoding="utf-8")
        note(f"wrote {markdown}")
    print_json(data) if json_output else _show_contamination(report, data)
    raise typer.Exit(0 if report.is_clean else EXIT_GATE)


def _training_files(space: Workspace, named: list[Path] | None) -> list[Path]:
    return named or sorted((space.training_dir / "data").glob("*.jsonl"))


def _compared(
    space: Workspace, asked: list[Question], files: list[Path], limit: int | None
) -> tuple[ContaminationReport, dict[str, Any]]:
    """Compare training files with questions; return the report and its JSON with origins."""
    from hpcllm.evaluation.contamination import find_contamination, read_training_texts
    from hpcllm.evaluation.fingerprints import file_sha256, questions_sha256
    from hpcllm.index.embedders import load_embedder

    by_file = {file: read_training_texts([file]) for file in files}
    texts = [text for found in by_file.values() for text in found]
    if limit is not None and limit < len(texts):
        texts = [texts[i * len(texts) // limit] for i in range(limit)]
    else:
        limit = None
    embedder = load_embedder(
        space.settings.index.embedder, models_dir=space.models_dir, threads=space.threads
    )
    report = find_contamination(asked, texts, embedder=embedder)
    origins = [
        {"file": file.name, "sha256": file_sha256(file), "texts": len(found)}
        for file, found in by_file.items()
    ]
    data = report.to_json() | {"training": origins, "limit": limit}
    return report, data | {"questions_sha256": questions_sha256(asked)}


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
