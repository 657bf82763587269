from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hpcllm.errors import TrainingError
from hpcllm.models.catalog import load_catalog
from hpcllm.training.recipe import ResolvedRecipe, load_recipe
from hpcllm.training.run import RunPaths
from hpcllm.training.slurm import TrainingJob, parameters, setup_lines, submit_training
from hpcllm.workspace import reference_root

FOLDER = reference_root() / "training" / "recipes"


def recipe(name: str = "llama-3.1-8b-qlora", *changes: str) -> ResolvedRecipe:
    return load_recipe(FOLDER / f"{name}.toml", changes)


def test_resources_come_from_the_recipe() -> None:
    wanted = parameters(recipe("llama-3.1-8b-qlora", "slurm.partition=gpu", "slurm.account=p1"))
    assert wanted["gpus_per_node"] == 1
    assert (wanted["slurm_partition"], wanted["slurm_account"]) == ("gpu", "p1")
    assert (wanted["timeout_min"], wanted["cpus_per_task"], wanted["mem_gb"]) == (720, 8, 64)
    assert wanted["tasks_per_node"] == 1
    assert wanted["slurm_additional_parameters"]["requeue"] is True


def test_a_type_of_gpu_is_asked_for_by_name() -> None:
    wanted = parameters(recipe("llama-3.1-8b-qlora", "slurm.gpu_type=a100", "slurm.gpus=2"))
    assert wanted["slurm_gres"] == "gpu:a100:2"
    assert "gpus_per_node" not in wanted


def test_one_process_for_each_gpu_where_they_share_the_work() -> None:
    wanted = parameters(recipe("llama-3.1-8b-qlora-multi-gpu"))
    assert (wanted["tasks_per_node"], wanted["cpus_per_task"]) == (4, 8)


def test_modules_and_environment_come_before_the_run() -> None:
    resolved = recipe(
        "smollm2-135m-cpu",
        'slurm.modules=["cuda/12.4", "a b"]',
        'slurm.setup=["source env.sh"]',
        'slurm.environment={X = "two words"}',
    )
    lines = setup_lines(resolved.recipe, 6)
    assert lines[:2] == ["module load cuda/12.4", "module load 'a b'"]
    assert "export X='two words'" in lines
    assert "export OMP_NUM_THREADS=6" in lines
    assert "export MALLOC_MMAP_MAX_=0" in lines
    assert lines[-1] == "source env.sh"


FAKE_SBATCH = """\
#!/bin/sh
cp "$1" "{copy}"
{ending}
"""


def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> dict[str, Any]:
    """Submit the multi-GPU recipe to a program that only keeps the job script."""
    pytest.importorskip("submitit", reason="needs hpcllm[train]")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sbatch", "srun", "squeue"):
        text = FAKE_SBATCH.format(copy=tmp_path / "script", ending=ending)
        (programs / name).write_text(text if name == "sbatch" else "#!/bin/sh\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    resolved = recipe("llama-3.1-8b-qlora-multi-gpu", "slurm.partition=gpu")
    entry = load_catalog().get(resolved.recipe.base.model)
    paths = RunPaths(tmp_path / "data.jsonl", tmp_path / "a run", tmp_path / "models")
    return submit_training(resolved, entry, paths, wait=False)


def test_the_job_script_asks_for_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = submit(tmp_path, monkeypatch, "echo Submitted batch job 4711")
    assert told["job"] == "4711"
    assert told["log"].startswith(str(tmp_path / "a run" / "slurm" / "4711"))
    text = (tmp_path / "script").read_text(encoding="utf-8")
    for line in (
        "#SBATCH --partition=gpu",
        "#SBATCH --gpus-per-node=4",
        "#SBATCH --ntasks-per-node=4",
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --time=360",
        "#SBATCH --mem=240GB",
        "#SBATCH --requeue",
        "#SBATCH --signal=USR2@90",
        "export MALLOC_MMAP_MAX_=0",
    ):
        assert line in text, text


def test_a_refusal_by_slurm_is_told_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = "echo 'sbatch: error: invalid partition specified: gpu' >&2; exit 1"
    with pytest.raises(TrainingError, match=r"(?s)invalid partition.*Check the table \[slurm\]"):
        submit(tmp_path, monkeypatch, ending)


def test_no_slurm_is_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit", reason="needs hpcllm[train]")
    monkeypatch.setenv("PATH", str(tmp_path))
    resolved = recipe()
    entry = load_catalog().get(resolved.recipe.base.model)
    paths = RunPaths(tmp_path / "d", tmp_path / "run", tmp_path / "models")
    with pytest.raises(TrainingError, match="that sbatch works here"):
        submit_training(resolved, entry, paths)


def test_a_requeued_job_never_starts_anew(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="needs hpcllm[train]")
    resolved = recipe()
    entry = load_catalog().get(resolved.recipe.base.model)
    paths = RunPaths(tmp_path / "d", tmp_path / "run", tmp_path / "models")
    again = TrainingJob(resolved, entry, paths, fresh=True).checkpoint()
    assert again.function == TrainingJob(resolved, entry, paths, fresh=False)
