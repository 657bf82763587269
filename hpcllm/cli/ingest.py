"""``hpcllm ingest``: read the sources and bring the index up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcllm.cli.common import (
    JsonOption,
    WorkspaceOption,
    note,
    open_workspace,
    print_json,
    progress_bar,
)

if TYPE_CHECKING:
    from hpcllm.index.update import UpdateReport

SHOWN = 20
"""Skipped files and warnings shown to a person; ``--json`` and the report hold all."""


def ingest(
    json_output: JsonOption = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail at the first file that cannot be read.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Read and embed everything anew.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Read all sources and build the next generation of the index.

    Unchanged text is not embedded again, pages that are gone leave the index, and the index in use
    goes on answering until the new one is complete.
    """
    from hpcllm.index.update import update_workspace

    space = open_workspace(workspace)
    with (
        progress_bar("reading", "pages") as reading,
        progress_bar("embedding", "chunks") as embedding,
    ):
        report = update_workspace(
            space, strict=strict, rebuild=rebuild, reading=reading, embedding=embedding
        )
    if json_output:
        print_json(report.to_json())
    else:
        show_report(report)


def show_report(report: UpdateReport) -> None:
    """Print the outcome for a person."""
    if report.unchanged:
        note(f"nothing has changed; generation {report.generation} stays in use")
    for source in report.sources:
        typer.echo(
            f"{source['name']}: {source['documents']} pages, {source['words']} words, "
            f"{source['chunks']} chunks, {len(source['skipped'])} files skipped"
        )
        _show_some("skipped", [_skipped_line(item) for item in source["skipped"]])
        _show_some("warning", source["warnings"])
    typer.echo(
        f"{report.chunks} chunks in use: {report.embedded} embedded, {report.reused} reused, "
        f"{report.removed} removed, {report.folded} duplicates folded; {report.seconds:.1f} s"
    )


def _skipped_line(item: dict[str, Any]) -> str:
    return f"{item['path']}: {item['reason']}"


def _show_some(label: str, lines: list[str]) -> None:
    for line in lines[:SHOWN]:
        note(f"  {label} {line}")
    if len(lines) > SHOWN:
        note(f"  … and {len(lines) - SHOWN} more (see them all with --json)")
