"""``hpcllm ingest``: read the sources and bring the index up to date."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
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
    from hpcllm.cli.evaluate_gate import GateBeforeUse
    from hpcllm.index.update import UpdateReport
    from hpcllm.workspace import Workspace

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
    use: Annotated[
        str | None,
        typer.Option(
            metavar="GENERATION",
            help="Put this generation in use, whatever the gate says, and read nothing.",
        ),
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Read all sources and build the next generation of the index.

    Unchanged text is not embedded again, pages that are gone leave the index, and the index in use
    goes on answering until the new one is complete and, with gate.before_activation in hpcllm.toml,
    its gate holds: exit code 3 where it does not.
    """
    from hpcllm.cli.evaluate_gate import EXIT_GATE, use_generation

    _check_report_file(report_file, report)
    space = open_workspace(workspace)
    if use:
        use_generation(space, use)
        return
    outcome, gate = _update(space, strict=strict, rebuild=rebuild)
    if json_output:
        _print_json(outcome, gate)
    else:
        _show(outcome, gate, brief=report)
    if report:
        _write_report(space.index_dir, report_file, quiet=json_output)
    if outcome.held:
        raise typer.Exit(EXIT_GATE)


def _update(
    space: Workspace, *, strict: bool, rebuild: bool
) -> tuple[UpdateReport, GateBeforeUse | None]:
    from hpcllm.cli.evaluate_gate import GateBeforeUse
    from hpcllm.index.update import update_workspace

    with ExitStack() as bars:
        gated = space.settings.gate.before_activation
        gate = GateBeforeUse(space, before=bars.close) if gated else None
        outcome = update_workspace(
            space,
            strict=strict,
            rebuild=rebuild,
            admit=gate,
            reading=bars.enter_context(progress_bar("reading", "pages")),
            embedding=bars.enter_context(progress_bar("embedding", "chunks")),
        )
    return outcome, gate


def _print_json(outcome: UpdateReport, gate: GateBeforeUse | None) -> None:
    said = gate.report.to_json() if gate and gate.report else None
    print_json({**outcome.to_json(), "gate": said})


def _show(outcome: UpdateReport, gate: GateBeforeUse | None, *, brief: bool) -> None:
    from hpcllm.cli.evaluate_gate import show_gate

    show_report(outcome, brief=brief)
    if gate and gate.report:
        show_gate(gate.report)
    if outcome.held:
        serving = f"{outcome.generation} stays in use" if outcome.generation else "none is in use"
        note(f"generation {outcome.held} is held back; {serving}")
        note("mend the pages and run hpcllm ingest again, or put it in use all the same with:")
        note(f"  hpcllm ingest --use {outcome.held}")


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
    if report.unchanged and report.held:
        note("nothing has changed since the gate was asked last")
    elif report.unchanged:
        note(f"nothing has changed; generation {report.generation} stays in use")
    for source in () if brief else report.sources:
        typer.echo(
            f"{source['name']}: {source['documents']} pages, {source['words']} words, "
            f"{source['chunks']} chunks, {len(source['skipped'])} files skipped"
        )
        _show_some("skipped", [_skipped_line(item) for item in source["skipped"]])
        _show_some("warning", source["warnings"])
        _show_findings(source["findings"])
    place = "held back" if report.held else "in use"
    typer.echo(
        f"{report.chunks} chunks {place}: {report.embedded} embedded, {report.reused} reused, "
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
