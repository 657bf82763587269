"""``hpcllm doctor``: is everything in place, and if not, how to mend it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcllm.cli.common import JsonOption, WorkspaceOption, print_json
from hpcllm.errors import ConfigError, HpcLlmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hpcllm.workspace import Workspace

State = Literal["ok", "note", "fail"]

EXTRAS = {
    "train": ("torch", "transformers", "peft", "trl", "bitsandbytes"),
    "web": ("fastapi", "gradio", "sqlalchemy"),
    "slack": ("slack_bolt", "aiohttp"),
    "ldap": ("ldap3",),
    "postgres": ("psycopg",),
    "milvus": ("pymilvus",),
}
"""Modules that tell whether an extra is installed."""

PROGRAMS = {
    "git": "git sources need it",
    "mandoc": "man pages written in mdoc(7) need it (man(7) pages do not)",
}
"""Programs that some sources call."""

LOW_SPACE_BYTES = 2 * 1024**3
"""Free space under which the default models and an index may not fit."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis.

    Attributes:
        state: ``fail`` stops something that is set up to work; ``note`` is good to know.
        what: what was looked at.
        detail: what was found.
        remedy: what to do, empty where nothing is wrong.
    """

    state: State
    what: str
    detail: str
    remedy: str = ""


def doctor(
    json_output: JsonOption = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="Also print every setting with its value.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Check the installation, the workspace, the models and the index, and say how to mend them.

    Exit code 1 when something that the settings ask for cannot work.
    """
    findings = list(diagnose(workspace))
    if json_output:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            typer.echo(f"{finding.state:<5} {finding.what}: {finding.detail}")
            if finding.remedy:
                typer.echo(f"      -> {finding.remedy}")
    if settings:
        _show_settings(workspace)
    if any(finding.state == "fail" for finding in findings):
        raise typer.Exit(1)


def _show_settings(directory: Path | None) -> None:
    from hpcllm.workspace import Workspace

    for section, table in Workspace.find(directory).settings.model_dump().items():
        for key, value in table.items():
            typer.echo(f"{section}.{key} = {value!r}")


def diagnose(directory: Path | None) -> Iterator[Finding]:
    """Yield findings from the ground up; later checks are left out where an earlier one fails."""
    yield from check_installation()
    try:
        from hpcllm.workspace import Workspace

        space = Workspace.find(directory)
    except ConfigError as exc:
        yield Finding(
            "fail", "workspace", str(exc), "mend the file, or make a workspace: hpcllm init DIR"
        )
        return
    yield Finding("ok", "workspace", f"{space.root} ({space.settings.site.name})")
    checks: tuple[Callable[[Workspace], Iterator[Finding]], ...] = (
        check_space,
        check_sources,
        check_models,
        check_index,
    )
    for check in checks:
        try:
            yield from check(space)
        except HpcLlmError as exc:
            yield Finding(
                "fail", check.__name__.removeprefix("check_"), str(exc), "see the message"
            )


def check_installation() -> Iterator[Finding]:
    """Look at Python, the base packages, the extras and helper programs."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "python", version)
    broken = [name for name in _base_requirements() if not _is_installed(name)]
    if broken:
        yield Finding("fail", "packages", f"missing: {', '.join(broken)}", "pip install hpcllm")
    else:
        yield Finding("ok", "packages", "all base packages are installed")
    for extra, modules in EXTRAS.items():
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        if missing:
            remedy = f"if you want it: pip install 'hpcllm[{extra}]'"
            yield Finding("note", f"extra {extra}", f"not installed ({', '.join(missing)})", remedy)
        else:
            yield Finding("ok", f"extra {extra}", "installed")
    for program, need in PROGRAMS.items():
        if shutil.which(program) is None:
            yield Finding(
                "note", program, f"not found; {need}", f"install {program} if you need it"
            )


def _base_requirements() -> list[str]:
    lines = importlib.metadata.requires("hpcllm") or []
    return [line.split(">")[0].split("=")[0].strip() for line in lines if "extra ==" not in line]


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def check_space(space: Workspace) -> Iterator[Finding]:
    """Look at free disk space where models and the index are kept."""
    for what, folder in (("models folder", space.models_dir), ("index folder", space.index_dir)):
        existing = next(path for path in [folder, *folder.parents] if path.exists())
        free = shutil.disk_usage(existing).free
        detail = f"{folder}, {free / 1024**3:.1f} GiB free"
        if free < LOW_SPACE_BYTES:
            remedy = "free some space, or name another folder in HPCLLM_HOME"
            yield Finding("note", what, detail, remedy)
        else:
            yield Finding("ok", what, detail)


def check_sources(space: Workspace) -> Iterator[Finding]:
    """Look at the list of sources and whether their folders are there."""
    from hpcllm.corpus.sources import load_sources

    sources = load_sources(space.sources_file)
    if not sources:
        remedy = f"name your documentation in {space.sources_file}"
        yield Finding("fail", "sources", "none is listed", remedy)
        return
    yield Finding(
        "ok", "sources", ", ".join(f"{source.name} ({source.kind})" for source in sources)
    )
    for source in sources:
        if source.kind == "folder" and not (space.root / source.path).is_dir():
            detail = f"{space.root / source.path} is not there"
            yield Finding(
                "fail", f"source {source.name}", detail, f"mend path in {space.sources_file}"
            )


def check_models(space: Workspace) -> Iterator[Finding]:
    """Look at the files of the embedder and the model that the settings name."""
    from hpcllm.models.catalog import load_catalog
    from hpcllm.models.download import local_files

    catalog = load_catalog(space.catalog_file)
    wanted = [space.settings.index.embedder]
    if space.settings.model.base_url:
        yield Finding("ok", "model", f"served at {space.settings.model.base_url}")
    elif space.settings.model.id != "extractive":
        wanted.append(space.settings.model.id)
    for name in wanted:
        try:
            files = local_files(catalog.get(name), space.models_dir)
        except HpcLlmError as exc:
            yield Finding("fail", f"model {name}", str(exc), f"hpcllm models pull {name}")
        else:
            yield Finding("ok", f"model {name}", f"{len(files)} file(s)")


def check_index(space: Workspace) -> Iterator[Finding]:
    """Look at the generation in use."""
    from hpcllm.index.generation import open_current

    try:
        with open_current(space.index_dir) as generation:
            generation.verify()
            name, manifest = generation.name, generation.manifest
    except HpcLlmError as exc:
        yield Finding("fail", "index", str(exc), "hpcllm ingest")
        return
    detail = (
        f"generation {name}, {manifest.documents} pages, {manifest.chunks} chunks, all files whole"
    )
    yield Finding("ok", "index", detail)
