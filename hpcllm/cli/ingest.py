"""``hpcllm ingest``: read the sources and bring the index up to date."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
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
    report_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE.html]",
            help="With --report: also write the report as one HTML page to this file.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        bool,
        typer.Option("--report", help="Show what was found in the sources, with file and line."),
    ] = False,
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

    _check_report_file(report_file, report)
    space = open_workspace(workspace)
    with (
        progress_bar("reading", "pages") as reading,
        progress_bar("embedding", "chunks") as embedding,
    ):
        outcome = update_workspace(
            space, strict=strict, rebuild=rebuild, reading=reading, embedding=embedding
        )
    if json_output:
        print_json(outcome.to_json())
    else:
        show_report(outcome, brief=report)
    if report:
        _write_report(space.index_dir, report_file, quiet=json_output)


def _check_report_file(report_file: Path | None, report: bool) -> None:
    from hpcllm.errors import ConfigError

    if report_file is not None and not report:
        raise ConfigError(
            f"{report_file} is where --report writes its HTML page: hpcllm ingest --report "
            f"{report_file}"
        )
    if report_file is not None and report_file.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"{report_file}: expected a name that ends in .html for the report")


def _write_report(index_dir: Path, report_file: Path | None, *, quiet: bool) -> None:
    from hpcllm.corpus.report_text import report_lines, report_page
    from hpcllm.errors import ConfigError
    from hpcllm.index.update import saved_report

    data = saved_report(index_dir)
    if not quiet:
        for line in report_lines(data):
            typer.echo(line)
    if report_file is None:
        return
    try:
        report_file.write_text(report_page(data), encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"{report_file} cannot be written: {exc.strerror}") from exc
    note(f"report written to {report_file}")


def show_report(report: UpdateReport, *, brief: bool = False) -> None:
    """Print the outcome for a person; ``brief`` leaves out what the full report shows."""
    if report.unchanged:
        note(f"nothing has changed; generation {report.generation} stays in use")
    for source in () if brief else report.sources:
        typer.echo(
            f"{source['name']}: {source['documents']} pages, {source['words']} words, "
            f"{source['chunks']} chunks, {len(source['skipped'])} files skipped"
        )
        _show_some("skipped", [_skipped_line(item) for item in source["skipped"]])
        _show_some("warning", source["warnings"])
        _show_findings(source["findings"])
    typer.echo(
        f"{report.chunks} chunks in use: {report.embedded} embedded, {report.reused} reused, "
        f"{report.removed} removed, {report.folded} duplicates folded; {report.seconds:.1f} s"
    )


def _show_findings(findings: list[dict[str, Any]]) -> None:
    """Print how many findings of each kind there are; single ones are the report's."""
    counts = Counter(finding["kind"] for finding in findings)
    if counts:
        listed = ", ".join(f"{kind}: {count}" for kind, count in counts.items())
        note(f"  findings {listed} (see them with: hpcllm ingest --report)")


def _skipped_line(item: dict[str, Any]) -> str:
    return f"{item['path']}: {item['reason']}"


def _show_some(label: str, lines: list[str]) -> None:
    for line in lines[:SHOWN]:
        note(f"  {label} {line}")
    if len(lines) > SHOWN:
        note(f"  … and {len(lines) - SHOWN} more (see them all with --json)")
