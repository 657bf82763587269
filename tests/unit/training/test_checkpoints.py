from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from hpcllm.training.checkpoints import checkpoints_in, newest_sound


def checkpoint(folder: Path, step: int) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}), encoding="utf-8")
    save_file({"a": np.ones(3, dtype=np.float32)}, path / "adapter_model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt"):
        with zipfile.ZipFile(path / name, "w") as archive:
            archive.writestr("data", "x" * 100)
    return path


def test_the_newest_comes_first_by_number(tmp_path: Path) -> None:
    for step in (9, 100, 20):
        checkpoint(tmp_path, step)
    (tmp_path / "checkpoint-x").mkdir()
    assert [p.name for p in checkpoints_in(tmp_path)] == [
        "checkpoint-100",
        "checkpoint-20",
        "checkpoint-9",
    ]
    assert newest_sound(tmp_path) == tmp_path / "checkpoint-100"


@pytest.mark.parametrize(
    "name", ["trainer_state.json", "adapter_model.safetensors", "optimizer.pt", "scheduler.pt"]
)
@pytest.mark.parametrize("damage", ["cut", "empty", "gone"])
def test_a_damaged_one_is_put_aside_and_the_one_before_taken(
    tmp_path: Path, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint(tmp_path, 10)
    file = checkpoint(tmp_path, 20) / name
    if damage == "gone":
        file.unlink()
    else:
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    assert newest_sound(tmp_path) == tmp_path / "checkpoint-10"
    assert (tmp_path / "damaged-checkpoint-20").is_dir()
    assert name in caplog.text and "trying the one before" in caplog.text


def test_no_checkpoint_means_a_fresh_run(tmp_path: Path) -> None:
    assert newest_sound(tmp_path / "none") is None
