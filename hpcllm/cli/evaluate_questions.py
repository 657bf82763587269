"""``hpcllm eval questions``: check, count and split the evaluation questions."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcllm.cli.common import JsonOption, WorkspaceOption, note, open_workspace, print_json
from hpcllm.cli.evaluate_common import QuestionsOption

app = typer.Typer(
    help="Check, count and split the questions.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("check")
def check_command(questions: QuestionsOption = None, workspace: WorkspaceOption = None) -> None:
    """Check that facts stand in their pages, ids are unique and no two questions are alike."""
    from hpcllm.evaluation.questions import check_counts, check_questions, load_questions
    from hpcllm.workspace import read_toml

    space = open_workspace(workspace)
    loaded = load_questions(questions or space.corpus_dir / "questions")
    problems = check_questions(loaded, space.corpus_dir)
    counts = (questions or space.corpus_dir / "questions") / "counts.toml"
    if counts.is_file():
        problems += check_counts(loaded, read_toml(counts))
    for problem in problems:
        typer.echo(problem)
    note(f"{len(loaded)} questions, {len(problems)} problems")
    raise typer.Exit(int(bool(problems)))


@app.command("stats")
def stats_command(
    questions: QuestionsOption = None,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Count the questions by category, difficulty, language, kind and split."""
    from hpcllm.evaluation.questions import count_questions, load_questions

    space = open_workspace(workspace)
    counts = count_questions(load_questions(questions or space.corpus_dir / "questions"))
    if json_output:
        print_json(counts)
        return
    for field, values in counts.items():
        shown = ", ".join(f"{name} {count}" for name, count in values.items())
        typer.echo(f"{field}: {shown}")


@app.command("split")
def split_command(
    questions: QuestionsOption = None,
    dev: Annotated[int, typer.Option(min=1, help="Questions for development.")] = 200,
    smoke: Annotated[int, typer.Option(min=1, help="Questions of the smoke subset.")] = 100,
    subset: Annotated[int, typer.Option(min=1, help="Questions of the subset.")] = 150,
    seed: Annotated[int, typer.Option(help="Seed of the assignment.")] = 20260,
    workspace: WorkspaceOption = None,
) -> None:
    """Assign each question to dev or test and write smoke.txt, subset-N.txt and golden.txt.

    The same questions and seed give the same assignment. Questions of one conversation, and those
    with the same "group", stay together.
    """
    from hpcllm.evaluation.split import write_split

    space = open_workspace(workspace)
    folder = questions or space.corpus_dir / "questions"
    counts = write_split(folder, dev=dev, smoke=smoke, subset=subset, seed=seed)
    note(", ".join(f"{name}: {count}" for name, count in counts.items()))
