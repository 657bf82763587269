"""``hpcllm eval``: run systems on questions, compare them, report, guard what goes live."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcllm.cli import evaluate_checks, evaluate_gate, evaluate_publish, evaluate_questions
from hpcllm.cli.common import JsonOption, WorkspaceOption, note, open_workspace, print_json
from hpcllm.cli.evaluate_common import (
    IdsOption,
    LimitOption,
    QuestionsOption,
    SplitOption,
    load_selected,
    results_folder,
    run_one,
)

if TYPE_CHECKING:
    from hpcllm.evaluation.results import Results
    from hpcllm.evaluation.systems import System
    from hpcllm.workspace import Workspace

app = typer.Typer(
    help="Evaluate systems on questions: run, compare, report, contamination, gate.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(evaluate_questions.app, name="questions")

ResultsArgument = Annotated[
    list[Path] | None, typer.Argument(help="Result files or folders. Default: results/test.")
]


@app.command("run")
def run_command(
    systems: Annotated[
        Path | None, typer.Argument(help="TOML of systems. Default: corpus/systems.toml.")
    ] = None,
    questions: QuestionsOption = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this system; repeatable.")] = None,
    split: SplitOption = None,
    ids: IdsOption = None,
    limit: LimitOption = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the set. Default: from --ids or --split.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder. Default: results.")] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again what failed before.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Answer the questions with each system and write results/NAME/SYSTEM.jsonl.

    A run that was stopped goes on where it was; what is answered already is not asked again.

    Example: hpcllm eval run --split test --only extractive
    """
    from hpcllm.evaluation.systems import check_systems, load_systems, site_catalog

    space = open_workspace(workspace)
    path = systems or space.corpus_dir / "systems.toml"
    chosen = load_systems(path, only=only or ())
    check_systems(chosen, site_catalog(space))
    asked = load_selected(space, questions, split, ids, limit)
    set_name = name or (ids.stem if ids else split or (questions.stem if questions else "all"))
    folder = out or results_folder(space)
    if len(chosen) > 1:
        _run_each(chosen, [*sys.argv[sys.argv.index("run") + 1 :]], set_name)
        return
    results = run_one(space, chosen[0], asked, folder, set_name, retry_failed=retry_failed)
    _tell(results, folder / set_name)


def _run_each(systems: list[System], arguments: list[str], set_name: str) -> None:
    """Run each system in a process of its own: its memory is then its own, and freed."""
    failed = []
    for system in systems:
        note(f"{system.id} on {set_name}")
        command = [sys.executable, "-m", "hpcllm", "eval", "run", *_without_only(arguments)]
        if subprocess.run([*command, "--only", system.id], check=False).returncode:
            failed.append(system.id)
    if failed:
        from hpcllm.errors import EvaluationError

        raise EvaluationError(
            f"{len(failed)} of {len(systems)} systems did not finish: {', '.join(failed)}"
        )


def _without_only(arguments: list[str]) -> list[str]:
    kept, skip = [], False
    for argument in arguments:
        if skip or argument == "--only":
            skip = not skip
        elif not argument.startswith("--only="):
            kept.append(argument)
    return kept


def _tell(results: Results, folder: Path) -> None:
    from hpcllm.evaluation.report import markdown_overview

    header = results.header
    typer.echo(markdown_overview([results]))
    note(f"{folder / header.system}.jsonl: {len(results.rows)} questions, {header.failed} failed")


def _found(space: Workspace, paths: list[Path] | None) -> list[Results]:
    from hpcllm.evaluation.results import find_results

    return find_results(paths or [results_folder(space) / "test"])


@app.command("compare")
def compare_command(
    results: ResultsArgument = None,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Compare systems question by question, with paired bootstrap intervals."""
    from hpcllm.evaluation.comparison import compare
    from hpcllm.evaluation.tables import (
        DISCRIMINATION_PAIRS_TITLE,
        DISCRIMINATION_TITLE,
        groups,
        tables,
        to_markdown,
    )

    comparison = compare(_found(open_workspace(workspace), results))
    if json_output:
        print_json(comparison.to_json())
        return
    apart = {DISCRIMINATION_TITLE, DISCRIMINATION_PAIRS_TITLE}
    wanted = {"Results", "Pairs", "Abstention"} | apart
    shown = [table for table in tables(comparison) if table.title in wanted]
    for table in [*shown, groups(comparison)]:
        typer.echo(to_markdown(table, heading=2))


@app.command("report")
def report_command(
    results: ResultsArgument = None,
    html: Annotated[Path | None, typer.Option(help="HTML file to write.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Markdown file to write.")] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Evaluation",
    workspace: WorkspaceOption = None,
) -> None:
    """Write one self-contained HTML page with tables, plots and the worst answers.

    Without --html and --markdown, the page goes to results/report.html.
    """
    from hpcllm.evaluation.report import html_report, markdown_report

    space = open_workspace(workspace)
    found = _found(space, results)
    if html is None and markdown is None:
        html = results_folder(space) / "report.html"
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(html_report(found, title=title), encoding="utf-8")
        note(f"wrote {html}")
    if markdown is not None:
        markdown.parent.mkdir(parents=True, exist_ok=True)
        markdown.write_text(markdown_report(found), encoding="utf-8")
        note(f"wrote {markdown}")


app.command("publish")(evaluate_publish.publish)
app.command("reproduce")(evaluate_publish.reproduce)
app.command("gate")(evaluate_gate.gate)
app.command("contamination")(evaluate_checks.contamination)
app.command("judge")(evaluate_checks.judge)
app.command("export-lm-eval")(evaluate_checks.export_lm_eval)
