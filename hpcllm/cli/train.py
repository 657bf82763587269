"""``hpcllm train``: train an adapter here or as a Slurm job; ``hpcllm train ablate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hpcllm.cli import train_ablate
from hpcllm.cli.common import (
    JsonOption,
    WorkspaceOption,
    note,
    open_workspace,
    print_json,
)
from hpcllm.cli.progress import progress_bar

if TYPE_CHECKING:
    from hpcllm.training.recipe import ResolvedRecipe
    from hpcllm.training.run import RunPaths
    from hpcllm.workspace import Workspace


RUN = "run"


class RecipeFirst(TyperGroup):
    """Lets the recipe follow at once: ``hpcllm train RECIPE`` is ``hpcllm train run RECIPE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in front where none is named."""
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else [RUN, *args])


app = typer.Typer(
    cls=RecipeFirst,
    no_args_is_help=True,
    help="Train an adapter: hpcllm train RECIPE. Compare variants: hpcllm train ablate RECIPE.",
)
app.command("ablate")(train_ablate.ablate)


@app.command(RUN)
def train(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe, or its file.")],
    values: Annotated[
        list[str] | None,
        typer.Option("--set", help="table.key=value instead of the recipe's; repeatable."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data file instead of the recipe's.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run. Default: training/runs/RECIPE.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start anew where the folder holds a run.")
    ] = False,
    slurm: Annotated[bool, typer.Option("--slurm", help="Submit it as a Slurm job.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="With --slurm: wait for the job's end.")
    ] = True,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Train an adapter by a recipe of training/recipes; a run that was stopped goes on.

    Example: hpcllm train smollm2-135m-cpu --set training.threads=1
    """
    from hpcllm.models.catalog import load_catalog
    from hpcllm.training.process import restart_for_training
    from hpcllm.training.recipe import find_recipe, load_recipe

    space = open_workspace(workspace)
    resolved = load_recipe(find_recipe(recipe, space.training_dir / "recipes"), values or ())
    entry = load_catalog(space.catalog_file).get(resolved.recipe.base.model)
    paths = _paths(space, resolved, data, out)
    if slurm:
        from hpcllm.training.slurm import submit_training

        print_json(submit_training(resolved, entry, paths, fresh=fresh, wait=wait))
        return
    restart_for_training(resolved.recipe.training.threads or space.threads)
    from hpcllm.training.run import ADAPTER_FOLDER, train

    with progress_bar(resolved.name, "steps") as bar:
        report = train(resolved, entry, paths, fresh=fresh, progress=bar)
    if int(os.environ.get("RANK", "0")):
        return  # one of several processes tells
    if json_output:
        print_json(report.to_json())
    note(
        f"{paths.folder / ADAPTER_FOLDER}: {report.steps:,} steps, loss {report.loss:.4f}, "
        f"evaluation loss {report.evaluation_loss}, {report.tokens_per_second:.0f} tokens/s, "
        f"peak memory {report.peak_memory_gb} GB"
    )


def _paths(
    space: Workspace, resolved: ResolvedRecipe, data: Path | None, out: Path | None
) -> RunPaths:
    from hpcllm.training.run import RunPaths

    return RunPaths(
        data=(data or space.training_dir / resolved.recipe.data.file).resolve(),
        folder=(out or space.training_dir / "runs" / resolved.name).resolve(),
        models_dir=space.models_dir,
    )
