"""``hpcllm eval gate``, and the same gate before ``hpcllm ingest`` puts a generation in use."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcllm.cli.common import JsonOption, WorkspaceOption, note, open_workspace, print_json
from hpcllm.cli.evaluate_common import load_selected, results_folder, run_one
from hpcllm.errors import ConfigError, HpcLlmError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpcllm.evaluation.gate import GateReport, GateRules
    from hpcllm.evaluation.results import Results
    from hpcllm.workspace import Workspace

logger = logging.getLogger(__name__)

EXIT_GATE = 3
"""Exit code of a gate that does not hold, or of contamination."""


def gate(
    generation: Annotated[
        str | None, typer.Option(help="Generation of the index. Default: the current one.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model that answers. Default: gate.model of hpcllm.toml.")
    ] = None,
    adapter: Annotated[
        Path | None, typer.Option(help="LoRA file in GGUF format for that model.")
    ] = None,
    accepted: Annotated[
        Path | None, typer.Option(help="Result file of the accepted state, to be no worse than.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Where it holds, make this the accepted state.")
    ] = False,
    activate: Annotated[
        bool,
        typer.Option("--activate", help="Where it holds, put the generation or model in use."),
    ] = False,
    otherwise: Annotated[
        str | None, typer.Option(help="Generation to put in use where it does not hold.")
    ] = None,
    json_output: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Check the golden questions against the thresholds of [gate] in hpcllm.toml.

    Exit code 0 when everything holds, 3 when not: for the checks of a documentation repository.
    """
    from hpcllm.evaluation.gate import check_gate
    from hpcllm.evaluation.results import read_results, write_results

    space = open_workspace(workspace)
    rules = gate_rules(space)
    if activate and adapter:
        raise ConfigError(
            f"--activate puts a catalog id in use, and {adapter} is a file: export it first "
            "(hpcllm export), then gate the model that this adds to the catalog"
        )
    results = _run_gate(space, generation, model=model, adapter=adapter)
    report = check_gate(results, rules, accepted=read_results(accepted) if accepted else None)
    print_json(report.to_json()) if json_output else show_gate(report)
    if not report.holds:
        if otherwise:
            use_generation(space, otherwise)
        raise typer.Exit(EXIT_GATE)
    if accept and accepted:
        write_results(accepted, results)
        note(f"accepted: {accepted}")
    if activate and generation:
        use_generation(space, generation)
    if activate and model:
        _use_model(space, model)


def gate_rules(space: Workspace) -> GateRules:
    """Return the thresholds of a workspace.

    Raises:
        ConfigError: there is none, or one for a metric that does not exist.
    """
    from hpcllm.evaluation.gate import GateRules

    settings = space.settings.gate
    return GateRules(settings.minimum, settings.maximum, settings.allowed_failures)


def use_generation(space: Workspace, generation: str) -> None:
    """Put a generation in use, whatever a gate says of it."""
    from hpcllm.index.generation import put_in_use

    put_in_use(space.index_dir, generation)
    note(f"generation {generation} is in use")


def _use_model(space: Workspace, model: str) -> None:
    from hpcllm.evaluation.going_live import set_model

    path = space.root / "hpcllm.toml"
    set_model(path, model)
    note(f"{path} names {model}: what is served uses it when it is started again")


def _run_gate(
    space: Workspace,
    generation: str | None,
    *,
    model: str | None = None,
    adapter: Path | None = None,
) -> Results:
    from hpcllm.evaluation.systems import System, check_systems, site_catalog

    settings = space.settings.gate
    chosen = model or settings.model
    system = System(
        id="gate",
        model=chosen,
        adapter=str(adapter.resolve()) if adapter else "",
        passages=space.settings.retrieval.passages,
        base_url=space.settings.model.base_url if chosen != "extractive" and not adapter else None,
    )
    check_systems([system], site_catalog(space))
    questions = load_selected(
        space,
        space.root / settings.questions,
        None,
        space.root / settings.ids if settings.ids else None,
    )
    folder = results_folder(space)
    return run_one(space, system, questions, folder, "gate", generation_name=generation)


def show_gate(report: GateReport) -> None:
    """Print the conditions of a gate, one a line."""
    for check in report.checks:
        value = "nothing measured" if check.value is None else f"{check.value:.4g}"
        mark = "holds" if check.holds else "FAILS"
        typer.echo(f"{mark}  {check.name}: {value}, {check.bound}")
    note("the gate holds" if report.holds else "the gate does not hold")


class GateBeforeUse:
    """Says whether a new generation may serve; what ``hpcllm ingest`` gives to the index.

    Args:
        space: workspace with ``gate.before_activation``.
        before: called first, to take progress bars off the terminal.

    Attributes:
        report: what the gate said; None as long as it has not been asked.

    Raises:
        ConfigError: the thresholds are wrong or missing; better said before anything is read.
    """

    def __init__(self, space: Workspace, *, before: Callable[[], None]) -> None:
        self.report: GateReport | None = None
        self._space = space
        self._rules = gate_rules(space)
        self._before = before

    def __call__(self, generation: str) -> bool:
        """Run the golden questions on ``generation`` and compare with thresholds."""
        self._before()
        try:
            self.report = self._asked(generation)
        except HpcLlmError:
            note(f"generation {generation} is complete and held back: its gate could not be asked")
            raise
        return self.report.holds

    def _asked(self, generation: str) -> GateReport:
        from hpcllm.evaluation.gate import check_gate
        from hpcllm.evaluation.results import read_results, write_results

        results = _run_gate(self._space, generation)
        name = self._space.settings.gate.accepted
        path = self._space.root / name if name else None
        accepted = read_results(path) if path and path.exists() else None
        report = check_gate(results, self._rules, accepted=accepted)
        if path and report.holds:
            write_results(path, results)
        return report
