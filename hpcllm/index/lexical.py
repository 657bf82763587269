"""Word search: BM25 by ``bm25s``, over the tokens of :mod:`hpcllm.index.tokenizer`.

Role: rows by word overlap. bm25s computes every token's share of a chunk's score when the index is
built, so that a query only adds up numbers; the arrays are memory-mapped.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcllm.errors import StoreError
from hpcllm.index.manifest import REBUILD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Scores = NDArray[np.float32]

LEXICAL_FOLDER = "lexical"

SATURATION = 1.2
"""BM25's k1: how much a repeated word adds."""

LENGTH_PENALTY = 0.75
"""BM25's b: how much a long chunk is held back, 0 to 1."""


def _bm25s() -> Any:
    """Import bm25s and take back the DEBUG level that it sets on its own logger."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return bm25s


def write_lexical(path: Path, token_lists: Iterable[Sequence[str]]) -> None:
    """Write a word index over chunks given as their tokens, in the order of rows.

    Args:
        path: folder to create.
        token_lists: tokens of each chunk; a chunk without tokens is never found.

    Raises:
        OSError: the files cannot be written.
    """
    bm25s = _bm25s()
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(t, len(vocabulary)) for t in tokens] for tokens in token_lists]
    if not vocabulary:  # bm25s refuses an index without any word
        vocabulary[""] = 0
        ids = [[0] for _ in ids]
    index = bm25s.BM25(k1=SATURATION, b=LENGTH_PENALTY)
    index.index((ids, vocabulary), show_progress=False)
    index.save(str(path), show_progress=False)


class LexicalIndex:
    """Scores all chunks for the words of a question; read-only, thread-safe.

    Args:
        path: folder of the index.
        count: expected number of chunks.

    Raises:
        StoreError: files are missing or damaged.
    """

    def __init__(self, path: Path, *, count: int) -> None:
        bm25s = _bm25s()
        try:
            index: Any = bm25s.BM25.load(str(path), mmap=True, show_progress=False)
            scores = index.scores
            self._data = scores["data"]
            self._rows = scores["indices"]
            self._starts = np.asarray(scores["indptr"])
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise StoreError(f"index folder {path} is damaged ({exc}); {REBUILD}") from exc
        self._vocabulary: dict[str, int] = index.vocab_dict
        self.count = count
        if scores["num_docs"] != count:
            raise StoreError(
                f"index folder {path} holds {scores['num_docs']} chunks, expected {count}; "
                f"{REBUILD}"
            )

    def scores(self, tokens: Sequence[str]) -> Scores:
        """Return ``(count,)`` float32: the BM25 score of every row, 0 where no word occurs.

        Args:
            tokens: tokens of the question; a repeated one counts once, unknown ones not at all.
        """
        scores = np.zeros(self.count, dtype=np.float32)
        for token in dict.fromkeys(tokens):
            number = self._vocabulary.get(token)
            if number is not None:
                place = slice(self._starts[number], self._starts[number + 1])
                # A row stands at most once under a token, so plain indexed addition is right.
                scores[self._rows[place]] += self._data[place]
        return scores
