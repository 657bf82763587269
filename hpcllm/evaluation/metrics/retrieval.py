"""Retrieval: did search bring what the answer needs?

Seen apart from the answer, so that a wrong answer can be blamed on search or on the model. The
facts measures look at the text that was found, not at the page's name: a fact is there or it is
not, whichever page states it, and passages of any length are comparable by words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcllm.evaluation.metrics.facts import facts_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcllm.records import Question


def hit(question: Question, pages: Sequence[str], k: int) -> float:
    """Return 1 where one of the first ``k`` passages is of a gold page, else 0.

    Args:
        question: an answerable question.
        pages: ``source/path`` of the passages found, best first.
        k: passages looked at.
    """
    return float(any(page in question.gold_pages for page in pages[:k]))


def reciprocal_rank(question: Question, pages: Sequence[str]) -> float:
    """Return 1 over the rank of the first passage of a gold page, 0 where there is none.

    Bounds: 0 to 1. Its mean is the MRR, over as many passages as the system retrieves.
    """
    return next((1 / rank for rank, p in enumerate(pages, 1) if p in question.gold_pages), 0.0)


def facts_in_first(question: Question, texts: Sequence[str], k: int) -> float:
    """Return the share of the gold facts that the first ``k`` passages hold together, 0 to 1."""
    return facts_share(question, "\n\n".join(texts[:k]))


def facts_in_words(question: Question, texts: Sequence[str], words: int) -> float:
    """Return the share of the gold facts in the first ``words`` words of the passages, 0 to 1.

    The budget of words makes systems with long and with short passages comparable: it is what a
    model has room to read.
    """
    shown: list[str] = []
    left = words
    for text in texts:
        shown.append(first_words(text, left))
        left -= len(text.split())
        if left <= 0:
            break
    return facts_share(question, "\n\n".join(shown))


def first_words(text: str, words: int) -> str:
    """Return ``text`` up to its first ``words`` words, its white space kept."""
    position = 0
    for _ in range(words):
        while position < len(text) and text[position].isspace():
            position += 1
        if position >= len(text):
            break
        while position < len(text) and not text[position].isspace():
            position += 1
    return text[:position]
