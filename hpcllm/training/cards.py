"""The model card of an adapter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hpcllm.models.catalog import ModelEntry
    from hpcllm.training.recipe import ResolvedRecipe

LIMITS = """\
- It answers from the passages in its prompt and knows no centre by heart. Without passages, or with
  another prompt than the assistant's own, its answers are worth nothing.
- It learned from English and some Portuguese pages; other languages were not tried.
- A part of its examples was made by rules, whose wording is narrower than that of real users.
- Its drafts must pass the assistant's checks of citations, commands and numbers before they count.
"""


def model_card(
    resolved: ResolvedRecipe,
    entry: ModelEntry,
    report: Mapping[str, Any],
    losses: Sequence[Mapping[str, Any]],
    data: Path,
) -> str:
    """Return the card in Markdown.

    Args:
        resolved: the recipe.
        entry: the base.
        report: the run's report.
        losses: what was logged, by step.
        data: data file; its data sheet beside it is quoted where there is one.
    """
    recipe = resolved.recipe
    header = [
        "---",
        f"base_model: {entry.id}",
        f"license: {entry.licence.lower()}",
        "library_name: peft",
        "tags: [lora, hpc, retrieval-augmented-generation]",
        "---",
        "",
        f"# {recipe.adapter.id}",
        "",
        f"A LoRA adapter (rank {recipe.adapter.rank}, alpha {recipe.adapter.alpha}, "
        f"{recipe.adapter.targets}) that teaches {entry.id} the form of the assistant's answers: "
        "short, copied from the numbered passages, cited, and a plain refusal where they do not "
        "answer.",
        "",
        "## Training",
        "",
        f"- recipe: `{resolved.name}`: hpcllm train {resolved.name}",
        f"- data: {report['examples']:,} examples, SHA-256 `{report['data_sha256']}`; "
        f"{report['too_long']} longer than {recipe.data.max_tokens} tokens left out",
        f"- {report['steps']:,} steps of {recipe.training.batch * recipe.training.accumulate} "
        f"examples, learning rate {recipe.training.learning_rate:g}, seed {recipe.training.seed}",
        f"- loss {report['loss']:.4f} (mean of training), lowest evaluation loss "
        f"{report['evaluation_loss']}",
        f"- {report['seconds'] / 3600:.2f} hours, {report['tokens_per_second']:.0f} tokens a "
        f"second, peak memory {report['peak_memory_gb']} GB"
        + (f", GPU {report['peak_gpu_gb']} GB" if report["peak_gpu_gb"] else ""),
    ]
    return "\n".join([*header, *_curve(losses), *_data(data), "", "## Limits", "", LIMITS])


def _curve(losses: Sequence[Mapping[str, Any]]) -> list[str]:
    points = [entry for entry in losses if "eval_loss" in entry]
    if not points:
        return []
    rows = [f"| {point['step']} | {point['eval_loss']:.4f} |" for point in points]
    return ["", "| step | evaluation loss |", "|---:|---:|", *rows]


def _data(data: Path) -> list[str]:
    path = data.with_suffix(".datasheet.json")
    if not path.is_file():
        return []
    sheet = json.loads(path.read_text(encoding="utf-8"))
    sources = ", ".join(f"{name} {count:,}" for name, count in sheet["by_source"].items())
    return [
        "",
        "## Data",
        "",
        f"Examples by source: {sources}. {sheet['refusals']:,} of {sheet['examples']:,} teach "
        f"refusal. Answers have {sheet['answer_words']['mean']} words on average.",
    ]
