"""Decide whether the passages found are evidence enough to answer from.

Role: the step between retrieval and generation. A logistic score over three features of question
and passages; its weights were fitted on development questions and are few on purpose. It tells
questions on foreign subjects apart well and near misses (the subject is treated, the detail is
not) hardly: those are left to the model, which reads the passages. docs/experiments.md has the
figures.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcllm.assistant.language import STOP_WORDS, subject_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcllm.records import Passage

MINIMUM_EVIDENCE = 0.30
"""Score below which the assistant abstains unless a site sets another."""


SHORTEST, LONGEST = 8, 30
"""Lengths in lexical tokens that a question counts with at least and at most."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Logistic weights: score = 1 / (1 + exp(-(intercept + sum of weight x feature))).

    Similarity and coverage are multiplied by the logarithm of the question's length: that many
    words fit means more than that few do.

    Attributes:
        intercept: constant.
        similarity: of length x the best cosine of a passage to the question.
        coverage: of length x the largest share of the question's subject words in one passage.
        strangers: of the number of names in the question that no passage holds, at most 2.
    """

    intercept: float = -3.75
    similarity: float = 2.3
    coverage: float = 0.75
    strangers: float = -0.4


DEFAULT_WEIGHTS = Weights()


@dataclass(frozen=True, slots=True)
class Evidence:
    """How well the passages support an answer.

    Attributes:
        score: 0 to 1, higher is better.
        enough: whether the score reaches the minimum.
        why: one line for a person.
    """

    score: float
    enough: bool
    why: str


@dataclass(frozen=True, slots=True)
class Features:
    """What the score is computed from; see :class:`Weights`.

    ``words`` counts lexical tokens that may name a subject, the stems of every language.
    """

    words: int
    similarity: float
    coverage: float
    strangers: tuple[str, ...]


def assess(
    question: str,
    passages: Sequence[Passage],
    *,
    minimum: float = MINIMUM_EVIDENCE,
    weights: Weights = DEFAULT_WEIGHTS,
) -> Evidence:
    """Judge the passages found for a question.

    Args:
        question: self-contained question.
        passages: what retrieval gave, best first.
        minimum: score from which the evidence is enough; 0 accepts everything but no passages.
        weights: how features become a score.
    """
    if not passages:
        return Evidence(0.0, False, "nothing was found")
    found = features(question, passages)
    length = math.log(min(max(found.words, SHORTEST), LONGEST))
    total = (
        weights.intercept
        + weights.similarity * length * found.similarity
        + weights.coverage * length * found.coverage
        + weights.strangers * min(len(found.strangers), 2)
    )
    score = 1 / (1 + math.exp(-total))
    why = f"similarity {found.similarity:.2f}, {found.coverage:.0%} of the words"
    if found.strangers:
        why += f", not found anywhere: {', '.join(found.strangers[:3])}"
    return Evidence(score, score >= minimum, why)


def features(question: str, passages: Sequence[Passage]) -> Features:
    """Return the features of a question and its passages (at least one)."""
    held = [subject_words(f"{p.title} {' '.join(p.headings)} {p.text}") for p in passages]
    asked = subject_words(question)
    known = frozenset().union(*held)
    similarities = [p.similarity for p in passages if not math.isnan(p.similarity)]
    return Features(
        words=len(asked),
        similarity=max(similarities, default=0.0),
        coverage=max(len(asked & words) for words in held) / max(1, len(asked)),
        strangers=tuple(name for name in names_in(question) if not subject_words(name) & known),
    )


def names_in(question: str) -> list[str]:
    """Return what looks like names in a question: capitals inside, or after another word."""
    names: list[str] = []
    previous = "."
    for word in re.findall(r"[\w.+/-]*\w", question):
        inner = any(letter.isupper() for letter in word[1:])
        capital = word[0].isupper() and previous[-1] not in ".:!?"
        if (inner or capital) and word.lower() not in STOP_WORDS and subject_words(word):
            names.append(word)
        previous = word
    return list(dict.fromkeys(names))
