"""The table of an ablation, for people and for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Values = Sequence[float]
    Difference = Callable[[Values, Values], tuple[float, float, float]]
    """Takes values of one variant and of the first one; returns mean difference, low and high."""

COLUMNS = (
    ("draft_facts_all", "all facts, draft", 3),
    ("facts_all", "all facts, checked", 3),
    ("draft_facts_share", "facts, draft", 3),
    ("draft_words", "words, draft", 1),
    ("draft_refused_wrong", "answerable refused", 3),
    ("draft_refused_right", "unanswerable refused", 3),
)
"""Figures of a variant's score, their headings and decimals."""


def with_differences(
    results: Sequence[Mapping[str, Any]], difference: Difference
) -> list[dict[str, Any]]:
    """Return the results, each but the first with its difference from the first.

    Args:
        results: what the variants' files hold; the first one is the baseline.
        difference: of two variants' values over the same questions.
    """
    return [
        {**result, "difference": _compared(result, results[0], difference) if number else None}
        for number, result in enumerate(results)
    ]


def _compared(
    result: Mapping[str, Any], first: Mapping[str, Any], difference: Difference
) -> dict[str, float] | None:
    mine, theirs = _pair(result, first)
    if not mine:
        return None
    mean, low, high = difference(mine, theirs)
    return {"mean": round(mean, 4), "low": round(low, 4), "high": round(high, 4), "n": len(mine)}


def _pair(result: Mapping[str, Any], first: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    mine = result["score"].get("by_question", {})
    theirs = first["score"].get("by_question", {})
    shared = [id for id in mine if id in theirs]
    return [mine[id] for id in shared], [theirs[id] for id in shared]


def to_markdown(results: Sequence[Mapping[str, Any]], *, title: str) -> str:
    """Return the table in Markdown.

    Args:
        results: as :func:`with_differences` returns them.
        title: heading.
    """
    heads = ["variant", "what changed", "examples", "held-out loss", "minutes"]
    if any(result["score"] for result in results):
        heads += ["difference in all facts [95 %]", *(label for _, label, _ in COLUMNS)]
    lines = [f"# {title}", "", _line(heads), _line(["---"] * len(heads))]
    lines += [_line(_cells(result, len(heads))) for result in results]
    asked = [f"- **{r['id']}**: {r['question']}" for r in results if r["question"]]
    notes = [
        "Loss: nats a token of the right answers, on examples that no variant was trained on. A "
        "variant with other prompts or kinds reads other texts: compare its answers, not its loss. "
        "Draft: what the model wrote; checked: what users see.",
    ]
    return "\n".join([*lines, "", *asked, "", *notes]) + "\n"


def _cells(result: Mapping[str, Any], count: int) -> list[str]:
    training, score = result["training"], result["score"]
    cells = [
        result["id"],
        "; ".join(f"`{change}`" for change in result["changes"]) or "nothing",
        f"{training['examples']:,}",
        f"{result['held_out_loss']:.4f}",
        f"{training['seconds'] / 60:.1f}",
    ]
    if score:
        cells.append(_difference(result.get("difference")))
        cells += [_number(score.get(name), decimals) for name, _, decimals in COLUMNS]
    return cells + [""] * (count - len(cells))


def _difference(change: Mapping[str, float] | None) -> str:
    if not change:
        return ""
    return f"{change['mean']:+.3f} [{change['low']:+.3f}, {change['high']:+.3f}]"


def _number(value: float | None, decimals: int) -> str:
    return "" if value is None else f"{value:.{decimals}f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
