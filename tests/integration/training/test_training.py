"""Training on a tiny twin of Llama 3.1: real torch, peft, trl and bitsandbytes on the CPU."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hpcllm.errors import TrainingError
from hpcllm.models.catalog import load_catalog
from hpcllm.training.recipe import load_recipe
from tests.integration.training.tiny import MODEL_ID, Tiny, make_tiny, write_data, write_recipe

pytest.importorskip("trl", reason="needs hpcllm[train]")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("tiny"))


def run(tiny: Tiny, recipe: Path, out: Path, *overrides: str, data: Path | None = None) -> Any:
    from hpcllm.training.run import RunPaths, train

    entry = load_catalog(tiny.workspace / "training" / "models.toml").get(MODEL_ID)
    paths = RunPaths(data or tiny.data, out, tiny.models_dir)
    return train(load_recipe(recipe, overrides), entry, paths)


@pytest.fixture(scope="module")
def finished(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """One uninterrupted run of 12 steps."""
    out = tmp_path_factory.mktemp("run")
    return out, run(tiny, write_recipe(tiny, steps=12), out)


def test_a_run_leaves_everything_that_belongs_to_it(finished: tuple[Path, Any]) -> None:
    out, report = finished
    held = {p.name for p in out.iterdir()}
    assert {"recipe.json", "checkpoints", "loss.json", "loss.png", "adapter", "report.json"} <= held
    assert ".trained" not in held
    losses = json.loads((out / "loss.json").read_text(encoding="utf-8"))
    evaluations = [e["eval_loss"] for e in losses if "eval_loss" in e]
    assert [e["step"] for e in losses if "eval_loss" in e] == [4, 8, 12]
    assert evaluations[-1] < evaluations[0]
    assert report.evaluation_loss == pytest.approx(min(evaluations), abs=1e-4)
    assert report.tokens > 0 and report.peak_memory_gb > 0
    values = json.loads((out / "recipe.json").read_text(encoding="utf-8"))["values"]
    assert values["training.max_steps"] == {"value": 12, "origin": "recipe"}
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_the_adapter_ships_without_local_paths_and_pickles(finished: tuple[Path, Any]) -> None:
    folder = finished[0] / "adapter"
    assert sorted(p.name for p in folder.iterdir()) == [
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
        "training.json",
    ]
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == MODEL_ID
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"base_model: {MODEL_ID}" in card and "12 steps of 4 examples" in card
    texts = [p.read_text(encoding="utf-8") for p in folder.glob("*.json")]
    assert not [text for text in [*texts, card] if str(finished[0].parent) in text]


def test_only_the_answer_is_learned(tiny: Tiny, tmp_path: Path) -> None:
    from hpcllm.training import run as running

    recipe = load_recipe(write_recipe(tiny)).recipe
    entry = load_catalog(tiny.workspace / "training" / "models.toml").get(MODEL_ID)
    tokenizer, model = running._load_model(recipe, entry, tiny.models_dir)
    prepared = running._prepare(recipe, tokenizer, tiny.data)
    record = running.LossRecord(tmp_path)
    trainer = running._trainer(recipe, model, tokenizer, prepared, tmp_path, record)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(3)])
    for ids, labels, example in zip(
        batch["input_ids"], batch["labels"], prepared.train.select(range(3)), strict=True
    ):
        learned = tokenizer.decode([i for i in labels.tolist() if i != -100])
        assert learned == example["completion"][0]["content"] + "<|eot_id|>"
        assert tokenizer.decode(ids.tolist()).count("<|begin_of_text|>") == 1


def test_long_examples_are_counted_and_left_out(
    tiny: Tiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "long.jsonl"
    write_data(data, 30, long=5)
    report = run(tiny, write_recipe(tiny), tmp_path / "run", "training.max_steps=1", data=data)
    assert report.too_long == 5
    assert report.examples == 25 - round(25 * 0.1)
    assert "5 of 30 examples are longer than 256 tokens and left out" in caplog.text


def test_nothing_short_enough_is_an_error(tiny: Tiny, tmp_path: Path) -> None:
    data = tmp_path / "long.jsonl"
    write_data(data, 4, long=4)
    with pytest.raises(TrainingError, match=r"leaves 0 example.*raise data.max_tokens"):
        run(tiny, write_recipe(tiny), tmp_path / "run", data=data)


def test_four_bits_train_with_the_same_recipe(tiny: Tiny, tmp_path: Path) -> None:
    recipe = write_recipe(tiny, four_bit=True, bf16=True, name="tiny-qlora")
    report = run(tiny, recipe, tmp_path / "run", "training.max_steps=8")
    losses = json.loads((tmp_path / "run" / "loss.json").read_text(encoding="utf-8"))
    evaluations = [e["eval_loss"] for e in losses if "eval_loss" in e]
    assert evaluations[-1] < evaluations[0]
    assert report.steps == 8


@pytest.mark.parametrize("name", ["llama-3.1-8b-qlora", "llama-3.1-8b-qlora-multi-gpu"])
def test_the_recipes_of_the_large_model_run_on_its_twin(
    tiny: Tiny, tmp_path: Path, name: str
) -> None:
    from hpcllm.workspace import reference_root

    recipe = reference_root() / "training" / "recipes" / f"{name}.toml"
    changes = [
        f"base.model={MODEL_ID}",
        "data.max_tokens=256",
        "training.max_steps=2",
        "training.evaluate_every=2",
        "training.device=cpu",
        "training.optimiser=adamw_torch",
    ]
    report = run(tiny, recipe, tmp_path / "run", *changes)
    assert report.steps == 2 and report.evaluation_loss is not None


def test_another_recipe_or_data_in_the_same_folder_is_refused(
    tiny: Tiny, finished: tuple[Path, Any], tmp_path: Path
) -> None:
    recipe = write_recipe(tiny, steps=12)
    with pytest.raises(TrainingError, match=r"another recipe: .* start anew with --fresh"):
        run(tiny, recipe, finished[0], "training.seed=9")
    other = tmp_path / "other.jsonl"
    write_data(other, 20)
    with pytest.raises(TrainingError, match="another data: "):
        run(tiny, recipe, finished[0], data=other)


def _command(tiny: Tiny, out: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "hpcllm", "train", "tiny", "--workspace", str(tiny.workspace)),
        *("--out", str(out), "--json", *more),
    ]


def _environment(tiny: Tiny) -> dict[str, str]:
    return {**os.environ, "HPCLLM_HOME": str(tiny.models_dir.parent), "HPCLLM_THREADS": "1"}


def _killed_at(tiny: Tiny, out: Path, step: int) -> None:
    """Start a run and kill it as soon as the checkpoint of a step is complete."""
    process = subprocess.Popen(
        _command(tiny, out), env=_environment(tiny), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        until = time.monotonic() + 600
        state = out / "checkpoints" / f"checkpoint-{step}" / "trainer_state.json"
        while not state.is_file():
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def test_a_killed_run_goes_on_and_ends_with_the_same_loss(
    tiny: Tiny, finished: tuple[Path, Any], tmp_path: Path
) -> None:
    write_recipe(tiny, steps=12)
    out = tmp_path / "run"
    _killed_at(tiny, out, 4)
    # What is damaged besides is passed over: the one before is taken.
    damaged = out / "checkpoints" / "checkpoint-99"
    shutil.copytree(out / "checkpoints" / "checkpoint-4", damaged)
    (damaged / "adapter_model.safetensors").write_bytes(b"broken")
    done = subprocess.run(
        _command(tiny, out), env=_environment(tiny), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["steps"] == 12 and report["resumed_from"] in (4, 8)
    expected = finished[1].evaluation_loss
    assert report["evaluation_loss"] == pytest.approx(expected, rel=0.02)
    assert "checkpoint-99 cannot be used" in done.stderr


def test_the_same_step_in_other_batches_learns_the_same(tiny: Tiny, tmp_path: Path) -> None:
    recipe = write_recipe(tiny, steps=8)
    plain = "training.group_by_length=false"
    losses = [
        run(tiny, recipe, tmp_path / name, plain, f"training.batch={b}", f"training.accumulate={a}")
        for name, b, a in (("one", 4, 1), ("two", 1, 4))
    ]
    assert losses[0].evaluation_loss == pytest.approx(losses[1].evaluation_loss, rel=0.01)


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_processes_share_the_work(
    tiny: Tiny, finished: tuple[Path, Any], tmp_path: Path, how: str
) -> None:
    write_recipe(tiny, steps=12)
    changes = ["training.accumulate=1", f"training.distributed={how}"]
    command = _command(tiny, tmp_path, *(part for c in changes for part in ("--set", c)))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launcher, *command[1:]],
        env=_environment(tiny),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    # The step is the same as of one process with twice the batches.
    assert report["evaluation_loss"] == pytest.approx(finished[1].evaluation_loss, rel=0.1)
    assert report["tokens"] == pytest.approx(finished[1].tokens, rel=0.05)
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()
