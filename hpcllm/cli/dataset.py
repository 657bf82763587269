"""``hpcllm dataset``: make instruction data, describe it, prove that it holds no question."""

from __future__ import annotations

import json
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
from hpcllm.cli.progress import progress_bar

if TYPE_CHECKING:
    from hpcllm.training.decontamination import OverlapReport
    from hpcllm.workspace import Workspace

app = typer.Typer(
    help="Make instruction data from documentation, describe it, check it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SMALLEST_BASE = "smollm2-135m-instruct"
"""What the smallest recipe adapts."""

DataArgument = Annotated[
    Path | None, typer.Argument(help="Data file. Default: training/data/MODEL.jsonl.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        help="Catalog id of the model that will learn. Default: as set; the smallest recipe's base "
        "where answers are extracts."
    ),
]
AgainstOption = Annotated[
    list[Path] | None,
    typer.Option(help="Further file or folder of evaluation questions; repeatable."),
]


def _learner(space: Workspace, model: str | None) -> str:
    """Return the catalog id of the model that a data set is for."""
    from hpcllm.assistant.assistant import EXTRACTIVE

    chosen = model or space.settings.model.id
    return SMALLEST_BASE if chosen == EXTRACTIVE else chosen


def _data_file(space: Workspace, data: Path | None, model: str | None) -> Path:
    return data or space.training_dir / "data" / f"{_learner(space, model)}.jsonl"


@app.command("build")
def build(
    model: ModelOption = None,
    site: Annotated[
        list[Path] | None,
        typer.Option(help="Workspace of further documentation, with an index; repeatable."),
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="Examples in all.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Source of all chance.")] = 1,
    questions: Annotated[
        Path | None,
        typer.Option(help="Folder of the hand-written part. Default: training/questions."),
    ] = None,
    hand_repeats: Annotated[
        int, typer.Option(min=1, help="Times that each hand-written question comes.")
    ] = 2,
    teacher: Annotated[
        str | None,
        typer.Option(help="OpenAI-compatible address ending in /v1; its key in HPCLLM_API_KEY."),
    ] = None,
    teacher_model: Annotated[str, typer.Option(help="Name of the model there.")] = "",
    teacher_questions: Annotated[
        int, typer.Option(min=1, help="Questions that the teacher writes at most.")
    ] = 2000,
    against: AgainstOption = None,
    out: Annotated[
        Path | None, typer.Option(help="File. Default: training/data/MODEL.jsonl.")
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Make a data set and its data sheet; what overlaps with an evaluation question is left out.

    Example: hpcllm dataset build --site ../csc-user-guide --size 12000
    """
    from hpcllm.models.catalog import load_catalog
    from hpcllm.training import dataset, datasheet, handwritten, opening

    space = open_workspace(workspace)
    entry = load_catalog(space.catalog_file).get(_learner(space, model))
    reader = opening.open_reader(entry, space.models_dir)
    materials = opening.open_materials(space, site or ())
    folder = questions or space.training_dir / "questions"
    hand = handwritten.read_handwritten(folder) if folder.is_dir() else []
    settings = dataset.BuildSettings(size=size, seed=seed, hand_repeats=hand_repeats)
    taught = _teach(teacher, teacher_model, materials, teacher_questions, seed) if teacher else ()
    with progress_bar("examples", "examples") as bar:
        examples, tally = dataset.build_examples(
            materials, hand, reader, settings, taught=taught, progress=bar
        )
    rows = [example.to_json() for example in examples]
    report = _overlaps(space, rows, against)
    hit = {overlap.example for overlap in report.hits}
    examples = [example for example in examples if example.id not in hit]
    path = _data_file(space, out, entry.id)
    digest = dataset.write_examples(examples, path)
    sheet = datasheet.describe(
        [example.to_json() for example in examples],
        file=path.name,
        sha256=digest,
        model=entry.id,
        seed=seed,
        format=dataset.DATA_FORMAT,
        overlapping_left_out=len(rows) - len(examples),
        mined=dict(tally.mined.most_common()),
        dropped=dict(tally.dropped.most_common()),
        skipped=dict(tally.skipped.most_common()),
    )
    _write_sheet(path, sheet)
    note(f"{path}: {len(examples):,} examples, SHA-256 {digest[:16]}…")


def _teach(base_url: str, model: str, materials: Any, limit: int, seed: int) -> Any:
    import os

    from hpcllm.models.backends.openai_api import OpenAiBackend, Secret
    from hpcllm.training.teacher import teach

    key = os.environ.get("HPCLLM_API_KEY")
    backend = OpenAiBackend(
        base_url, model, api_key=Secret(key) if key else None, context_tokens=8192
    )
    with progress_bar("teacher", "questions") as bar:
        return teach(backend, [m.site for m in materials], limit=limit, seed=seed, progress=bar)


def _write_sheet(path: Path, sheet: dict[str, Any]) -> None:
    from hpcllm.training.datasheet import to_markdown

    text = json.dumps(sheet, ensure_ascii=False, indent=1)
    path.with_suffix(".datasheet.json").write_text(f"{text}\n", encoding="utf-8")
    path.with_suffix(".datasheet.md").write_text(to_markdown(sheet), encoding="utf-8")


def _overlaps(
    space: Workspace,
    rows: list[dict[str, Any]],
    against: list[Path] | None,
    words_only: bool = False,
) -> OverlapReport:
    from hpcllm.index.embedders import load_embedder
    from hpcllm.training.decontamination import example_texts, find_overlaps, question_texts

    own = space.corpus_dir / "questions"
    asked = question_texts([*([own] if own.is_dir() else []), *(against or ())])
    embedder = None
    if not words_only:
        embedder = load_embedder(
            space.settings.index.embedder, models_dir=space.models_dir, threads=space.threads
        )
    with progress_bar("comparing", "texts") as bar:
        return find_overlaps(
            example_texts(rows), asked, embedder=embedder, progress=lambda done: bar(done, None)
        )


@app.command("check")
def check(
    data: DataArgument = None,
    model: ModelOption = None,
    against: AgainstOption = None,
    words_only: Annotated[
        bool, typer.Option("--words-only", help="Compare words, not meaning: needs no embedder.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Folder for overlap.json and overlap.md.")
    ] = None,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Compare a data set with the evaluation questions; exit code 1 where they overlap."""
    from hpcllm.errors import TrainingError
    from hpcllm.training.dataset import read_examples

    space = open_workspace(workspace)
    path = _data_file(space, data, model)
    found = _overlaps(space, read_examples(path), against, words_only)
    folder = report or path.parent
    folder.mkdir(parents=True, exist_ok=True)
    stem = "overlap" if report else f"{path.stem}.overlap"
    text = json.dumps(found.to_json(), ensure_ascii=False, indent=1)
    (folder / f"{stem}.json").write_text(f"{text}\n", encoding="utf-8")
    (folder / f"{stem}.md").write_text(found.to_markdown(), encoding="utf-8")
    if json_output:
        print_json(found.to_json())
    else:
        typer.echo(
            f"{found.examples:,} examples, {found.questions:,} questions: {len(found.hits)} hits, "
            f"{len(found.overlaps) - len(found.hits)} pairs to look at ({folder / stem}.md)"
        )
    if found.hits:
        first = found.hits[0]
        raise TrainingError(
            f"{path} overlaps with the evaluation: {len(found.hits)} hits, the first is example "
            f"{first.example} and question {first.question} ({first.kind}). Remove them, or build "
            "again with the questions given by --against"
        )


@app.command("stats")
def stats(
    data: DataArgument = None,
    model: ModelOption = None,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Count what a data set holds."""
    from hpcllm.training.dataset import read_examples
    from hpcllm.training.datasheet import describe, to_markdown

    path = _data_file(open_workspace(workspace), data, model)
    sheet = describe(read_examples(path), file=path.name)
    if json_output:
        print_json(sheet)
    else:
        typer.echo(to_markdown(sheet))
