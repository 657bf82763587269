"""A training job through submitit on this machine, without Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.errors import TrainingError
from hpcllm.models.catalog import load_catalog
from hpcllm.training.recipe import load_recipe
from hpcllm.training.run import RunPaths
from hpcllm.training.slurm import submit_training
from tests.integration.training.tiny import MODEL_ID, Tiny, make_tiny, write_recipe

pytest.importorskip("submitit", reason="needs hpcllm[train]")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("tiny"))


def paths(tiny: Tiny, out: Path) -> RunPaths:
    return RunPaths(tiny.data, out, tiny.models_dir)


def test_a_job_brings_back_its_report(tiny: Tiny, tmp_path: Path) -> None:
    recipe = load_recipe(write_recipe(tiny, steps=4))
    entry = load_catalog(tiny.workspace / "training" / "models.toml").get(MODEL_ID)
    told = submit_training(recipe, entry, paths(tiny, tmp_path / "run"), cluster="local")
    assert told["report"]["steps"] == 4
    assert Path(told["log"]).is_file()
    assert (tmp_path / "run" / "adapter" / "adapter_model.safetensors").is_file()


def test_a_failed_job_shows_the_end_of_its_log(tiny: Tiny, tmp_path: Path) -> None:
    recipe = load_recipe(write_recipe(tiny, steps=4), ["training.device=cuda"])
    entry = load_catalog(tiny.workspace / "training" / "models.toml").get(MODEL_ID)
    with pytest.raises(TrainingError) as caught:
        submit_training(recipe, entry, paths(tiny, tmp_path / "run"), cluster="local")
    text = str(caught.value)
    assert "the recipe asks for a GPU and none is visible" in text
    assert "_log.err" in text and "goes on from the last checkpoint" in text
