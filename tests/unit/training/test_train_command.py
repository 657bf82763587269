from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hpcllm.cli.train import app
from hpcllm.errors import TrainingError
from hpcllm.workspace import reference_root


@pytest.mark.parametrize(
    "arguments", [["nosuch"], ["run", "nosuch"], ["--set", "training.seed=2", "nosuch"]]
)
def test_the_recipe_may_follow_at_once(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, [*arguments, "--workspace", str(reference_root())])
    assert isinstance(done.exception, TrainingError)
    assert "there is no recipe 'nosuch'" in str(done.exception)


def test_help_names_both_commands() -> None:
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0
    assert "ablate" in done.output and "run" in done.output


def test_an_ablation_needs_its_variants(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["ablate", "smollm2-135m-cpu"])
    assert done.exit_code == 2
    assert "--variants" in done.output
