"""The bench of the training rate runs on a tiny model; its figures mean nothing there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.training_rate import plain_arguments, ratios, shortened
from tests.integration.training.tiny import make_tiny, write_recipe

pytest.importorskip("trl", reason="needs hpcllm[train]")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(900),
]


def test_both_are_trained_and_compared(tmp_path: Path) -> None:
    tiny = make_tiny(tmp_path)
    write_recipe(tiny)
    sizes = ["--examples", "8", "--rounds", "1", "--set", "data.evaluation_limit=10"]
    command = [sys.executable, "-m", "tests.bench.training_rate", "tiny", *sizes]
    done = subprocess.run(
        [*command, "-w", str(tiny.workspace)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HPCLLM_HOME": str(tiny.models_dir.parent), "HPCLLM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["round 1 hpcllm", "round 1 plain"]
    assert all("over 2 steps" in line for line in lines[:2])
    assert lines[2].startswith("rate ") and "peak memory" in lines[2]


def test_the_plain_script_has_the_recipe_s_settings(tmp_path: Path) -> None:
    from trl import SFTConfig

    from hpcllm.training.recipe import load_recipe

    tiny = make_tiny(tmp_path)
    recipe = load_recipe(write_recipe(tiny, steps=20), ["training.warmup_share=0.1"]).recipe
    config = SFTConfig(**plain_arguments(recipe, tmp_path))
    assert config.learning_rate == 5e-3
    assert (config.per_device_train_batch_size, config.gradient_accumulation_steps) == (2, 2)
    assert (config.max_steps, config.warmup_steps, config.max_length) == (20, 2, 256)


def test_ratios_are_of_the_medians() -> None:
    def figures(*values: tuple[float, float]) -> list[dict[str, float]]:
        return [{"tokens": t, "seconds": 1.0, "peak_memory_gb": m} for t, m in values]

    text = ratios(
        {
            "hpcllm": figures((90, 1.0), (110, 1.2), (100, 1.1)),
            "plain": figures((50, 2.0), (10, 9.0), (70, 2.2)),
        }
    )
    assert text.startswith("rate 2.00 times that of the plain script (100 to 50 tokens/s)")
    assert text.endswith("peak memory 0.50 times (1.10 to 2.20 GB)")


def test_too_small_a_data_set_is_named(tmp_path: Path) -> None:
    from hpcllm.training.recipe import load_recipe

    tiny = make_tiny(tmp_path, rows=6)
    recipe = load_recipe(write_recipe(tiny)).recipe
    with pytest.raises(SystemExit, match="has 6 examples, expected more than 8"):
        shortened(tiny.data, recipe, 8, tmp_path / "out.jsonl")
