"""Ranked rows become passages: copies dropped, neighbours merged, addresses kept.

Role: the last step of a search. Reads chunks from the store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpcllm.records import Passage, normalise_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcllm.index.generation import Generation
    from hpcllm.records import Chunk

MERGE_WORDS = 220
"""Longest passage in words that neighbours are merged into. Higher gives fewer, longer passages."""

MERGE_RANKS = 2
"""A chunk is merged into its neighbour when both rank within this many times ``k``."""

EXPAND_WORDS = 90
"""A passage shorter than this takes in what follows or precedes it in its own section, found or
not: a command and the sentence that introduces it often stand in two chunks."""

EXPAND_REACH = 3
"""Most chunks looked at on either side for this."""

EXPAND_PASSAGES = 3
"""Passages from the first on that this is done for: further down, words spent on neighbours push
the next passages out of what is read."""

TABLE_HEAD = re.compile(r"^(\|[^\n]*\|[ \t]*\n\|[ \t:|-]+\|)[ \t]*(?:\n|$)")
"""Header row and delimiter row that a chunk begins with."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row that may become part of a passage.

    Attributes:
        row: row in the index.
        score: fused score.
        similarity: cosine to the question, NaN where only words matched.
    """

    row: int
    score: float
    similarity: float


@dataclass
class _Group:
    """A passage in the making: the chunk that led to it and what was merged into it.

    Attributes:
        lead: the best candidate of the group.
        chunks: its chunks by position in their document, without gaps.
        rows: their rows.
        words: words of all of them.
        urls: addresses of copies.
    """

    lead: Candidate
    chunks: dict[int, Chunk] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    words: int = 0
    urls: list[str] = field(default_factory=list)

    def add(self, row: int, chunk: Chunk) -> None:
        self.chunks[chunk.position] = chunk
        self.rows.append(row)
        self.words += len(chunk.text.split())

    def joins(self, chunk: Chunk) -> bool:
        """Whether ``chunk`` of the same document stands next to the group and there is room."""
        adjacent = chunk.position in (min(self.chunks) - 1, max(self.chunks) + 1)
        return adjacent and self.words + len(chunk.text.split()) <= MERGE_WORDS

    def takes(self, chunk: Chunk) -> bool:
        """Whether ``chunk`` continues the group within its section, a part or the whole of it."""
        other = next(iter(self.chunks.values()))
        same_page = (other.source, other.path) == (chunk.source, chunk.path)
        shared = min(len(other.headings), len(chunk.headings))
        within = other.headings[:shared] == chunk.headings[:shared]
        return same_page and within and self.joins(chunk)


def assemble(
    generation: Generation, candidates: Sequence[Candidate], *, k: int, words: int | None
) -> list[Passage]:
    """Return at most ``k`` passages of ``candidates``, which come best first.

    Args:
        generation: where the rows are from.
        candidates: rows, best first.
        k: most passages.
        words: most words of all passages together, the first one excepted; None for no limit.
    """
    considered = candidates[: max(k * MERGE_RANKS, k + 4)]
    rows = [candidate.row for candidate in considered]
    chunks = generation.store.chunks_at(rows)
    folded = generation.store.folded_into(rows)
    groups = _groups(considered, chunks, folded)[:k]
    _expand(generation, groups)
    passages: list[Passage] = []
    left = words
    for group in groups:
        if left is not None and passages and group.words > left:
            break
        passages.append(_passage(group, len(passages) + 1))
        left = None if left is None else left - group.words
    return passages


def _groups(
    candidates: Sequence[Candidate],
    chunks: dict[int, Chunk],
    folded: dict[int, list[Chunk]],
) -> list[_Group]:
    groups: list[_Group] = []
    by_document: dict[tuple[str, str], list[_Group]] = {}
    by_text: dict[tuple[str | None, str], _Group] = {}
    for candidate in candidates:
        chunk = chunks[candidate.row]
        urls = [copy.url for copy in folded.get(candidate.row, ()) if copy.url]
        text_key = (chunk.cluster, normalise_text(chunk.text).casefold())
        same = by_text.get(text_key)
        if same:
            same.urls += [chunk.url, *urls] if chunk.url else urls
            continue
        of_page = by_document.setdefault((chunk.source, chunk.path), [])
        group = next((group for group in of_page if group.joins(chunk)), None)
        if group is None:
            group = _Group(candidate)
            groups.append(group)
            of_page.append(group)
        group.add(candidate.row, chunk)
        group.urls += urls
        by_text[text_key] = group
    return groups


def _expand(generation: Generation, groups: Sequence[_Group]) -> None:
    """Lengthen the first groups, where short, by unused neighbours of their section.

    What follows comes before what precedes.
    """
    used = {row for group in groups for row in group.rows}
    first = groups[:EXPAND_PASSAGES]
    wanted = {
        row
        for group in first
        if group.words < EXPAND_WORDS
        for row in range(min(group.rows) - EXPAND_REACH, max(group.rows) + EXPAND_REACH + 1)
    }
    around = generation.store.chunks_at(wanted - used)
    for group in first:
        for step in (1, -1):
            while group.words < EXPAND_WORDS:
                row = (max(group.rows) if step > 0 else min(group.rows)) + step
                if row in used or row not in around or not group.takes(around[row]):
                    break
                group.add(row, around[row])
                used.add(row)


def _passage(group: _Group, rank: int) -> Passage:
    ordered = [group.chunks[position] for position in sorted(group.chunks)]
    first = ordered[0]
    url = first.url
    return Passage(
        rank=rank,
        score=group.lead.score,
        similarity=group.lead.similarity,
        source=first.source,
        path=first.path,
        title=first.title,
        url=url,
        headings=first.headings,
        text=join_texts([chunk.text for chunk in ordered]),
        chunk_ids=tuple(chunk.id for chunk in ordered),
        language=first.language,
        cluster=first.cluster,
        status=first.status,
        notice=first.notice,
        other_urls=tuple(dict.fromkeys(other for other in group.urls if other != url)),
    )


def join_texts(texts: Sequence[str]) -> str:
    """Join the texts of neighbouring chunks, a table header repeated by the cut left out."""
    joined: list[str] = []
    header = ""
    for text in texts:
        match = TABLE_HEAD.match(text)
        if joined and match and match[1] == header:
            joined[-1] = f"{joined[-1].rstrip()}\n{text[match.end() :]}"
        else:
            joined.append(text)
        header = _last_table_head(text) or (header if match else "")
    return "\n\n".join(joined)


def _last_table_head(text: str) -> str:
    """Return the header of the table that ``text`` ends with, or an empty string."""
    lines = text.rstrip().split("\n")
    start = len(lines)
    while start and lines[start - 1].startswith("|"):
        start -= 1
    match = TABLE_HEAD.match("\n".join(lines[start:]))
    return match[1] if match else ""
