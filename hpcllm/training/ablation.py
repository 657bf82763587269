"""Which data and which settings earn their place: the same training with one thing changed each.

Role: behind ``hpcllm train ablate``. Every variant is trained on as many examples as the others,
and its loss is taken on the same examples, which no variant is trained on. A variant's folder holds
its data, its run and ``variant.json``, which is written last: what is there is not done again.
The answers to questions are scored by a function that is passed in; this module knows none.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
import math
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError, model_validator

from hpcllm.errors import ConfigError, TrainingError
from hpcllm.training.dataset import read_examples
from hpcllm.training.fewer_passages import with_passages
from hpcllm.training.recipe import Table, load_recipe
from hpcllm.training.recording import write_json
from hpcllm.training.selection import choose
from hpcllm.workspace import problems_of, read_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hpcllm.models.catalog import ModelEntry
    from hpcllm.training.recipe import ResolvedRecipe

    Example = dict[str, Any]
    Progress = Callable[[int, int | None], None]

logger = logging.getLogger(__name__)

DATA_FILE = "data.jsonl"
HELD_OUT_FILE = "held-out.jsonl"
RUN_FOLDER = "run"
VARIANT_FILE = "variant.json"


class Variant(Table):
    """One change: a row ``[[variant]]``. The first one is what the others are compared with."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    """Names the folder and the row of the table."""
    question: str = ""
    """What the variant is to tell."""
    drop: tuple[str, ...] = ()
    """Kinds of examples to leave out; ``*`` stands for any letters, as in ``hand_*``."""
    keep: tuple[str, ...] = ("*",)
    """Kinds of examples to train on, before ``drop``."""
    passages: int = Field(0, ge=0)
    """Most passages in a prompt, in training and in answers; 0 leaves the data's number."""
    set: tuple[str, ...] = ()
    """``table.key=value`` in place of the recipe's, after those of the file."""


class Ablation(Table):
    """A file of variants."""

    examples: int = Field(0, ge=0)
    """Examples that each variant is trained on; 0 takes as many as the smallest one has."""
    held_out: int = Field(120, ge=1)
    """Examples that none is trained on, for the loss."""
    set: tuple[str, ...] = ()
    """``table.key=value`` in place of the recipe's, for all variants."""
    variant: tuple[Variant, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _ids_differ(self) -> Ablation:
        ids = [variant.id for variant in self.variant]
        if doubled := sorted({name for name in ids if ids.count(name) > 1}):
            raise ValueError(f"ids of variants must differ, {', '.join(doubled)} is there twice")
        return self

    def named(self, id: str) -> Variant:
        """Return a variant.

        Raises:
            TrainingError: there is none of that name.
        """
        for variant in self.variant:
            if variant.id == id:
                return variant
        known = ", ".join(variant.id for variant in self.variant)
        raise TrainingError(f"there is no variant {id!r}. Variants: {known}")


@dataclass(frozen=True, slots=True)
class Setting:
    """What all variants share.

    Attributes:
        ablation: the file of variants.
        recipe: path of the recipe.
        entry: catalog entry of the base.
        data: data file.
        models_dir: folder of models.
        folder: where the variants' folders are made.
        threads: threads where the recipe leaves them open.
    """

    ablation: Ablation
    recipe: Path
    entry: ModelEntry
    data: Path
    models_dir: Path
    folder: Path
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Scoring:
    """How the answers of a variant are scored.

    Attributes:
        key: names what is asked and how; results of another key are not reused.
        score: takes a variant and the folder of its adapter; returns figures by name.
    """

    key: str
    score: Callable[[Variant, Path], Mapping[str, Any]]


def load_ablation(path: Path) -> Ablation:
    """Read a file of variants.

    Raises:
        ConfigError: it cannot be read, or keys or values are wrong; all are listed.
    """
    try:
        return Ablation.model_validate(read_toml(path))
    except ValidationError as exc:
        raise ConfigError(
            f"{path} has {exc.error_count()} problem(s):", list(problems_of(exc, Ablation))
        ) from exc


def resolve(setting: Setting, variant: Variant) -> ResolvedRecipe:
    """Return the recipe of a variant; the examples are chosen here, so it takes all it is given.

    Raises:
        ConfigError: keys or values of the recipe or the variant are wrong.
    """
    return load_recipe(setting.recipe, [*setting.ablation.set, *variant.set, "data.limit=0"])


def _divided(setting: Setting) -> tuple[list[Example], dict[str, list[Example]]]:
    shares = {
        variant.id: resolve(setting, variant).recipe.data.hand_share
        for variant in setting.ablation.variant
    }
    return divide(setting.ablation, read_examples(setting.data), shares)


def check(setting: Setting) -> None:
    """Refuse what would fail in the middle: wrong settings, kinds that are not in the data.

    Raises:
        ConfigError: a setting is wrong.
        TrainingError: the data has no example of a kind, or none is left.
    """
    for variant in setting.ablation.variant:
        recipe = resolve(setting, variant).recipe
        if recipe.base.model != setting.entry.id:
            raise ConfigError(
                f"variant {variant.id} sets base.model to {recipe.base.model}: all variants adapt "
                f"{setting.entry.id}; compare models with hpcllm eval run"
            )
    if any(change.startswith("data.limit") for change in _all_changes(setting.ablation)):
        raise ConfigError(
            "data.limit is not for variants, which all learn from as many examples: set examples "
            "in the file of variants"
        )
    _divided(setting)


def _all_changes(ablation: Ablation) -> list[str]:
    return [*ablation.set, *(change for variant in ablation.variant for change in variant.set)]


def divide(
    ablation: Ablation,
    rows: Sequence[Example],
    hand_shares: Mapping[str, float | None] | None = None,
) -> tuple[list[Example], dict[str, list[Example]]]:
    """Return the examples held out, and by variant those to train on.

    All variants take their examples in the same order, so that they share as many as they can.

    Args:
        ablation: the variants.
        rows: all examples.
        hand_shares: by variant the share of hand-written ones, as a recipe's ``data.hand_share``.

    Raises:
        TrainingError: a pattern fits no kind, or too few examples are left.
    """
    ordered = sorted(rows, key=lambda row: hashlib.sha256(str(row["id"]).encode()).hexdigest())
    held_out, rest = ordered[: ablation.held_out], ordered[ablation.held_out :]
    kinds = {str(row["kind"]) for row in rows}
    chosen = {}
    for variant in ablation.variant:
        wanted = _kinds(variant, kinds)
        chosen[variant.id] = [row for row in rest if row["kind"] in wanted]
    least = min(chosen, key=lambda id: len(chosen[id]))
    count = ablation.examples or len(chosen[least])
    if count < 2 or len(chosen[least]) < count:
        raise TrainingError(
            f"variant {least} has {len(chosen[least])} examples of its kinds, fewer than the "
            f"{max(2, count)} that all are to be trained on: lower examples or held_out, or drop "
            "fewer kinds"
        )
    shares = hand_shares or {}
    return held_out, {id: _exactly(count, found, shares.get(id)) for id, found in chosen.items()}


def _exactly(count: int, rows: list[Example], hand_share: float | None) -> list[Example]:
    """Return ``count`` examples, by share as far as there are so many, then whatever is left."""
    found = choose(rows, limit=count, hand_share=hand_share)
    taken = {row["id"] for row in found}
    return [*found, *(row for row in rows if row["id"] not in taken)][:count]


def _kinds(variant: Variant, known: set[str]) -> set[str]:
    for pattern in (*variant.drop, *variant.keep):
        if not fnmatch.filter(known, pattern):
            raise TrainingError(
                f"variant {variant.id}: no example is of kind {pattern!r}. Kinds of the data: "
                f"{', '.join(sorted(known))}"
            )
    kept = {kind for pattern in variant.keep for kind in fnmatch.filter(known, pattern)}
    return kept - {kind for pattern in variant.drop for kind in fnmatch.filter(known, pattern)}


def run_variant(
    setting: Setting,
    variant: Variant,
    scoring: Scoring | None = None,
    *,
    fresh: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train and score one variant, or go on with it; what is done already is not done again.

    Args:
        setting: what all variants share.
        variant: the variant.
        scoring: how its answers are scored; None leaves that out.
        fresh: start anew where its folder holds another recipe or data.
        progress: called with steps done since the last call, and all steps.

    Returns:
        What ``variant.json`` holds.

    Raises:
        TrainingError: the folder holds a variant of other data or settings, or training failed.
    """
    folder = setting.folder / variant.id
    data, held_out = _write_data(setting, variant, folder)
    resolved = resolve(setting, variant)
    mark = _fingerprint(resolved, data, held_out, scoring.key if scoring else "")
    note = folder / VARIANT_FILE
    earlier = _read(note)
    if earlier.get("fingerprint") == mark:
        return earlier
    report = _trained(setting, resolved, data, folder / RUN_FOLDER, fresh=fresh, progress=progress)
    adapter = folder / RUN_FOLDER / "adapter"
    result = {
        "id": variant.id,
        "question": variant.question,
        "changes": _changes(variant),
        "training": report,
        "held_out_loss": held_out_loss(setting, resolved, adapter, read_examples(held_out)),
        "score": dict(scoring.score(variant, adapter)) if scoring else {},
        "fingerprint": mark,
    }
    write_json(note, result)
    return result


def _write_data(setting: Setting, variant: Variant, folder: Path) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    held_out, chosen = _divided(setting)
    paths = folder / DATA_FILE, folder / HELD_OUT_FILE
    for path, rows in zip(paths, (chosen[variant.id], held_out), strict=True):
        shown = (with_passages(row, variant.passages) if variant.passages else row for row in rows)
        lines = (json.dumps(row, ensure_ascii=False, sort_keys=True) for row in shown)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def _fingerprint(resolved: ResolvedRecipe, data: Path, held_out: Path, key: str) -> str:
    parts = [resolved.sha256.encode(), data.read_bytes(), held_out.read_bytes(), key.encode()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _trained(
    setting: Setting,
    resolved: ResolvedRecipe,
    data: Path,
    folder: Path,
    *,
    fresh: bool,
    progress: Progress | None,
) -> dict[str, Any]:
    """Return the report of a variant's training, which is done unless it is there."""
    from hpcllm.models.files import sha256_of
    from hpcllm.training.run import CHECKPOINTS_FOLDER, RECIPE_FILE, REPORT_FILE, RunPaths, train

    held = _read(folder / RECIPE_FILE)
    same = (held.get("recipe_sha256"), held.get("data_sha256")) == (
        resolved.sha256,
        sha256_of(data),
    )
    if same and (report := _read(folder / REPORT_FILE)):
        return report
    if fresh:  # else a report of other settings would stand for a run that is killed now
        (folder / REPORT_FILE).unlink(missing_ok=True)
    paths = RunPaths(data, folder, setting.models_dir)
    done = train(resolved, setting.entry, paths, fresh=fresh, progress=progress).to_json()
    shutil.rmtree(folder / CHECKPOINTS_FOLDER, ignore_errors=True)  # the adapter is all that counts
    return done


def held_out_loss(
    setting: Setting, resolved: ResolvedRecipe, adapter: Path, rows: Sequence[Example]
) -> float:
    """Return the loss on examples that were not trained on, in nats a token of the answers."""
    from hpcllm.models.backends.transformers_backend import TorchOptions, load_torch
    from hpcllm.models.torch_weights import torch_folder
    from hpcllm.training.verification import answer_perplexity

    options = TorchOptions(
        adapter=adapter,
        four_bit=resolved.recipe.base.four_bit,
        threads=resolved.recipe.training.threads or setting.threads,
    )
    tokenizer, model = load_torch(
        torch_folder(setting.entry, setting.models_dir), setting.entry.id, options
    )
    return round(math.log(answer_perplexity(model, tokenizer, rows)), 5)


def _changes(variant: Variant) -> list[str]:
    changes = [f"without {', '.join(variant.drop)}"] if variant.drop else []
    if variant.keep != ("*",):
        changes.append(f"only {', '.join(variant.keep)}")
    if variant.passages:
        changes.append(f"{variant.passages} passages")
    return [*changes, *variant.set]


def finished(setting: Setting) -> list[dict[str, Any]]:
    """Return what the finished variants' files hold, in the order of the variants."""
    files = (setting.folder / variant.id / VARIANT_FILE for variant in setting.ablation.variant)
    return [found for file in files if (found := _read(file))]
