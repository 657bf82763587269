"""``hpcllm models``: what models there are, and fetching them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hpcllm.cli.common import (
    JsonOption,
    WorkspaceOption,
    note,
    open_workspace,
    print_json,
)
from hpcllm.cli.progress import progress_bar

app = typer.Typer(
    help="List, fetch and describe models.", no_args_is_help=True, rich_markup_mode=None
)

MEBIBYTE = 1 << 20


def _catalog(workspace: Any) -> Any:
    from hpcllm.models.catalog import load_catalog

    return load_catalog(workspace.catalog_file)


def _is_here(entry: Any, models_dir: Any) -> bool:
    from hpcllm.errors import ModelError
    from hpcllm.models.download import local_files

    try:
        local_files(entry, models_dir)
    except ModelError:
        return False
    return True


@app.command("list")
def list_models(json_output: JsonOption = False, workspace: WorkspaceOption = None) -> None:
    """List the models of the catalog and say which are on this machine."""
    space = open_workspace(workspace)
    rows = [
        {
            "id": entry.id,
            "kind": entry.kind,
            "parameters": entry.parameters,
            "licence": entry.licence,
            "local": _is_here(entry, space.models_dir),
        }
        for entry in _catalog(space)
    ]
    if json_output:
        print_json(rows)
        return
    for row in rows:
        mark = "here" if row["local"] else "    "
        typer.echo(f"{mark}  {row['id']:<28} {row['kind']:<10} {row['licence']}")


@app.command("show")
def show_model(
    model: Annotated[str, typer.Argument(help="Id of the model.")],
    workspace: WorkspaceOption = None,
) -> None:
    """Describe one model: its files, their hashes and where they come from."""
    print_json(_catalog(open_workspace(workspace)).get(model).to_json())


@app.command("pull")
def pull_models(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="Ids; default: the embedder and the model of this workspace."),
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option(help="Also fetch this optional file; may be repeated.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Take the files from this folder and ask no other place."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing of what is here already.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Fetch models, check every file against its SHA-256 and prepare them for use.

    On a machine without a network: copy the files there and give their folder with --from.
    """
    from hpcllm.models.catalog import PathPlace
    from hpcllm.models.download import pull

    space = open_workspace(workspace)
    catalog = _catalog(space)
    wanted = models or _defaults(space)
    for entry in [catalog.get(name) for name in wanted]:
        was_here = quiet and _is_here(entry, space.models_dir)
        with progress_bar(entry.id, "MiB") as bar:
            files = pull(
                entry,
                space.models_dir,
                progress=_in_mebibytes(bar),
                places=[PathPlace(kind="path", path=str(source.resolve()))] if source else None,
                names=file or (),
            )
        if not was_here:
            note(f"{entry.id}: {len(files)} file(s) in {next(iter(files.values())).parent}")


def _defaults(space: Any) -> list[str]:
    settings = space.settings
    uses_server = settings.model.base_url is not None or settings.model.id == "extractive"
    return [settings.index.embedder, *([] if uses_server else [settings.model.id])]


def _in_mebibytes(bar: Any) -> Any:
    """Return a progress function in bytes that moves a bar in mebibytes."""
    name_shown, done_shown = "", 0

    def progress(done_bytes: int, total_bytes: int | None, name: str) -> None:
        nonlocal name_shown, done_shown
        if name != name_shown:
            name_shown, done_shown = name, 0
        done = done_bytes // MEBIBYTE
        bar(done - done_shown, total_bytes // MEBIBYTE if total_bytes else None)
        done_shown = done

    return progress


@app.command("plan")
def plan_model(
    model: Annotated[str, typer.Argument(help="Id of the model.")],
    gpu: Annotated[str | None, typer.Option(help="Memory of the GPU, such as 24GiB.")] = None,
    context: Annotated[int, typer.Option(min=128, help="Tokens of context of one answer.")] = 8192,
    users: Annotated[int, typer.Option(min=1, help="Answers at the same time.")] = 8,
    tokens: Annotated[int, typer.Option(min=16, help="Tokens of a training example.")] = 2048,
    batch: Annotated[int, typer.Option(min=1, help="Training examples at once.")] = 1,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Reckon the memory to serve and to train a model, and say what fits.

    Example: hpcllm models plan llama-3.1-8b-instruct --gpu 24GiB --users 20
    """
    from hpcllm.models.memory import parse_size, plan_json

    entry = _catalog(open_workspace(workspace)).get(model)
    gib = parse_size(gpu) if gpu else None
    plan = plan_json(entry, gpu_gib=gib, context=context, users=users, tokens=tokens, batch=batch)
    if json_output:
        print_json(plan)
        return
    typer.echo(f"Serving {entry.id}, {users} answers at once of {context:,} tokens")
    for row in plan["serving"]:
        fits = "" if gib is None else f"   fits {row['users_that_fit']} at once"
        typer.echo(
            f"  {row['weight_type']:<7} weights {row['weights_gb']:6.2f} GB   cache "
            f"{row['cache_gb_per_user']:5.2f} GB each   total {row['total_gb']:6.2f} GB{fits}"
        )
    typer.echo(f"Training an adapter, batch {batch} of {tokens:,} tokens")
    for row in plan["training"]:
        fits = {None: "", True: "   fits", False: "   does not fit"}[row["fits"]]
        how = "checkpointing" if row["checkpointing"] else "all kept"
        typer.echo(
            f"  {row['method']:<6} {how:<14} base {row['base_gb']:6.2f}   adapter "
            f"{row['adapter_gb']:5.2f}   activations {row['activations_gb']:6.2f}   total "
            f"{row['total_gb']:6.2f} GB{fits}"
        )
