"""The one interface of all embedders, and what they share.

Role: between chunk or question text and vectors. An embedder knows nothing of chunks or indexes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Vectors: TypeAlias = NDArray[np.float32]
"""Rows of numbers, ``(n, dimension)`` float32."""

Progress: TypeAlias = "Callable[[int], None]"
"""Called with the number of texts finished since the last call."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors whose inner product is the cosine similarity.

    Attributes:
        id: name of the model, as recorded in an index's manifest.
        sha256: hash of the model's weights; vectors of another hash are never mixed with these.
        dimension: length of a vector.
    """

    @property
    def id(self) -> str:
        """Name of the model, as recorded in an index's manifest."""
        ...

    @property
    def sha256(self) -> str:
        """Hash of the model's weights; vectors of another hash are never mixed with these."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return one vector a text, in the order given.

        Args:
            texts: any number of texts, also none; what exceeds the model's window is cut.
            progress: called with the number of texts finished since the last call.

        Returns:
            ``(len(texts), dimension)`` float32, each row of length 1 (all zeros for a text in
            which the model sees nothing).

        Raises:
            ModelError: the model or its endpoint fails.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Return the length of ``text`` in the model's tokens, not cut, without special tokens."""
        ...


def embed_query(embedder: Embedder, query: str) -> Vectors:
    """Return the vector of one question, ``(dimension,)`` float32."""
    vector: Vectors = embedder.embed([query])[0]
    return vector


def question_vectors(embedder: Embedder, questions: Sequence[str]) -> tuple[Vectors, Vectors]:
    """Return the vectors of questions to rank passages by, and those to state similarities with.

    An embedder whose ``question_adapter`` names one reads questions with ``embed_questions``, in
    another way than passages. That ranks better, but its cosines are on another scale: what is
    reported and what evidence is weighed with stays the cosine of :meth:`Embedder.embed`.

    Args:
        embedder: any embedder; one without these two attributes reads questions as passages.
        questions: any number of questions.

    Returns:
        Two arrays ``(len(questions), dimension)`` float32, unit rows; the same object twice where
        the embedder has no reading of its own for questions.

    Raises:
        ModelError: the model or its endpoint fails.
    """
    plain = embedder.embed(questions)
    if not getattr(embedder, "question_adapter", ""):
        return plain, plain
    own: Callable[[Sequence[str]], Vectors] = getattr(embedder, "embed_questions")  # noqa: B009
    return own(questions), plain


def normalise_rows(vectors: Vectors) -> Vectors:
    """Return ``vectors`` with each row scaled to length 1; rows of zeros stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32, copy=False)
    return scaled


def length_order(lengths: Sequence[int]) -> list[int]:
    """Return positions ordered longest first.

    Equal lengths share a batch without padding; the longest batch comes first so that a model
    that does not fit in memory fails at once, not after an hour.
    """
    return sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True)
