"""What the commands of ``hpcllm eval`` share: choosing questions and running one system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcllm.cli.progress import progress_bar

if TYPE_CHECKING:
    from hpcllm.evaluation.results import Results
    from hpcllm.evaluation.systems import System
    from hpcllm.records import Question
    from hpcllm.workspace import Workspace

RESULTS_FOLDER = "results"
"""Folder of results in a workspace."""


def results_folder(space: Workspace) -> Path:
    """Return the folder of results: the workspace's, or here where that cannot be written."""
    return (space.root if os.access(space.root, os.W_OK) else Path.cwd()) / RESULTS_FOLDER


QuestionsOption = Annotated[
    Path | None,
    typer.Option(help="File or folder of questions. Default: the workspace's corpus/questions."),
]
SplitOption = Annotated[str | None, typer.Option(help="Only this split: dev or test.")]
IdsOption = Annotated[Path | None, typer.Option(help="File that lists ids, one a line.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Take so many, evenly spread.")]


def load_selected(
    space: Workspace,
    questions: Path | None,
    split: str | None,
    ids: Path | None,
    limit: int | None = None,
) -> list[Question]:
    """Load the questions that the options choose."""
    from hpcllm.evaluation.questions import load_questions
    from hpcllm.evaluation.selection import read_ids, select_questions

    return select_questions(
        load_questions(questions or space.corpus_dir / "questions"),
        split=split,
        ids=read_ids(ids) if ids else None,
        limit=limit,
    )


def run_one(
    space: Workspace,
    system: System,
    questions: list[Question],
    folder: Path,
    set_name: str,
    *,
    retry_failed: bool = False,
    generation_name: str | None = None,
) -> Results:
    """Run one system in this process, with a progress bar."""
    from hpcllm.evaluation.runner import run_system
    from hpcllm.evaluation.scoring import open_scorer
    from hpcllm.evaluation.systems import open_system

    answerer = open_system(system, space, generation_name=generation_name)
    try:
        with progress_bar(system.id, "questions") as bar:
            return run_system(
                system,
                answerer,
                questions,
                results_dir=folder,
                make_scorer=lambda: open_scorer(space, generation_name=generation_name),
                name=set_name,
                retry_failed=retry_failed,
                progress=bar,
            )
    finally:
        answerer.close()
