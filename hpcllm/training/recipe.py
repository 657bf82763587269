"""Recipes: what a training run does, validated, with the origin of every value.

Role: reads ``training/recipes/*.toml``. Knows nothing of torch.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from hpcllm.errors import ConfigError, TrainingError, nearest
from hpcllm.workspace import problems_of, read_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Origin = Literal["default", "recipe", "command line"]


class Table(BaseModel):
    """Base of a recipe's tables: unknown keys are refused, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BaseTable(Table):
    """The model that is adapted."""

    model: str
    """Catalog id. Its GGUF file is dequantised, or its safetensors are read."""
    four_bit: bool = False
    """Keep the base in NF4 with double quantisation (QLoRA): a quarter of the memory."""
    precision: Literal["bf16", "fp32"] = "bf16"
    """Type of the base's weights where it is not in four bits."""


class DataTable(Table):
    """What it learns from."""

    file: str
    """Data file, relative to the workspace's ``training`` folder."""
    limit: int = Field(0, ge=0)
    """Use so many examples; 0 uses all."""
    hand_share: float | None = Field(None, ge=0.0, le=1.0)
    """With a limit: share of the hand-written ones; without this key the first of the file."""
    evaluation_share: float = Field(0.02, gt=0.0, lt=0.5)
    """Share kept apart for the evaluation loss."""
    evaluation_limit: int = Field(160, ge=1)
    """Most examples kept apart."""
    max_tokens: int = Field(1024, ge=16)
    """Longest example; longer ones are counted and left out, never cut."""


class AdapterTable(Table):
    """The low-rank adapter."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    """Name of the adapter and of the adapted model in the catalog."""
    rank: int = Field(16, ge=1, le=512)
    """Rank of the increments. Higher learns more and weighs more."""
    alpha: int = Field(32, ge=1)
    """Increments are scaled by alpha / rank."""
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    targets: Literal["all-linear", "attention"] = "all-linear"
    """Layers that are adapted."""


class TrainingTable(Table):
    """How it learns."""

    passes: float = Field(1.0, gt=0.0)
    """Times that the data is seen."""
    max_steps: int = Field(0, ge=0)
    """Stop after so many steps; 0 goes by passes."""
    batch: int = Field(2, ge=1)
    """Examples computed at once on each device; memory grows with it."""
    accumulate: int = Field(4, ge=1)
    """Batches whose gradients are summed for one step."""
    learning_rate: float = Field(2e-4, gt=0.0, lt=1.0)
    warmup_share: float = Field(0.03, ge=0.0, lt=1.0)
    """Share of the steps over which the learning rate rises."""
    schedule: Literal["cosine", "linear", "constant_with_warmup"] = "cosine"
    weight_decay: float = Field(0.0, ge=0.0)
    gradient_norm: float = Field(1.0, gt=0.0)
    """Gradients are scaled down to this norm."""
    seed: int = 1
    evaluate_every: int = Field(100, ge=1)
    """Steps between two evaluations, each followed by a checkpoint."""
    keep_checkpoints: int = Field(2, ge=1)
    patience: int = Field(0, ge=0)
    """Evaluations without a better loss after which it stops; 0 never stops early."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them: less memory, about a third slower."""
    group_by_length: bool = True
    """Batch examples of like length, which wastes less on padding."""
    bf16: bool = True
    """Compute in bfloat16."""
    threads: int = Field(0, ge=0)
    """Threads; 0 takes the cores that this process may use. Two on one free core are far slower."""
    optimiser: Literal["adamw_torch", "adamw_torch_fused", "paged_adamw_8bit"] = "adamw_torch"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    distributed: Literal["none", "ddp", "fsdp"] = "none"
    """How several processes share the work; start them with torchrun or Slurm (see the recipe)."""
    gradient_tokens: int = Field(0, ge=0)
    """Prompt tokens before the answer that carry gradient; 0 takes the whole prompt. With few, a
    step is about 1.6 times as fast, and the adapter learns less about reading the passages."""

    @field_validator("gradient_tokens")
    @classmethod
    def _reach_fits(cls, value: int, info: ValidationInfo) -> int:
        """Refuse what the reach does not go with; the fields it looks at come before it."""
        wanted = {"batch": 1, "gradient_checkpointing": False}
        held = {name: info.data.get(name, want) for name, want in wanted.items()}
        wrong = [f"training.{name} = {json.dumps(wanted[name])}, got {json.dumps(got)}"
                 for name, got in held.items() if got != wanted[name]]  # fmt: skip
        if info.data.get("distributed") == "fsdp":
            wrong.append('training.distributed = "none" or "ddp", got "fsdp"')
        if value and wrong:
            raise PydanticCustomError(
                "reach", "{needs}", {"needs": f"needs {' and '.join(wrong)}; or set it to 0"}
            )
        return value


class SlurmTable(Table):
    """How ``hpcllm train RECIPE --slurm`` asks for resources."""

    partition: str | None = None
    account: str | None = None
    gpus: int = Field(0, ge=0)
    """GPUs of the node."""
    gpu_type: str = ""
    """Such as ``a100``; empty takes any."""
    cpus: int = Field(4, ge=1)
    memory_gb: int = Field(32, ge=1)
    minutes: int = Field(240, ge=1)
    """Time limit. At its end the run is stopped, requeued and resumed."""
    requeues: int = Field(3, ge=0)
    """Times that a run which met its time limit or lost its node goes on by itself."""
    modules: tuple[str, ...] = ()
    """Modules loaded before the run."""
    setup: tuple[str, ...] = ()
    """Further shell lines before the run."""
    environment: dict[str, str] = {}
    """Variables set for the run."""


class Recipe(Table):
    """One training run."""

    base: BaseTable
    data: DataTable
    adapter: AdapterTable
    training: TrainingTable = TrainingTable()
    slurm: SlurmTable = SlurmTable()


@dataclass(frozen=True, slots=True)
class ResolvedRecipe:
    """A recipe with where each value came from.

    Attributes:
        name: file name without suffix.
        recipe: the values.
        origins: origin by dotted key.
    """

    name: str
    recipe: Recipe
    origins: Mapping[str, Origin]

    @property
    def sha256(self) -> str:
        """Hash of what decides the result: all but the Slurm table and the number of threads."""
        values = self.recipe.model_dump(mode="json", exclude={"slurm": True})
        values["training"].pop("threads")
        if not self.recipe.training.gradient_tokens:  # so that runs from before it existed go on
            values["training"].pop("gradient_tokens")
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return every value with its origin, by dotted key."""
        values = dict(_flat(self.recipe.model_dump(mode="json")))
        return {
            key: {"value": value, "origin": self.origins.get(key, "default")}
            for key, value in values.items()
        }


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> ResolvedRecipe:
    """Read and validate a recipe.

    Args:
        path: TOML file.
        overrides: ``table.key=value`` each, the value as TOML or plain text.

    Raises:
        ConfigError: the file cannot be read, or keys or values are wrong; all are listed.
    """
    data = read_toml(path)
    origins: dict[str, Origin] = {key: "recipe" for key, _ in _flat(data)}
    for override in overrides:
        key, value = _override(override)
        table, _, name = key.partition(".")
        inner = data.setdefault(table, {})
        if isinstance(inner, dict):
            inner[name] = value
        origins[key] = "command line"
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as exc:
        raise ConfigError(
            f"{path} has {exc.error_count()} problem(s):", list(problems_of(exc, Recipe))
        ) from exc
    return ResolvedRecipe(path.stem, recipe, origins)


def find_recipe(name: str, folder: Path) -> Path:
    """Return the path of a recipe by name or path.

    Raises:
        TrainingError: there is none; the known ones are listed.
    """
    from pathlib import Path as Location

    given = Location(name)
    if given.suffix == ".toml" and given.is_file():
        return given
    path = folder / f"{name}.toml"
    if path.is_file():
        return path
    known = sorted(file.stem for file in folder.glob("*.toml"))
    raise TrainingError(
        f"there is no recipe {name!r} in {folder}{nearest(name, known)}. "
        f"Known recipes: {', '.join(known) or 'none'}"
    )


def _override(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or "." not in key:
        raise ConfigError(f"--set takes table.key=value, got {text!r}: as in training.batch=1")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and prefix == "":
            yield from _flat(value, f"{key}.")
        else:
            yield f"{prefix}{key}", value
