"""Choose questions: by split, by a list of ids, by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcllm.errors import EvaluationError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hpcllm.records import Question


def read_ids(path: Path) -> list[str]:
    """Read a list of question ids: one a line, ``#`` starts a comment.

    Raises:
        EvaluationError: the file cannot be read or names no id.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise EvaluationError(f"{path} cannot be read: {exc}; expected one id a line") from exc
    ids = [name for line in lines if (name := line.partition("#")[0].strip())]
    if not ids:
        raise EvaluationError(f"{path} names no question: expected one id a line")
    return ids


def select_questions(
    questions: Sequence[Question],
    *,
    split: str | None = None,
    ids: Sequence[str] | None = None,
    limit: int | None = None,
) -> list[Question]:
    """Return some of the questions, in their order.

    Args:
        questions: all.
        split: ``dev`` or ``test``; None takes both.
        ids: takes these only, in the order of ``questions``.
        limit: takes so many, evenly spread over the rest.

    Raises:
        EvaluationError: an id is unknown (the nearest is named), or nothing is left.
    """
    known = {question.id for question in questions}
    if unknown := [name for name in ids or () if name not in known]:
        raise EvaluationError(
            f"{len(unknown)} unknown question id(s), the first is {unknown[0]!r}"
            f"{nearest(unknown[0], known)}"
        )
    chosen = [
        question
        for question in questions
        if (not split or question.split == split) and (ids is None or question.id in set(ids))
    ]
    if not chosen:
        why = f" in split {split!r}: assign one with hpcllm eval questions split" if split else ""
        raise EvaluationError(f"no question is left{why}")
    if limit is None or limit >= len(chosen):
        return chosen
    return [chosen[i * len(chosen) // limit] for i in range(limit)]
