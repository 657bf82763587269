"""One training run, in order: data, model, train, save, report.

Role: behind ``hpcllm train RECIPE``. The only module that drives torch, transformers, peft and trl.
A run's folder holds::

    recipe.json        every value with its origin; the hashes of recipe and data
    checkpoints/       the latest ones; a killed run goes on from the newest sound one
    loss.json          loss, evaluation loss, learning rate, tokens a second, by step
    loss.png           the same as a picture
    adapter/           the adapter (fp16) with its model card, ready for training/adapters/
    report.json        totals: losses, tokens, seconds, peak memory
"""

from __future__ import annotations

import json
import logging
import os
import resource
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.errors import TrainingError, import_extra
from hpcllm.models.torch_weights import nf4_settings, torch_folder
from hpcllm.training.checkpoints import newest_sound
from hpcllm.training.dataset import read_examples
from hpcllm.training.recording import LossRecord, step_callback, write_json
from hpcllm.training.selection import choose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hpcllm.models.catalog import ModelEntry
    from hpcllm.training.recipe import Recipe, ResolvedRecipe

    Progress = Callable[[int, int | None], None]

logger = logging.getLogger(__name__)

EXTRA = "train"
CHECKPOINTS_FOLDER = "checkpoints"
ADAPTER_FOLDER = "adapter"
TRAINED_FOLDER = ".trained"
RECIPE_FILE = "recipe.json"
REPORT_FILE = "report.json"
FULL_DISK = 28
"""errno of a full disk."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Where a run reads and writes.

    Attributes:
        data: data file.
        folder: folder of the run.
        models_dir: folder of models.
    """

    data: Path
    folder: Path
    models_dir: Path


@dataclass(frozen=True, slots=True)
class RunReport:
    """How a run ended.

    Attributes:
        steps: optimiser steps done in all.
        loss: mean training loss of this process's part of the run.
        evaluation_loss: lowest evaluation loss, or None.
        examples: examples trained on.
        too_long: examples left out for their length.
        tokens: tokens trained on by this process, padding left out.
        seconds: time spent training by this process.
        peak_memory_gb: most memory that the process held.
        peak_gpu_gb: most memory of the GPU, 0 without one.
        data_sha256: hash of the data file.
        stopped_early: whether the evaluation loss stopped it.
        resumed_from: step that it went on from, 0 for a fresh run.
    """

    steps: int
    loss: float
    evaluation_loss: float | None
    examples: int
    too_long: int
    tokens: int
    seconds: float
    peak_memory_gb: float
    peak_gpu_gb: float
    data_sha256: str
    stopped_early: bool
    resumed_from: int

    @property
    def tokens_per_second(self) -> float:
        """Tokens trained on a second."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the form of ``report.json``."""
        from dataclasses import asdict

        return {**asdict(self), "tokens_per_second": round(self.tokens_per_second, 1)}


@dataclass(frozen=True, slots=True)
class Prepared:
    """Data as the trainer takes it.

    Attributes:
        train: examples to learn from.
        evaluation: examples kept apart.
        too_long: number left out for their length.
    """

    train: Any
    evaluation: Any
    too_long: int


def train(
    resolved: ResolvedRecipe,
    entry: ModelEntry,
    paths: RunPaths,
    *,
    fresh: bool = False,
    progress: Progress | None = None,
) -> RunReport:
    """Train an adapter, or go on with a run that was stopped.

    Args:
        resolved: the recipe.
        entry: catalog entry of the base.
        paths: where to read and write.
        fresh: start anew even where the folder holds checkpoints.
        progress: called with steps done since the last call, and all steps.

    Returns:
        How it ended; everything is written to the run's folder.

    Raises:
        MissingExtraError: the packages of the extra ``train`` are not installed.
        ModelError: the base is not on this machine.
        TrainingError: data, folder or checkpoints cannot be used, or the disk is full.
    """
    for name in ("torch", "transformers", "peft", "trl", "datasets"):
        import_extra(name, EXTRA)
    recipe = resolved.recipe
    digest = _claim_folder(resolved, paths, fresh=fresh)
    _set_up(recipe)
    tokenizer, model = _load_model(recipe, entry, paths.models_dir)
    prepared = _prepare(recipe, tokenizer, paths.data)
    record = LossRecord(paths.folder)
    trainer = _trainer(recipe, model, tokenizer, prepared, paths.folder, record)
    if progress:
        trainer.add_callback(step_callback(progress))
    checkpoint = newest_sound(paths.folder / CHECKPOINTS_FOLDER)
    seen = _tokens_seen(checkpoint)  # the checkpoint is removed when newer ones are written
    started = time.perf_counter()
    with _full_disk_named(paths.folder):
        outcome = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    seconds = time.perf_counter() - started
    report = _report(trainer, outcome, prepared, seconds, digest, checkpoint, seen)
    trainer.save_model(str(paths.folder / TRAINED_FOLDER))  # by all processes: FSDP gathers
    if trainer.is_world_process_zero():
        _save(trainer, resolved, entry, paths, report, record)
    return report


def _claim_folder(resolved: ResolvedRecipe, paths: RunPaths, *, fresh: bool) -> str:
    """Note the recipe in the run's folder, refuse another run's folder; return the data's hash."""
    import shutil

    from hpcllm.models.files import sha256_of

    if not paths.data.is_file():
        raise TrainingError(f"{paths.data} does not exist. Make it with: hpcllm dataset build")
    digest = sha256_of(paths.data)
    if fresh and paths.folder.is_dir() and int(os.environ.get("RANK", "0")) == 0:
        shutil.rmtree(paths.folder / CHECKPOINTS_FOLDER, ignore_errors=True)
        (paths.folder / RECIPE_FILE).unlink(missing_ok=True)
    note = paths.folder / RECIPE_FILE
    mine = {"recipe_sha256": resolved.sha256, "data_sha256": digest}
    if note.is_file():
        held = json.loads(note.read_text(encoding="utf-8"))
        differing = [name for name, value in mine.items() if held.get(name) != value]
        if differing:
            raise TrainingError(
                f"{paths.folder} holds a run of another {_listed(differing)}: go on with the old "
                "ones, choose another folder with --out, or start anew with --fresh"
            )
    paths.folder.mkdir(parents=True, exist_ok=True)
    write_json(note, {"name": resolved.name, **mine, "values": resolved.to_json()})
    return digest


def _listed(names: Sequence[str]) -> str:
    return " and ".join(name.removesuffix("_sha256") for name in names)


def _set_up(recipe: Recipe) -> None:
    import torch
    import transformers

    from hpcllm.models.torch_weights import quiet_libraries

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers.set_seed(recipe.training.seed)
    if recipe.training.threads:
        torch.set_num_threads(recipe.training.threads)
    quiet_libraries()


def _load_model(recipe: Recipe, entry: ModelEntry, models_dir: Path) -> tuple[Any, Any]:
    """Return the tokenizer and the base model, in four bits where the recipe says so."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = torch_folder(entry, models_dir)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    options: dict[str, Any] = {"attn_implementation": "sdpa"}
    dtype = torch.bfloat16 if recipe.base.precision == "bf16" else torch.float32
    if recipe.base.four_bit:
        options["quantization_config"] = nf4_settings(dtype)
        if torch.cuda.is_available():
            options["device_map"] = {"": int(os.environ.get("LOCAL_RANK", "0"))}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **options)
    model.config.use_cache = False
    return tokenizer, model


def _prepare(recipe: Recipe, tokenizer: Any, data: Path) -> Prepared:
    """Read the data, leave out what is too long, keep some apart."""
    import random

    from datasets import Dataset

    rows = choose(read_examples(data), limit=recipe.data.limit, hand_share=recipe.data.hand_share)
    examples = [_conversation(row) for row in rows]
    lengths = [_length(tokenizer, example) for example in examples]
    kept = [e for e, n in zip(examples, lengths, strict=True) if n <= recipe.data.max_tokens]
    too_long = len(examples) - len(kept)
    if too_long:
        logger.warning(
            "%d of %d examples are longer than %d tokens and left out",
            *(too_long, len(examples), recipe.data.max_tokens),
        )
    count = min(recipe.data.evaluation_limit, round(len(kept) * recipe.data.evaluation_share))
    if len(kept) < 2:
        raise TrainingError(
            f"{data} leaves {len(kept)} example(s) of at most {recipe.data.max_tokens} tokens: "
            "raise data.max_tokens or build a larger set"
        )
    random.Random(recipe.training.seed).shuffle(kept)
    split = max(1, count)
    return Prepared(Dataset.from_list(kept[split:]), Dataset.from_list(kept[:split]), too_long)


def _conversation(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "prompt": [{"role": m["role"], "content": m["content"]} for m in row["messages"]],
        "completion": [{"role": "assistant", "content": row["completion"]}],
    }


def _length(tokenizer: Any, example: dict[str, Any]) -> int:
    ids = tokenizer.apply_chat_template(
        example["prompt"] + example["completion"], tokenize=True, return_dict=False
    )
    return len(ids)


def _trainer(
    recipe: Recipe,
    model: Any,
    tokenizer: Any,
    prepared: Prepared,
    folder: Path,
    record: LossRecord,
) -> Any:
    from transformers import EarlyStoppingCallback, PrinterCallback

    from hpcllm.training.trainer import trainer_class

    callbacks = [record.callback()]
    if recipe.training.patience:
        callbacks.append(EarlyStoppingCallback(recipe.training.patience))
    trainer = trainer_class(recipe.training.gradient_tokens)(
        model=model,
        args=_arguments(recipe, len(prepared.train), folder),
        train_dataset=prepared.train,
        eval_dataset=prepared.evaluation,
        processing_class=tokenizer,
        peft_config=_lora(recipe),
        callbacks=callbacks,
    )
    trainer.remove_callback(PrinterCallback)  # standard output is for results
    if len(trainer.train_dataset) != len(prepared.train):
        raise TrainingError(
            f"trl kept {len(trainer.train_dataset)} of {len(prepared.train)} examples: some "
            "prompts are longer than data.max_tokens; raise it"
        )
    return trainer


def _lora(recipe: Recipe) -> Any:
    from peft import LoraConfig

    attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    return LoraConfig(
        r=recipe.adapter.rank,
        lora_alpha=recipe.adapter.alpha,
        lora_dropout=recipe.adapter.dropout,
        target_modules="all-linear" if recipe.adapter.targets == "all-linear" else attention,
        task_type="CAUSAL_LM",
    )


def _arguments(recipe: Recipe, examples: int, folder: Path) -> Any:
    """Return trl's settings for a recipe."""
    from trl import SFTConfig

    training = recipe.training
    steps = _steps(recipe, examples)
    on_cpu = _uses_cpu(recipe)
    return SFTConfig(
        output_dir=str(folder / CHECKPOINTS_FOLDER),
        num_train_epochs=training.passes,
        max_steps=training.max_steps or -1,
        per_device_train_batch_size=training.batch,
        per_device_eval_batch_size=training.batch,
        gradient_accumulation_steps=training.accumulate,
        learning_rate=training.learning_rate,
        lr_scheduler_type=training.schedule,
        warmup_steps=round(steps * training.warmup_share),
        weight_decay=training.weight_decay,
        max_grad_norm=training.gradient_norm,
        optim=training.optimiser,
        bf16=training.bf16,
        gradient_checkpointing=training.gradient_checkpointing,
        train_sampling_strategy="group_by_length" if training.group_by_length else "random",
        max_length=recipe.data.max_tokens,
        packing=False,
        completion_only_loss=True,
        eval_strategy="steps",
        eval_steps=training.evaluate_every,
        save_strategy="steps",
        save_steps=training.evaluate_every,
        save_total_limit=training.keep_checkpoints,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        logging_steps=max(1, min(10, training.evaluate_every)),
        logging_nan_inf_filter=False,
        seed=training.seed,
        data_seed=training.seed,
        use_cpu=on_cpu,
        dataloader_pin_memory=not on_cpu,
        report_to="none",
        disable_tqdm=True,
        include_num_input_tokens_seen="non_padding",
        **_distribution(recipe),
    )


def _distribution(recipe: Recipe) -> dict[str, Any]:
    """Return what several processes need; see the multi-GPU recipe."""
    if recipe.training.distributed == "ddp":
        return {"ddp_find_unused_parameters": False}
    if recipe.training.distributed == "fsdp":
        return {
            "fsdp": "full_shard auto_wrap",
            "fsdp_config": {
                "fsdp_version": 2,
                "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"],
            },
        }
    return {}


def _steps(recipe: Recipe, examples: int) -> int:
    per_step = recipe.training.batch * recipe.training.accumulate
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    by_passes = max(1, round(examples * recipe.training.passes / (per_step * devices)))
    return recipe.training.max_steps or by_passes


def _uses_cpu(recipe: Recipe) -> bool:
    import torch

    wanted = recipe.training.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise TrainingError(
            "the recipe asks for a GPU and none is visible: check nvidia-smi and "
            "CUDA_VISIBLE_DEVICES, or train on the CPU with --set training.device=cpu"
        )
    if wanted == "auto" and not torch.cuda.is_available():
        logger.info("no GPU is visible: training on the CPU")
    return wanted == "cpu" or not torch.cuda.is_available()


@contextmanager
def _full_disk_named(folder: Path) -> Iterator[None]:
    """Turn a full disk into an error that names the remedy; checkpoints so far stay."""
    try:
        yield
    except (OSError, RuntimeError) as exc:
        full = getattr(exc, "errno", None) == FULL_DISK or "No space left" in str(exc)
        if not full and "file write failed" not in str(exc):
            raise
        raise TrainingError(
            f"no room for a checkpoint in {folder}: {exc}. Make room and start the same command "
            "again; it goes on from the last complete checkpoint"
        ) from exc


def _report(
    trainer: Any,
    outcome: Any,
    prepared: Prepared,
    seconds: float,
    digest: str,
    checkpoint: Path | None,
    seen: int,
) -> RunReport:
    import torch

    state = trainer.state
    losses = [entry["eval_loss"] for entry in state.log_history if "eval_loss" in entry]
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gpu = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
    before = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
    return RunReport(
        steps=state.global_step,
        loss=round(float(outcome.training_loss), 5),
        evaluation_loss=round(min(losses), 5) if losses else None,
        examples=len(prepared.train),
        too_long=prepared.too_long,
        tokens=int(state.num_input_tokens_seen) - seen,
        seconds=round(seconds, 1),
        peak_memory_gb=round(kib * 1024 / 1e9, 2),
        peak_gpu_gb=round(gpu, 2),
        data_sha256=digest,
        stopped_early=state.global_step < state.max_steps,
        resumed_from=before,
    )


def _tokens_seen(checkpoint: Path | None) -> int:
    if checkpoint is None:
        return 0
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    return int(state.get("num_input_tokens_seen", 0))


def _save(
    trainer: Any,
    resolved: ResolvedRecipe,
    entry: ModelEntry,
    paths: RunPaths,
    report: RunReport,
    record: LossRecord,
) -> None:
    """Write the adapter in fp16 with its card, the report and the loss curve."""
    from hpcllm.training.cards import model_card
    from hpcllm.training.shipping import save_adapter

    folder = paths.folder / ADAPTER_FOLDER
    save_adapter(paths.folder / TRAINED_FOLDER, folder, base_id=entry.id)
    write_json(paths.folder / REPORT_FILE, report.to_json())
    record.draw()
    card = model_card(resolved, entry, report.to_json(), record.entries(), paths.data)
    (folder / "README.md").write_text(card, encoding="utf-8")
    write_json(folder / "training.json", {**report.to_json(), "recipe": resolved.to_json()})
    logger.info("wrote %s", folder)
