"""``hpcllm export``: a trained adapter in the forms that engines load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcllm.cli.common import JsonOption, WorkspaceOption, note, open_workspace, print_json
from hpcllm.cli.progress import progress_bar

if TYPE_CHECKING:
    from hpcllm.training.export import ExportJob
    from hpcllm.workspace import Workspace


def export(
    run: Annotated[str, typer.Argument(help="Folder of a run, or the name of its recipe.")],
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="Q8_0, Q4_0, Q4_1 or F16; repeatable. Default: Q8_0."),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="Catalog id of the base. Default: from the adapter.")
    ] = None,
    base_gguf: Annotated[
        Path | None, typer.Option(help="GGUF file that metadata and tokenizer come from.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Data file to verify with. Default: training/data/BASE.")
    ] = None,
    prompts: Annotated[int, typer.Option(min=0, help="Prompts to verify with; 0: none.")] = 50,
    out: Annotated[Path | None, typer.Option(help="Folder. Default: RUN/export.")] = None,
    ship: Annotated[
        bool, typer.Option("--ship", help="Also copy the adapter to training/adapters.")
    ] = False,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Merge an adapter into its base, write GGUF files, verify them against torch.

    Example: hpcllm export smollm2-135m-cpu --type Q8_0 --type Q4_0 --ship
    """
    from hpcllm.training import export as exporting
    from hpcllm.training.process import restart_for_training

    space = open_workspace(workspace)
    folder = _run_folder(space, run)
    job = _job(space, folder, base, base_gguf, out, types or ["Q8_0"])
    restart_for_training(space.threads)
    rows = _rows(space, job, data, prompts)
    with progress_bar("comparing", "answers") as bar:
        outcome = exporting.export(job, rows, threads=space.threads, progress=bar)
    if ship:
        extra = [folder / "loss.png", *folder.glob("overlap.*")]
        place = exporting.ship(job.adapter, space.training_dir / "adapters", job.name, extra=extra)
        note(f"adapter copied to {place}; its catalog entry: {job.target / 'catalog.toml'}")
    if json_output:
        print_json(outcome)
        return
    for type_name, facts in outcome.items():
        typer.echo(_line(type_name, facts))
    note(f"all figures: {job.target / 'verification.json'}")


def _line(type_name: str, facts: dict[str, Any]) -> str:
    """Return a line on one file: its size, and how it compares with torch where that was done."""
    line = f"{type_name}: {facts['size'] / 1e6:,.0f} MB"
    if "prompts" not in facts:
        return line
    return (
        f"{line}; of {facts['prompts']} greedy answers {facts['identical']:.0%} are torch's, the "
        f"same up to {facts['same_start']:.0%} of their words; perplexity "
        f"{facts['perplexity_file']:.4f}, torch {facts['perplexity_torch']:.4f}; "
        f"{facts['generated_per_second']:.0f} tokens/s"
    )


def _run_folder(space: Workspace, run: str) -> Path:
    from hpcllm.errors import TrainingError

    for folder in (
        Path(run),
        space.training_dir / "runs" / run,
        space.training_dir / "adapters" / run,
    ):
        if (folder / "adapter").is_dir() or (folder / "adapter_config.json").is_file():
            return folder
    raise TrainingError(
        f"{run} is no finished run: expected a folder that holds adapter/, or the name of one in "
        f"{space.training_dir / 'runs'}. Train it with: hpcllm train"
    )


def _job(
    space: Workspace,
    folder: Path,
    base: str | None,
    base_gguf: Path | None,
    out: Path | None,
    types: list[str],
) -> ExportJob:
    from hpcllm.models.catalog import load_catalog
    from hpcllm.models.torch_weights import gguf_file
    from hpcllm.training.export import EXPORT_FOLDER, ExportJob

    adapter = folder / "adapter" if (folder / "adapter").is_dir() else folder
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    entry = load_catalog(space.catalog_file).get(base or config["base_model_name_or_path"])
    return ExportJob(
        adapter=adapter,
        entry=entry,
        base_gguf=base_gguf or gguf_file(entry, space.models_dir),
        models_dir=space.models_dir,
        target=out or folder / EXPORT_FOLDER,
        name=_name(adapter, folder),
        types=tuple(types),
    )


def _name(adapter: Path, folder: Path) -> str:
    try:
        values = json.loads((adapter / "training.json").read_text(encoding="utf-8"))["recipe"]
        return str(values["adapter.id"]["value"])
    except (OSError, ValueError, KeyError):
        return folder.name


def _rows(space: Workspace, job: ExportJob, data: Path | None, prompts: int) -> list[Any]:
    from hpcllm.training.dataset import read_examples

    if not prompts:
        return []
    path = data or space.training_dir / "data" / f"{job.entry.id}.jsonl"
    return read_examples(path)[:prompts]
