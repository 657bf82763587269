"""``hpcllm eval publish`` and ``reproduce``: results in the documentation, and reruns of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcllm.cli.common import JsonOption, WorkspaceOption, note, open_workspace, print_json
from hpcllm.cli.evaluate_common import results_folder
from hpcllm.cli.evaluate_gate import EXIT_GATE

if TYPE_CHECKING:
    from hpcllm.workspace import Workspace

PUBLISHED = ("README.md", "docs/evaluation.md")
"""Files with marked places for results, in the workspace."""
REFERENCE = "docs/results.json"
"""Reference rows, in the workspace."""

ReferenceOption = Annotated[
    Path | None, typer.Option(help=f"File of reference rows. Default: {REFERENCE}.")
]


def publish(
    results: Annotated[
        list[Path] | None, typer.Argument(help="Result files or folders. Default: results/test.")
    ] = None,
    into: Annotated[
        list[Path] | None,
        typer.Option(help="Markdown file with markers; repeatable. Default: those of the project."),
    ] = None,
    reference: ReferenceOption = None,
    ids: Annotated[
        Path | None, typer.Option(help="Questions of reruns. Default: corpus/questions/smoke.txt.")
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Drop published rows of systems that are not given.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Write results into README.md and docs/evaluation.md, and the rows that reruns must meet.

    Rows of systems that are not given stay as they were published, with their date and commit.

    Example: hpcllm eval publish results/test results/subset-150
    """
    from hpcllm.evaluation.publish import publish as write
    from hpcllm.evaluation.publish import published_parts
    from hpcllm.evaluation.reproduction import (
        merged,
        read_reference,
        reference_of,
        write_reference,
    )
    from hpcllm.evaluation.results import find_results
    from hpcllm.evaluation.selection import read_ids

    space = open_workspace(workspace)
    places = _places(space)
    found = find_results(results or [results_folder(space) / "test"])
    found.sort(key=lambda each: places.get(each.header.system, len(places)))
    rows = reference_of(found, read_ids(ids or space.corpus_dir / "questions" / "smoke.txt"))
    target = reference or space.root / REFERENCE
    if target.exists() and not anew:
        rows = merged(rows, read_reference(target))
    names = sorted(rows["systems"], key=lambda name: (places.get(name, len(places)), name))
    files = into or [space.root / name for name in PUBLISHED]
    parts = published_parts({name: rows["systems"][name] for name in names}, found)
    changed = write(files, parts)
    for path in files:
        note(f"{'wrote' if path in changed else 'unchanged:'} {path}")
    write_reference(target, rows)
    note(f"wrote {target}")


def _places(space: Workspace) -> dict[str, int]:
    """Return the place of each system in the workspace's list."""
    from hpcllm.evaluation.systems import SYSTEMS_FILE, load_systems

    path = space.corpus_dir / SYSTEMS_FILE
    known = [system.id for system in load_systems(path)] if path.exists() else []
    return {name: place for place, name in enumerate(known)}


def reproduce(
    results: Annotated[
        list[Path] | None, typer.Argument(help="Result files or folders. Default: results/smoke.")
    ] = None,
    reference: ReferenceOption = None,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Say for each metric whether a rerun lies within the interval of the published row.

    Exit code 0 when all do, 3 when one does not. Systems without a published row are named.
    """
    from dataclasses import asdict

    from hpcllm.evaluation.reproduction import agreements, read_reference, reproduction_table
    from hpcllm.evaluation.results import find_results
    from hpcllm.evaluation.tables import to_markdown

    space = open_workspace(workspace)
    rows = read_reference(reference or space.root / REFERENCE)
    found, missing = agreements(find_results(results or [results_folder(space) / "smoke"]), rows)
    outside = [each for each in found if not each.is_within]
    if json_output:
        compared = [{**asdict(each), "within": each.is_within} for each in found]
        print_json({"reproduced": not outside, "missing": missing, "metrics": compared})
    else:
        typer.echo(to_markdown(reproduction_table(found, rows), heading=2))
    for name in missing:
        note(f"{name} has no published row on these questions: nothing to compare with")
    note(f"{len(found) - len(outside)} of {len(found)} metrics lie within their intervals")
    if outside:
        raise typer.Exit(EXIT_GATE)
