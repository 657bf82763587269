"""Hand-written questions become what a retriever learns from.

Role: first step of training the sentence encoder. For each question the chunks of its page that
hold the answer, and chunks that the index ranks high though they do not: those it must learn to put
further down.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcllm.index.text import embedding_text
from hpcllm.training.assembly import squash
from hpcllm.training.sections import clean_heading

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hpcllm.index.generation import Generation
    from hpcllm.index.search import Searcher
    from hpcllm.records import Chunk
    from hpcllm.training.handwritten import HandwrittenQuestion

NEGATIVES = 8
"""Most hard negatives kept for a question; each pass draws some of them."""

SEARCHED = 30
"""Passages that negatives are looked for in."""

HELD_OUT_EVERY = 10
"""One page in so many is kept apart, with all its questions, to tell when to stop."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A question, the texts that answer it and texts that only seem to.

    Attributes:
        id: id of the question.
        question: its words; of a follow-up with the questions before it.
        answer: the answer in the writer's words.
        source: source of the page.
        path: path of the page.
        language: ``en`` or ``pt``.
        positives: texts as they are embedded, best first, at least one.
        negatives: texts as they are embedded, those ranked highest first; none of them holds all
            facts of the answer.
    """

    id: str
    question: str
    answer: str
    source: str
    path: str
    language: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]

    @property
    def held_out(self) -> bool:
        """Whether the page belongs to the part kept apart."""
        digest = hashlib.sha256(f"{self.source}/{self.path}".encode()).digest()
        return int.from_bytes(digest[:4], "big") % HELD_OUT_EVERY == 0


def question_words(question: HandwrittenQuestion) -> str:
    """Return what is searched for: a follow-up stands with what the user asked before."""
    before = [turn.text for turn in question.history if turn.role == "user"]
    return "\n".join([*before, question.question])


def build_pairs(
    questions: Iterable[HandwrittenQuestion],
    searchers: Sequence[Searcher],
    *,
    negatives: int = NEGATIVES,
) -> tuple[list[Pair], Counter[str]]:
    """Resolve questions in the indexes that hold their pages.

    Args:
        questions: from :func:`hpcllm.training.handwritten.read_handwritten`.
        searchers: one per index; the first that holds a question's page is taken.
        negatives: most hard negatives of a question; 0 saves the searching.

    Returns:
        The pairs in the order of the questions, and how many questions were left out by reason.
    """
    pairs: list[Pair] = []
    left_out: Counter[str] = Counter()
    for question in questions:
        if not question.answer:
            left_out["has no answer"] += 1
            continue
        searcher = next((s for s in searchers if _page(s.generation, question)), None)
        if searcher is None:
            left_out["page is in no index"] += 1
            continue
        pair = _pair(question, searcher, negatives)
        if pair is None:
            left_out["no chunk holds the answer"] += 1
        else:
            pairs.append(pair)
    return pairs, left_out


def _page(generation: Generation, question: HandwrittenQuestion) -> list[Chunk]:
    return generation.store.chunks_of(question.source, question.path)


def _pair(question: HandwrittenQuestion, searcher: Searcher, negatives: int) -> Pair | None:
    page = _page(searcher.generation, question)
    positives = answering_chunks(page, question.heading, question.facts)
    if not positives:
        return None
    words = question_words(question)
    found = _negatives(words, question.facts, positives, searcher) if negatives else ()
    return Pair(
        id=question.id,
        question=words,
        answer=question.answer,
        source=question.source,
        path=question.path,
        language=question.language or "en",
        positives=tuple(embedding_text(chunk) for chunk in positives),
        negatives=found[:negatives],
    )


def answering_chunks(page: Sequence[Chunk], heading: str, facts: Sequence[str]) -> list[Chunk]:
    """Return the chunks of a page that answer: those with all facts, else those with the most.

    Chunks below ``heading`` go first; where none of them holds a fact the whole page is looked at.

    Args:
        page: chunks in reading order.
        heading: innermost heading above the answer, or empty.
        facts: strings of the page that the answer holds.
    """
    wanted = _plain(heading)
    below = [chunk for chunk in page if wanted in map(_plain, (chunk.title, *chunk.headings))]
    for chunks in (below, page):
        held = [(chunk, count_facts(chunk, facts)) for chunk in chunks]
        most = max((count for _, count in held), default=0)
        if most:
            return [chunk for chunk, count in held if count == most]
    return [] if facts else below[:1]


def count_facts(chunk: Chunk, facts: Sequence[str]) -> int:
    """Return how many of ``facts`` the chunk holds, a fact of word characters as a whole word."""
    text = f"{' '.join((chunk.title, *chunk.headings))} {chunk.text}"
    return sum(_holds(text, fact) for fact in facts)


def _holds(text: str, fact: str) -> bool:
    if re.fullmatch(r"[\w.]+", fact):
        return re.search(rf"(?<![\w.]){re.escape(fact)}(?!\w)", text, re.IGNORECASE) is not None
    return squash(fact) in squash(text)


def _plain(heading: str) -> str:
    return squash(clean_heading(heading))


def _negatives(
    words: str, facts: Sequence[str], positives: Sequence[Chunk], searcher: Searcher
) -> tuple[str, ...]:
    """Return texts found for the question that lack its facts and stand in another section."""
    sections = {(chunk.path, chunk.headings) for chunk in positives}
    answering = {embedding_text(chunk) for chunk in positives}
    found: list[str] = []
    for passage in searcher.search(words, k=SEARCHED):
        for chunk_id in passage.chunk_ids:
            chunk = searcher.generation.chunk(chunk_id)
            if chunk is None or (chunk.path, chunk.headings) in sections:
                continue
            text = embedding_text(chunk)
            if facts and count_facts(chunk, facts) == len(facts):
                continue
            if text not in answering and text not in found:
                found.append(text)
    return tuple(found)
