"""The data sheet: what a data set holds, counted."""

from __future__ import annotations

from collections import Counter
from statistics import mean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def describe(rows: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Count a data set.

    Args:
        rows: lines of the data file.
        more: further entries, such as the file's hash.
    """
    words = [len(str(row["completion"]).split()) for row in rows]
    tokens = [int(row.get("prompt_tokens", 0)) for row in rows]
    refused = sum(str(row.get("kind", "")).startswith("refusal") for row in rows)
    return {
        **more,
        "examples": len(rows),
        "refusals": refused,
        "with_history": sum("Earlier in this conversation:" in _user(row) for row in rows),
        "with_code_block": sum("```" in str(row["completion"]) for row in rows),
        "answer_words": {"mean": round(mean(words), 1), "p95": _percentile(words, 0.95)},
        "prompt_tokens": {"mean": round(mean(tokens), 1), "p95": _percentile(tokens, 0.95)},
        "by_source": _counts(row.get("source", "") for row in rows),
        "by_kind": _counts(row.get("kind", "") for row in rows),
        "by_language": _counts(row.get("language", "") for row in rows),
    }


def to_markdown(sheet: Mapping[str, Any]) -> str:
    """Return a data sheet for people."""
    lines = ["# Data sheet", ""]
    lines += [f"- {k.replace('_', ' ')}: {_plain(v)}" for k, v in sheet.items() if not _big(v)]
    for name, counts in sheet.items():
        if _big(counts):
            lines += ["", f"## {name.replace('_', ' ')}", "", "| | examples |", "|---|---:|"]
            lines += [f"| {key} | {value:,} |" for key, value in counts.items()]
    return "\n".join([*lines, ""])


def _user(row: Mapping[str, Any]) -> str:
    return str(row["messages"][-1]["content"])


def _counts(values: Iterable[Any]) -> dict[str, int]:
    return dict(Counter(map(str, values)).most_common())


def _percentile(values: Sequence[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _big(value: Any) -> bool:
    return isinstance(value, dict) and not {"mean", "p95"} >= set(value)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
