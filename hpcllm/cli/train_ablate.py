"""``hpcllm train ablate``: which data and settings earn their place."""

from __future__ import annotations

import subprocess
import sys
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
    from hpcllm.records import Question
    from hpcllm.training.ablation import Scoring, Setting, Variant
    from hpcllm.workspace import Workspace

TABLE_NAME = "ablation"


def ablate(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe, or its file.")],
    variants: Annotated[Path, typer.Option(help="TOML of variants, see training/ablations.")],
    questions: Annotated[
        Path | None, typer.Option(help="Questions that every variant answers. Default: none.")
    ] = None,
    site: Annotated[
        Path | None, typer.Option(help="Workspace whose index they are answered from.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Ask only this split: dev or test.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Ask so many, evenly spread.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this variant; repeatable.")] = None,
    data: Annotated[Path | None, typer.Option(help="Data file instead of the recipe's.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder. Default: training/runs/ablation-VARIANTS.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start variants anew whose data or settings changed.")
    ] = False,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Train a recipe once for each variant, score each, and write a table.

    Each variant is trained in a process of its own. A run that was stopped goes on where it was.

    Example: hpcllm train ablate smollm2-135m-cpu --variants training/ablations/smollm2-135m.toml
    """
    from hpcllm.training.ablation import check

    space = open_workspace(workspace)
    setting = _setting(space, recipe, variants, data, out)
    check(setting)
    chosen = [setting.ablation.named(id) for id in only or ()] or list(setting.ablation.variant)
    if len(chosen) == 1:
        asked = _asked(space, site, questions, split, limit)
        _run_here(space, setting, chosen[0], asked, fresh=fresh)
    else:
        _run_each(chosen, [a for a in _own_arguments() if a != "--json"])
    _tell(setting, variants.stem, json_output=json_output)


def _setting(
    space: Workspace, recipe: str, variants: Path, data: Path | None, out: Path | None
) -> Setting:
    from hpcllm.models.catalog import load_catalog
    from hpcllm.training.ablation import Setting, load_ablation
    from hpcllm.training.recipe import find_recipe, load_recipe

    ablation = load_ablation(variants)
    path = find_recipe(recipe, space.training_dir / "recipes")
    values = load_recipe(path, ablation.set).recipe
    return Setting(
        ablation=ablation,
        recipe=path,
        entry=load_catalog(space.catalog_file).get(values.base.model),
        data=(data or space.training_dir / values.data.file).resolve(),
        models_dir=space.models_dir,
        folder=(out or space.training_dir / "runs" / f"ablation-{variants.stem}").resolve(),
        threads=space.threads,
    )


def _own_arguments() -> list[str]:
    """Return this command's arguments as given, without the variants chosen by ``--only``."""
    given = sys.argv[sys.argv.index("ablate") + 1 :]
    kept, skip = [], False
    for argument in given:
        if skip or argument == "--only":
            skip = not skip
        elif not argument.startswith("--only="):
            kept.append(argument)
    return kept


def _run_each(variants: list[Variant], arguments: list[str]) -> None:
    """Run each variant in a process of its own, whose memory is freed at its end."""
    from hpcllm.errors import TrainingError

    failed = []
    for variant in variants:
        note(f"variant {variant.id}")
        command = [sys.executable, "-m", "hpcllm", "train", "ablate", *arguments]
        done = subprocess.run(
            [*command, "--only", variant.id], check=False, stdout=subprocess.DEVNULL
        )
        if done.returncode:
            failed.append(variant.id)
    if failed:
        raise TrainingError(
            f"{len(failed)} of {len(variants)} variants did not finish: {', '.join(failed)}. Start "
            "the same command again; those that are done are not done again"
        )


def _run_here(
    space: Workspace,
    setting: Setting,
    variant: Variant,
    asked: tuple[Workspace, list[Question]] | None,
    *,
    fresh: bool,
) -> None:
    from hpcllm.training.ablation import resolve, run_variant
    from hpcllm.training.process import restart_for_training

    restart_for_training(resolve(setting, variant).recipe.training.threads or space.threads)
    scoring = _scoring(setting, *asked) if asked else None
    with progress_bar(variant.id, "steps") as bar:
        run_variant(setting, variant, scoring, fresh=fresh, progress=bar)


def _asked(
    space: Workspace,
    site: Path | None,
    questions: Path | None,
    split: str | None,
    limit: int | None,
) -> tuple[Workspace, list[Question]] | None:
    """Return the questions and the workspace that they are answered from."""
    from hpcllm.cli.evaluate_common import load_selected

    if questions is None:
        return None
    answering = open_workspace(site) if site else space
    return answering, load_selected(answering, questions, split, None, limit)


def _scoring(setting: Setting, site: Workspace, questions: list[Question]) -> Scoring:
    """Return how a variant's answers are scored: through the assistant, from the site's index."""
    from hpcllm.evaluation.fingerprints import questions_sha256
    from hpcllm.index.generation import open_current
    from hpcllm.training.ablation import Scoring

    with open_current(site.index_dir) as generation:
        key = f"{questions_sha256(questions)} {generation.manifest.corpus_sha256}"
    return Scoring(key, lambda variant, adapter: score(setting, site, questions, variant, adapter))


def score(
    setting: Setting, site: Workspace, questions: list[Question], variant: Variant, adapter: Path
) -> dict[str, Any]:
    """Answer questions with a variant's adapter and return the figures.

    Args:
        setting: what all variants share.
        site: workspace whose index the passages come from.
        questions: what is asked.
        variant: the variant.
        adapter: folder of its adapter.
    """
    from hpcllm.evaluation.runner import run_system
    from hpcllm.evaluation.scoring import Scorer
    from hpcllm.evaluation.systems import System, open_system

    system = System(
        id="draft",
        model=f"transformers:{setting.entry.id}+{adapter}",
        prompt_passages=variant.passages or None,
        output="draft",
    )
    answerer = open_system(system, site)
    try:
        drafts, checked = (
            run_system(
                system.model_copy(update={"id": output, "output": output}),
                answerer,
                questions,
                results_dir=setting.folder / variant.id / "results",
                make_scorer=Scorer,
                name=TABLE_NAME,
            )
            for output in ("draft", "checked")
        )
    finally:
        answerer.close()
    facts = {row.id: row.scores["facts_all"] for row in drafts.rows}
    return {
        "questions": len(questions),
        **{f"draft_{name}": value["mean"] for name, value in drafts.header.summary.items()},
        **{name: value["mean"] for name, value in checked.header.summary.items()},
        "by_question": {id: value for id, value in facts.items() if value is not None},
    }


def _tell(setting: Setting, name: str, *, json_output: bool) -> None:
    """Write the table of what is finished, and print it."""
    from dataclasses import astuple

    from hpcllm.evaluation.statistics import paired_difference
    from hpcllm.training.ablation import finished
    from hpcllm.training.ablation_table import to_markdown, with_differences
    from hpcllm.training.recording import write_json

    def difference(mine: Any, first: Any) -> tuple[float, float, float]:
        mean, low, high, _ = astuple(paired_difference(mine, first))
        return mean, low, high

    results = with_differences(finished(setting), difference)
    text = to_markdown(results, title=f"Ablation {name} of {setting.recipe.stem}")
    (setting.folder / f"{TABLE_NAME}.md").write_text(text, encoding="utf-8")
    write_json(setting.folder / f"{TABLE_NAME}.json", results)
    if json_output:
        print_json(results)
    else:
        typer.echo(text)
    note(f"{setting.folder / TABLE_NAME}.md and .json: {len(results)} variants")
