"""The report on contamination as Markdown.

Role: ``what hpcllm eval contamination --json prints -> text``; knows nothing of how it was found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcllm.evaluation.contamination import EMBEDDING_HIT, GRAM_WORDS, PARAPHRASE_FROM
from hpcllm.evaluation.tables import Table, to_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TEXT_LIMIT = 160
"""Characters of a text that are shown."""
CANDIDATES = 50
"""Candidates for paraphrases that are shown, closest first."""


def contamination_markdown(data: Mapping[str, Any], questions: Mapping[str, str]) -> str:
    """Return the report.

    Args:
        data: as ``hpcllm eval contamination --json`` prints it.
        questions: text of the questions by id, to set beside what was found.
    """
    parts = [
        "# Training data and evaluation questions\n",
        _compared(data),
        f"**{_verdict(data['hits'])}**\n",
    ]
    if data["hits"]:
        parts.append(to_markdown(_pairs("Found", data["hits"], questions), heading=2))
    if data["candidates"]:
        shown = data["candidates"][:CANDIDATES]
        parts.append(to_markdown(_pairs("To look at", shown, questions), heading=2))
        if len(data["candidates"]) > len(shown):
            parts.append(f"{len(data['candidates']) - len(shown)} more are less close.\n")
    parts += _signs(data)
    return "\n".join(parts)


def _compared(data: Mapping[str, Any]) -> str:
    lines = [
        f"{data['examples']:,} texts that users say in the training data were compared with "
        f"{data['questions']:,} evaluation questions: by equal text, by shared sequences of "
        f"{GRAM_WORDS} words, and by the cosine of embeddings (found from {EMBEDDING_HIT:g}, to "
        f"look at from {PARAPHRASE_FROM:g}). Passages in prompts are documentation and do not "
        "count.",
        "",
    ]
    if data.get("limit"):
        lines += [f"Only {data['limit']:,} texts were taken, evenly spread.", ""]
    for file in data.get("training", ()):
        lines.append(f"- `{file['file']}`, {file['texts']:,} texts, SHA-256 `{file['sha256']}`")
    if data.get("questions_sha256"):
        lines.append(f"- questions, SHA-256 `{data['questions_sha256']}`")
    return "\n".join([*lines, ""])


def _verdict(hits: Sequence[Mapping[str, Any]]) -> str:
    if not hits:
        return "No question stands in the training data."
    kinds = sorted({hit["kind"] for hit in hits})
    counts = ", ".join(f"{sum(hit['kind'] == kind for hit in hits)} by {kind}" for kind in kinds)
    number = len({hit["question"] for hit in hits})
    return f"{number} {'question' if number == 1 else 'questions'} found: {counts}."


def _pairs(title: str, hits: Sequence[Mapping[str, Any]], questions: Mapping[str, str]) -> Table:
    rows = tuple(
        (
            hit["question"],
            hit["kind"],
            f"{hit['score']:.3f}",
            hit["training"],
            _cell(questions.get(hit["question"], "")),
            _cell(hit["text"]),
        )
        for hit in hits
    )
    columns = ("question", "by", "score", "place", "text of the question", "text of the training")
    return Table(title, columns, rows)


def _cell(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= TEXT_LIMIT else f"{flat[:TEXT_LIMIT]}…"


def _signs(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the model itself shows, where it was looked at."""
    if closed := data.get("closed_book"):
        right = closed["right"]
        yield "## Without passages\n"
        yield (
            f"{closed['system']} answers {right['estimate']:.1%} of {right['n']} answerable "
            f"questions right without any passage (95 % interval {right['low']:.1%} to "
            f"{right['high']:.1%}): {', '.join(closed['ids']) or 'none'}.\n"
        )
    if found := data.get("perplexity"):
        yield "## Perplexity against reworded twins\n"
        shown = ", ".join(f"{name} {_shown(value)}" for name, value in found.items())
        yield f"{shown}.\n"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name} {_shown(inner)}" for name, inner in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
