"""Pages that may contradict one another: the same sentence with other numbers.

Role: a hint for staff, computed once an index generation. Neighbouring passages of different pages
are compared sentence by sentence; what was folded as a copy is not among them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hpcllm.index.generation import Generation
    from hpcllm.records import Chunk

NEIGHBOURS = 6
"""Nearest passages that each is compared with."""
NEAR_COSINE = 0.7
"""Least cosine of two passages whose sentences are compared."""
SHARED_WORDS = 0.75
"""Least share of words that two sentences have in common, numbers aside."""
MINIMUM_WORDS = 5
LIMIT = 100
"""Most pairs that are reported."""
BATCH = 512

_CODE = re.compile(r"^(```+|~~~+).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+|(?<=\|)\s*(?=\|)")
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,:-]*(?:\s?(?:[KMGTP]i?B|%|h|s|min|days?|hours?|nodes?))?")
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two sentences that differ in their numbers alone.

    Attributes:
        first: passage of the first.
        second: passage of the second.
        first_sentence: as it stands.
        second_sentence: as it stands.
    """

    first: Chunk
    second: Chunk
    first_sentence: str
    second_sentence: str


def find_contradictions(generation: Generation, *, limit: int = LIMIT) -> list[Contradiction]:
    """Return pairs of current pages that may contradict one another, in the order of the index.

    Pages that are marked as out of date are left out: they may say what they like.
    """
    found: list[Contradiction] = []
    for left, right in _pairs(generation):
        conflict = _compare(left, right)
        if conflict:
            found.append(conflict)
            if len(found) >= limit:
                break
    return found


def _pairs(generation: Generation) -> Iterator[tuple[Chunk, Chunk]]:
    count = generation.manifest.vectors
    for start in range(0, count, BATCH):
        rows = np.arange(start, min(start + BATCH, count))
        hits = generation.dense.search(generation.dense.vectors(rows), NEIGHBOURS)
        near = [
            (int(row), int(other))
            for row, others, scores in zip(rows, hits.rows, hits.similarities, strict=True)
            for other, score in zip(others, scores, strict=True)
            if other > row and score >= NEAR_COSINE
        ]
        chunks = generation.store.chunks_at({row for pair in near for row in pair})
        for row, other in near:
            yield chunks[row], chunks[other]


def _compare(left: Chunk, right: Chunk) -> Contradiction | None:
    same_page = (left.source, left.path) == (right.source, right.path)
    current = left.status == right.status == "current"
    clusters = {left.cluster, right.cluster} - {None}
    if same_page or not current or len(clusters) > 1 or left.language != right.language:
        return None
    others = [(sentence, *_parts(sentence)) for sentence in _sentences(right.text)]
    for sentence in _sentences(left.text):
        words, numbers = _parts(sentence)
        for other, other_words, other_numbers in others:
            shared = len(words & other_words) / len(words | other_words)
            if shared >= SHARED_WORDS and numbers - other_numbers and other_numbers - numbers:
                return Contradiction(left, right, sentence, other)
    return None


def _sentences(text: str) -> Iterator[str]:
    """Yield sentences of prose and tables that hold numbers; examples differ without harm."""
    for sentence in _SENTENCE.split(_CODE.sub(" ", text)):
        words, numbers = _parts(sentence)
        if len(words) >= MINIMUM_WORDS and numbers:
            yield " ".join(sentence.split())


def _parts(sentence: str) -> tuple[frozenset[str], frozenset[str]]:
    numbers = frozenset(" ".join(n.split()).rstrip(".,:-") for n in _NUMBER.findall(sentence))
    rest = _NUMBER.sub(" ", sentence)
    return frozenset(word.lower() for word in _WORD.findall(rest)), numbers
