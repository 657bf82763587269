"""Questions become passages.

Role: the reading side of the index: question -> vector and words -> two rankings -> one -> passages
with neighbours merged. Knows no models but the embedder, and writes nothing.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hpcllm.errors import StoreError
from hpcllm.index.embedders.base import question_vectors
from hpcllm.index.fusion import best_rows, fuse
from hpcllm.index.glossary import gloss
from hpcllm.index.manifest import REBUILD
from hpcllm.index.passages import Candidate, assemble
from hpcllm.index.tokenizer import tokenize

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from hpcllm.index.embedders.base import Embedder, Vectors
    from hpcllm.index.generation import Generation
    from hpcllm.records import Passage

    Rows = NDArray[np.int64]
    Values = NDArray[np.float32]
    Mask = NDArray[np.bool_]

CANDIDATES = 100
"""Rows taken from each ranking. With more of them a row that only one ranking puts first is less
often lost, for its score in the other is known; past this nothing was gained."""

DENSE_FETCH = 2
"""Times as many rows are fetched by vector as ranked, for factors reorder what comes back."""

OTHER_LANGUAGE_FACTOR = 0.9
"""What similarities of pages in another language than asked for are multiplied by."""


class Searcher:
    """Finds passages in one generation; thread-safe.

    Args:
        generation: an open generation; it stays open as long as the searcher is used.
        embedder: the embedder that the generation was built with.

    Attributes:
        generation: as given.

    Raises:
        StoreError: the embedder is another one than the generation was built with, or an index
            file is damaged.
    """

    def __init__(self, generation: Generation, embedder: Embedder) -> None:
        _check_embedder(generation, embedder)
        self.generation = generation
        self._embedder = embedder
        self._dense = generation.dense
        self._lexical = generation.lexical
        self._rows = generation.rows
        self._has_english = any(
            language.lower().startswith("en") for language in generation.manifest.languages
        )
        self._apart = self._rows_apart()
        self._factors: Values = np.ascontiguousarray(generation.rows["factor"])
        if getattr(embedder, "question_adapter", ""):
            # Inverted lists prepare for single vectors at the first call: now, not in a thread.
            self._dense.vectors(np.empty(0, dtype=np.int64))

    @property
    def scopes(self) -> tuple[str, ...]:
        """What there is besides documentation, such as ``tickets``, in order of names."""
        return tuple(sorted(self._apart))

    @cached_property
    def tickets(self) -> dict[tuple[str, str], str]:
        """The date of each ticket, or an empty text, by source and path."""
        return self.generation.store.tickets()

    def search(
        self,
        query: str,
        *,
        k: int = 8,
        cluster: str | None = None,
        language: str | None = None,
        words: int | None = None,
        scopes: Collection[str] = (),
    ) -> list[Passage]:
        """Return the passages that answer ``query`` best.

        Args:
            query: a question or keywords.
            k: most passages to return, at least 1.
            cluster: pages of other clusters are left out; pages of no cluster never are.
            language: code of the language to prefer; nothing is left out for its language.
            words: most words of all passages together; the first passage is returned in any case.
            scopes: what to search besides documentation, such as ``tickets``.

        Returns:
            Passages, best first; empty for an empty query.

        Raises:
            ValueError: ``k`` or ``words`` is below 1.
            ModelError: the embedder failed.
            StoreError: an index file is damaged.
        """
        return self.search_many(
            [query], k=k, cluster=cluster, language=language, words=words, scopes=scopes
        )[0]

    def search_many(
        self,
        queries: Sequence[str],
        *,
        k: int = 8,
        cluster: str | None = None,
        language: str | None = None,
        words: int | None = None,
        scopes: Collection[str] = (),
    ) -> list[list[Passage]]:
        """Return :meth:`search` of each query, in order; faster than one by one."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if words is not None and words < 1:
            raise ValueError(f"words must be at least 1, got {words}")
        asked = [query for query in queries if query.strip()]
        if not asked:
            return [[] for _ in queries]
        mask = self._scope(cluster, scopes)
        factors = self._weights(language)
        forms = [self._forms(query) for query in asked]
        found = iter(self._rank_all(forms, factors, mask, in_english=_is_english(language)))
        return [
            assemble(self.generation, next(found), k=k, words=words) if query.strip() else []
            for query in queries
        ]

    def _forms(self, query: str) -> list[str]:
        """Return the question and, for pages in English, its words in English."""
        glossed = gloss(query) if self._has_english else None
        return [query] if glossed is None else [query, glossed]

    def _rank_all(
        self,
        forms: Sequence[list[str]],
        factors: Values,
        mask: Mask | None,
        *,
        in_english: bool,
    ) -> list[list[Candidate]]:
        asked = [text for texts in forms for text in texts]
        if in_english:
            ranking, plain = question_vectors(self._embedder, asked)
        else:  # the adapter learnt from English questions and misleads in other languages
            ranking = plain = self._embedder.embed(asked)
        hits = self._dense.search(ranking, CANDIDATES * DENSE_FETCH, mask)
        ranked = []
        start = 0
        for texts in forms:
            rows = hits.rows[start : start + len(texts)].ravel()
            similarities = hits.similarities[start : start + len(texts)].ravel()
            best = _best_of_each(rows, similarities)
            tokens = [token for text in texts for token in tokenize(text)]
            found = self._rank(tokens, *best, factors, mask)
            if plain is not ranking:
                found = self._with_similarities(found, plain[start : start + len(texts)])
            ranked.append(found)
            start += len(texts)
        return ranked

    def _with_similarities(self, found: list[Candidate], plain: Vectors) -> list[Candidate]:
        """Return candidates with their best cosine to ``plain``; NaN where only words matched."""
        rows = np.array([c.row for c in found if not math.isnan(c.similarity)], dtype=np.int64)
        cosines = (self._dense.vectors(rows) @ plain.T).max(axis=1)  # (rows, forms) -> (rows,)
        by_row = dict(zip(rows.tolist(), cosines.tolist(), strict=True))
        return [Candidate(c.row, c.score, by_row.get(c.row, math.nan)) for c in found]

    def _rank(
        self,
        tokens: Sequence[str],
        rows: Rows,
        similarities: Values,
        factors: Values,
        mask: Mask | None,
    ) -> list[Candidate]:
        weighted = np.where(similarities > 0, similarities, 0) * factors[rows]
        order = np.argsort(-weighted, kind="stable")[:CANDIDATES]
        scores = self._lexical.scores(tokens) * factors
        if mask is not None:
            scores = np.where(mask, scores, 0)
        words = best_rows(scores, CANDIDATES)
        # What was found by meaning keeps its word score, however far down the words put it.
        words = np.concatenate([words, _beyond(words, rows[order], scores)])
        fused, values = fuse((rows[order], weighted[order]), (words, scores[words]))
        cosine = dict(zip(rows.tolist(), similarities.tolist(), strict=True))
        return [
            Candidate(row, value, cosine.get(row, math.nan))
            for row, value in zip(fused.tolist(), values.tolist(), strict=True)
        ]

    def _scope(self, cluster: str | None, scopes: Collection[str]) -> Mask | None:
        """Return True for rows in scope, or None where all are."""
        mask: Mask | None = None
        if cluster is not None:
            names = [name.casefold() for name in self.generation.manifest.clusters]
            wanted = names.index(cluster.casefold()) if cluster.casefold() in names else -1
            column = self._rows["cluster"]
            mask = (column == -1) | (column == wanted)
        for scope, rows in self._apart.items():
            if scope not in scopes:
                mask = ~rows if mask is None else mask & ~rows
        return None if mask is None or mask.all() else mask

    def _rows_apart(self) -> dict[str, Mask]:
        """Return by scope which rows only a search of that scope finds."""
        found = self.generation.store.documents_apart()
        column = self._rows["document"]
        return {scope: np.isin(column, numbers) for scope, numbers in found.items()}

    def _weights(self, language: str | None) -> Values:
        if language is None:
            return self._factors
        wanted = language.lower().partition("-")[0]
        names = self.generation.manifest.languages
        other = [i for i, name in enumerate(names) if name.lower().partition("-")[0] != wanted]
        if not other or len(other) == len(names):
            return self._factors
        weights = self._factors.copy()
        weights[np.isin(self._rows["language"], other)] *= OTHER_LANGUAGE_FACTOR
        return weights


def _is_english(language: str | None) -> bool:
    return language is None or language.lower().startswith("en")


def _best_of_each(rows: Rows, similarities: Values) -> tuple[Rows, Values]:
    """Return each row once with its highest similarity, best first; -1, no row, is left out."""
    order = np.argsort(-similarities, kind="stable")
    order = order[rows[order] >= 0]
    first = np.sort(np.unique(rows[order], return_index=True)[1])
    return rows[order][first], similarities[order][first]


def _beyond(words: Rows, others: Rows, scores: Values) -> Rows:
    """Return those of ``others`` that are not among ``words`` but share a word, best first."""
    rest = np.setdiff1d(others, words)
    rest = rest[scores[rest] > 0]
    return rest[np.argsort(-scores[rest], kind="stable")]


def _check_embedder(generation: Generation, embedder: Embedder) -> None:
    manifest = generation.manifest
    built = (manifest.embedder_id, manifest.embedder_sha256, manifest.dimension)
    given = (embedder.id, embedder.sha256, embedder.dimension)
    if built != given:
        raise StoreError(
            f"generation {generation.name} was built with embedder {_described(*built)}, but "
            f"{_described(*given)} is in use; choose the former in hpcllm.toml, or {REBUILD}"
        )


def _described(name: str, sha256: str, dimension: int) -> str:
    return f"{name!r} (SHA-256 {sha256[:12]}…, dimension {dimension})"
