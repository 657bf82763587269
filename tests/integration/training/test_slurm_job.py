"""Training jobs on a real one-node Slurm that the tests start and stop."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcllm.errors import TrainingError
from hpcllm.models.catalog import load_catalog
from hpcllm.training.recipe import ResolvedRecipe, load_recipe
from hpcllm.training.run import RunPaths
from hpcllm.training.slurm import TrainingJob, _submit, submit_training
from tests.integration.training.slurm_cluster import PROGRAMS, Cluster
from tests.integration.training.tiny import MODEL_ID, Tiny, make_tiny, write_recipe

submitit = pytest.importorskip("submitit", reason="needs hpcllm[train]")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(MISSING), reason=f"no Slurm here: {', '.join(MISSING)} missing"),
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's daemons are started as root"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    started = Cluster(Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp")))
    started.folder.chmod(0o755)
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("tiny"), rows=200)


@pytest.fixture(autouse=True)
def configuration(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(cluster.configuration))


def prepared(
    tiny: Tiny, out: Path, *changes: str, steps: int = 4
) -> tuple[ResolvedRecipe, Any, RunPaths]:
    recipe = load_recipe(write_recipe(tiny, steps=steps), ["slurm.partition=main", *changes])
    entry = load_catalog(tiny.workspace / "training" / "models.toml").get(MODEL_ID)
    return recipe, entry, RunPaths(tiny.data, out, tiny.models_dir)


def test_a_job_trains_and_brings_back_its_report(tiny: Tiny, tmp_path: Path) -> None:
    changes = ['slurm.environment={HPCLLM_MARK="seen"}', 'slurm.setup=["echo mark: $HPCLLM_MARK"]']
    told = submit_training(*prepared(tiny, tmp_path / "a run", *changes))
    assert told["report"]["steps"] == 4
    folder = Path(told["log"]).parent
    assert "mark: seen" in "".join(p.read_text() for p in folder.glob("*.out"))
    assert (tmp_path / "a run" / "adapter" / "adapter_model.safetensors").is_file()


def test_a_failed_job_shows_the_end_of_its_log(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as caught:
        submit_training(*prepared(tiny, tmp_path / "run", "training.device=cuda"))
    text = str(caught.value)
    assert "the recipe asks for a GPU and none is visible" in text
    assert "The last lines of its log" in text


def test_an_unknown_partition_is_told_with_slurms_words(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"(?s)invalid partition.*\[slurm\]"):
        submit_training(*prepared(tiny, tmp_path / "run", "slurm.partition=nope"))


def test_a_job_stopped_before_its_end_is_requeued_and_goes_on(
    cluster: Cluster, tiny: Tiny, tmp_path: Path
) -> None:
    """What happens at a time limit: the job gets USR2, is requeued, and resumes."""
    out = tmp_path / "run"
    recipe, entry, paths = prepared(tiny, out, "training.max_steps=400")
    folder = out / "slurm"
    folder.mkdir(parents=True)
    job = _submit(submitit, recipe, TrainingJob(recipe, entry, paths), folder, "slurm")
    _wait_for(out / "checkpoints" / "checkpoint-8" / "trainer_state.json")
    cluster.call("scancel", "--signal=USR2", str(job.job_id))
    _wait_until_requeued(cluster, str(job.job_id))
    # A requeued job is held back for two minutes, as its node may be ill.
    cluster.call("scontrol", "update", f"jobid={job.job_id}", "starttime=now")
    report = job.results()[0]
    assert report["steps"] == 400
    assert report["resumed_from"] >= 8


def _wait_for(path: Path, timeout_s: float = 300) -> None:
    until = time.monotonic() + timeout_s
    while not path.is_file():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.05)


def _wait_until_requeued(cluster: Cluster, job: str, timeout_s: float = 120) -> None:
    until = time.monotonic() + timeout_s
    while "Restarts=1" not in (shown := cluster.call("scontrol", "-o", "show", "job", job)) or (
        "JobState=PENDING" not in shown
    ):
        assert time.monotonic() < until, shown
        time.sleep(0.2)
