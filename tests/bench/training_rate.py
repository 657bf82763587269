"""Compare the training rate of ``hpcllm train`` with that of a plain trl + peft script.

usage: python -m tests.bench.training_rate [RECIPE] [--data FILE] [--examples N] [--rounds N]
                                           [--set table.key=value ...]

Both train on the same examples with the same settings, one after the other, alternating, each in a
process of its own, so that what else the machine does meets both. The plain script is what the
documentation of trl shows: a data set, a LoraConfig, an SFTConfig with the recipe's values, and
``train()``; it starts without the allocator's settings and without what the recipe adds on top.
Prints tokens a second and peak memory of each round, and the ratios of the medians. Needs a free
machine for as long as it runs; the target is a ratio of 1 or more at no more memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcllm.models.catalog import load_catalog
from hpcllm.models.torch_weights import torch_folder
from hpcllm.training.recipe import Recipe, find_recipe, load_recipe
from hpcllm.workspace import Workspace

ALTERNATING = ("hpcllm", "plain")
PLAIN = """
import json, resource, sys, time
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

given = json.load(open(sys.argv[1]))
if given["threads"]:
    torch.set_num_threads(given["threads"])
rows = [json.loads(line) for line in open(given["data"])]
examples = [
    {"prompt": r["messages"], "completion": [{"role": "assistant", "content": r["completion"]}]}
    for r in rows
]
model = AutoModelForCausalLM.from_pretrained(given["base"], dtype=getattr(torch, given["dtype"]))
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(**given["arguments"]),
    train_dataset=Dataset.from_list(examples),
    processing_class=AutoTokenizer.from_pretrained(given["base"]),
    peft_config=LoraConfig(**given["lora"]),
)
started = time.perf_counter()
trainer.train()
seconds = time.perf_counter() - started
print(json.dumps({
    "tokens": int(trainer.state.num_input_tokens_seen),
    "seconds": seconds,
    "steps": trainer.state.global_step,
    "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
    "loss": [e["loss"] for e in trainer.state.log_history if "loss" in e][-1],
}))
"""


def plain_arguments(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Return trl's settings as a plain script would write them down from the recipe."""
    training = recipe.training
    return {
        "output_dir": str(folder),
        "num_train_epochs": training.passes,
        "max_steps": training.max_steps or -1,
        "per_device_train_batch_size": training.batch,
        "gradient_accumulation_steps": training.accumulate,
        "learning_rate": training.learning_rate,
        "lr_scheduler_type": training.schedule,
        "warmup_steps": round(training.max_steps * training.warmup_share),
        "max_grad_norm": training.gradient_norm,
        "weight_decay": training.weight_decay,
        "optim": training.optimiser,
        "bf16": training.bf16,
        "gradient_checkpointing": training.gradient_checkpointing,
        "max_length": recipe.data.max_tokens,
        "completion_only_loss": True,
        "use_cpu": training.device == "cpu",
        "seed": training.seed,
        "save_strategy": "no",
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "include_num_input_tokens_seen": "non_padding",
    }


def plain_lora(recipe: Recipe) -> dict[str, Any]:
    """Return the adapter's settings of a recipe."""
    attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    return {
        "r": recipe.adapter.rank,
        "lora_alpha": recipe.adapter.alpha,
        "lora_dropout": recipe.adapter.dropout,
        "target_modules": "all-linear" if recipe.adapter.targets == "all-linear" else attention,
        "task_type": "CAUSAL_LM",
    }


def shortened(data: Path, recipe: Recipe, examples: int, target: Path) -> None:
    """Write as many examples as both train on, and those that ``hpcllm train`` keeps apart."""
    lines = data.read_text(encoding="utf-8").splitlines()[: examples + recipe.data.evaluation_limit]
    if len(lines) <= examples:
        sys.exit(f"{data} has {len(lines)} examples, expected more than {examples}")
    target.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def measure(command: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Run one training and return the figures on the last line of its output."""
    done = subprocess.run(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command[:6])} … ended with {done.returncode}: see above")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def commands(given: argparse.Namespace, folder: Path) -> dict[str, list[str]]:
    """Return how each of the two is started, over the same examples."""
    space = Workspace.find(given.workspace)
    path = find_recipe(given.recipe, space.training_dir / "recipes")
    # One evaluation at the end of all steps at most: neither spends its time on evaluating.
    changes = [*given.set, "training.evaluate_every=1000000", "training.patience=0"]
    recipe = load_recipe(path, changes).recipe
    per_step = recipe.training.batch * recipe.training.accumulate
    changes.append(f"training.max_steps={max(1, given.examples // per_step)}")
    recipe = load_recipe(path, changes).recipe
    data = folder / "data.jsonl"
    shortened(given.data or space.training_dir / recipe.data.file, recipe, given.examples, data)
    entry = load_catalog(space.catalog_file).get(recipe.base.model)
    values = {
        "threads": recipe.training.threads or space.threads,
        "data": str(data),
        "base": str(torch_folder(entry, space.models_dir)),
        "dtype": "bfloat16" if recipe.base.precision == "bf16" else "float32",
        "arguments": plain_arguments(recipe, folder / "plain"),
        "lora": plain_lora(recipe),
    }
    (folder / "plain.json").write_text(json.dumps(values), encoding="utf-8")
    (folder / "plain.py").write_text(PLAIN, encoding="utf-8")
    sets = [part for change in changes for part in ("--set", change)]
    ours = [sys.executable, "-m", "hpcllm", "train", str(path), "-w", str(space.root), *sets]
    return {
        "hpcllm": [*ours, "--data", str(data), "--out", str(folder / "ours"), "--fresh", "--json"],
        "plain": [sys.executable, str(folder / "plain.py"), str(folder / "plain.json")],
    }


def ratios(rounds: Mapping[str, list[dict[str, Any]]]) -> str:
    """Return the ratios of the medians in words."""
    rate, memory = (
        {name: statistics.median(figure(r) for r in found) for name, found in rounds.items()}
        for figure in (rate_of, lambda r: r["peak_memory_gb"])
    )
    return (
        f"rate {rate['hpcllm'] / rate['plain']:.2f} times that of the plain script "
        f"({rate['hpcllm']:.0f} to {rate['plain']:.0f} tokens/s), peak memory "
        f"{memory['hpcllm'] / memory['plain']:.2f} times "
        f"({memory['hpcllm']:.2f} to {memory['plain']:.2f} GB)"
    )


def rate_of(figures: Mapping[str, Any]) -> float:
    """Return tokens a second of one training."""
    return float(figures["tokens"]) / float(figures["seconds"])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("recipe", nargs="?", default="smollm2-135m-cpu")
    parser.add_argument("--workspace", "-w", type=Path, default=None)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--examples", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in ALTERNATING}
    with tempfile.TemporaryDirectory() as name:
        each = commands(given, Path(name))
        environment = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        for number in range(given.rounds):
            for who in ALTERNATING:
                found = measure(each[who], environment)
                rounds[who].append(found)
                sys.stdout.write(
                    f"round {number + 1} {who}: {rate_of(found):.0f} tokens/s over "
                    f"{found['steps']} steps, peak {found['peak_memory_gb']:.2f} GB\n"
                )
                sys.stdout.flush()
    sys.stdout.write(f"{ratios(rounds)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
