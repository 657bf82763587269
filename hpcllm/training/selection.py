"""Choose which examples of a data set a run learns from.

Role: between the data file and the trainer. Where time allows only part of the set, what people
wrote teaches more than what rules mined; the share of either is the recipe's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HAND_PREFIXES = ("hand_", "refusal_hand")
"""Starts of the kinds that were written by hand."""


def choose(
    rows: Sequence[dict[str, Any]], *, limit: int, hand_share: float | None
) -> list[dict[str, Any]]:
    """Return the examples to use, in the order of the file.

    Args:
        rows: all examples, with ``kind``, ``question`` and ``completion``.
        limit: most examples; 0 takes all.
        hand_share: share of them that is hand-written, as far as there are so many; each answer
            is taken once before a second wording of its question is. None takes the first rows.

    Returns:
        At most ``limit`` rows; the same arguments give the same rows.
    """
    if not limit or limit >= len(rows):
        return list(rows)
    if hand_share is None:
        return list(rows[:limit])
    by_hand = [n for n, row in enumerate(rows) if row["kind"].startswith(HAND_PREFIXES)]
    mined = [n for n, row in enumerate(rows) if not row["kind"].startswith(HAND_PREFIXES)]
    hand = _first_wordings_first(rows, by_hand)[: round(limit * hand_share)]
    chosen = [*hand, *mined[: limit - len(hand)]]
    return [rows[n] for n in sorted(chosen)]


def _first_wordings_first(rows: Sequence[dict[str, Any]], numbers: Iterable[int]) -> list[int]:
    """Return the numbers of rows with a new answer, then those of further wordings.

    Refusals share one answer and are told apart by their question.
    """
    first: list[int] = []
    further: list[int] = []
    seen: set[tuple[str, str]] = set()
    for number in numbers:
        row = rows[number]
        refusal = row["kind"].startswith("refusal")
        key = (row.get("path", ""), row["question"] if refusal else row["completion"])
        (further if key in seen else first).append(number)
        seen.add(key)
    return [*first, *further]
