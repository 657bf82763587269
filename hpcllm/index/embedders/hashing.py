"""A dependency-free embedder: hashed bag of words.

Role: the fake for tests and the stand-in where no model file can be had. Texts that share words
are close, so retrieval behaves as with a model, only without synonyms.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hpcllm.index.embedders.base import normalise_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcllm.index.embedders.base import Progress, Vectors

WORD = re.compile(r"\w+|[^\w\s]")
"""A token: a run of letters and digits, or one other visible character."""

PROGRESS_EVERY = 64
"""Texts between two calls of ``progress``."""


class HashEmbedder:
    """Sums a signed unit vector for each word of a text.

    Args:
        dimension: length of a vector; more means fewer words that share a place.

    Attributes:
        id: ``hashing``, with the dimension where it is not the default.
        sha256: hash over the recipe, so that a change of it re-embeds.
        dimension: length of a vector.
    """

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension
        self.id = "hashing" if dimension == 256 else f"hashing-{dimension}"
        self.sha256 = hashlib.sha256(f"hashing:1:{dimension}".encode()).hexdigest()

    def embed(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return ``(len(texts), dimension)`` float32 unit rows, in the order given."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        pending = 0
        for row, text in enumerate(texts):
            for word in WORD.findall(text.lower()):
                if word.isalnum():
                    place, sign = _place(word)
                    vectors[row, place % self.dimension] += sign
            pending += 1
            if progress and (pending == PROGRESS_EVERY or row == len(texts) - 1):
                progress(pending)
                pending = 0
        return normalise_rows(vectors)

    def count_tokens(self, text: str) -> int:
        """Return the number of words and punctuation marks."""
        return len(WORD.findall(text))


@lru_cache(maxsize=100_000)
def _place(word: str) -> tuple[int, float]:
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    return number >> 1, 1.0 if number & 1 else -1.0
