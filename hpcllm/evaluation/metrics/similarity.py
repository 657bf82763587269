"""Similarity to the gold answer, for comparison with the literature.

Both measures reward wording, not truth: "at most 10 hours" and "at most 100 hours" are close.
They are reported beside the facts to show how little they separate, and decide nothing.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

import numpy as np

from hpcllm.evaluation.metrics.markdown import without_marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcllm.index.embedders.base import Embedder

_WORD = re.compile(r"[^\W_]+")


def rouge_words(text: str) -> list[str]:
    """Return the words that ROUGE compares: runs of letters and digits of any script, lower case.

    On plain ASCII these are the words of the usual implementation without stemming; letters with
    accents stay part of their word, in composed form.
    """
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def rouge_l(gold: str, text: str) -> float:
    """Return the ROUGE-L F measure of an answer (Lin 2004, https://aclanthology.org/W04-1013).

    Bounds: 0 (no word in common) to 1 (the same words in the same order); precision and recall of
    the longest common subsequence weigh the same. Citation marks are left out. Comparable with
    published values only in the same language and with the same tokens.
    """
    wanted, given = rouge_words(gold), rouge_words(without_marks(text))
    common = longest_common_subsequence(wanted, given)
    if not common:
        return 0.0
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, in O(len(first) x len(second))."""
    row = [0] * (len(second) + 1)
    for item in first:
        diagonal = 0
        for column, other in enumerate(second, 1):
            above = row[column]
            row[column] = diagonal + 1 if item == other else max(above, row[column - 1])
            diagonal = above
    return row[-1]


def embedding_similarities(
    golds: Sequence[str], texts: Sequence[str], embedder: Embedder
) -> list[float]:
    """Return the cosine of each answer to its gold answer, in [-1, 1].

    Args:
        golds: gold answers.
        texts: answers, in the same order; marks are left out, an empty answer gets 0.
        embedder: whose vectors are compared; values of different embedders are not comparable.
    """
    bare = [without_marks(text) for text in texts]
    wanted, given = embedder.embed(list(golds)), embedder.embed(bare)
    return [float(value) for value in np.sum(wanted * given, axis=1)]
