"""Find chunks that say the same, so that one of them stands for all.

Role: copies of a page (another version of a manual, a mirror, a page listed twice) would fill a
result with one text. A copy is folded into the best of its kind and its address kept.

What counts as a copy, all of it required:

- the same cluster and language, another page, and the same title and headings but for case;
- the same text but for case and white space; or, for texts of at least
  :data:`NEAR_MINIMUM_WORDS`, nearly the same: vectors at a cosine of :data:`NEAR_COSINE` and the
  same *facts* in the same numbers. Facts are numbers, names, capitalised words, code, options,
  paths and words that turn a sentence round. Two pages that differ in a limit, a partition or a
  "not" are therefore never folded.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from hpcllm.corpus.minhash import bands
from hpcllm.index.tokenizer import SEPARATOR
from hpcllm.records import normalise_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hpcllm.index.embedders.base import Vectors
    from hpcllm.records import Chunk

STATUS_ORDER = {"current": 0, "outdated": 1, "decommissioned": 2, "generated": 3}
"""Which of several copies stands for the others: the lowest, then the first."""

NEAR_COSINE = 0.985
"""Least cosine of two near copies."""

NEAR_MINIMUM_WORDS = 20
"""Shorter texts are folded only when they are the same: too little of them is not a fact."""

CROWD = 50
"""Members of a band past which it is boilerplate, not copies, and is not compared pair by pair."""

TURNING_WORDS = frozenset(
    {"not", "no", "never", "none", "only", "without", "cannot", "must"}
    | {"não", "nunca", "nem", "só", "sem"}
)
"""Words that change a meaning as much as a number does."""

CODE = re.compile(r"^(```+|~~~+).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)
EDGES = re.compile(r"^\W+|\W+$")

Place: TypeAlias = tuple[str, str | None, str, str, tuple[str, ...]]


def fold(
    chunks: Sequence[Chunk], vectors: Vectors, apart: Collection[str] = ()
) -> list[int | None]:
    """Return for each chunk the position of the chunk that stands for it, or None for itself.

    Args:
        chunks: all chunks.
        vectors: ``(len(chunks), dimension)`` float32, unit rows.
        apart: sources whose chunks stand for none of another source, and none for them: searches
            do not find them.

    Returns:
        Positions; one that stands for others stands for itself too.
    """
    folded: list[int | None] = [None] * len(chunks)
    order = sorted(range(len(chunks)), key=lambda i: (STATUS_ORDER[chunks[i].status], i))
    places = [_place(chunk, apart) for chunk in chunks]
    _fold_exact(chunks, places, order, folded)
    _fold_near(chunks, places, [i for i in order if folded[i] is None], vectors, folded)
    _resolve(folded)
    return folded


def _place(chunk: Chunk, apart: Collection[str]) -> Place:
    scope = chunk.source if chunk.source in apart else ""
    headings = tuple(heading.casefold() for heading in chunk.headings)
    return scope, chunk.cluster, chunk.language, chunk.title.casefold(), headings


def _other_page(one: Chunk, other: Chunk) -> bool:
    return (one.source, one.path) != (other.source, other.path)


def _fold_exact(
    chunks: Sequence[Chunk], places: list[Place], order: list[int], folded: list[int | None]
) -> None:
    first: dict[tuple[Place, str], int] = {}
    for i in order:
        kept = first.setdefault((places[i], normalise_text(chunks[i].text).casefold()), i)
        if kept != i and _other_page(chunks[i], chunks[kept]):
            folded[i] = kept


def _fold_near(
    chunks: Sequence[Chunk],
    places: list[Place],
    order: list[int],
    vectors: Vectors,
    folded: list[int | None],
) -> None:
    facts: dict[int, Counter[str]] = {}
    for kept, copy in _candidates(chunks, places, order):
        if folded[copy] is not None or not _other_page(chunks[kept], chunks[copy]):
            continue
        if float(vectors[kept] @ vectors[copy]) < NEAR_COSINE:
            continue
        for i in (kept, copy):
            if i not in facts:
                facts[i] = facts_of(chunks[i].text)
        if facts[kept] == facts[copy]:
            folded[copy] = kept


def _resolve(folded: list[int | None]) -> None:
    """Replace chains of copies by their ends; a better chunk comes first, so chains do end."""
    for i, target in enumerate(folded):
        while target is not None and (further := folded[target]) is not None:
            target = further
        folded[i] = target


def _candidates(
    chunks: Sequence[Chunk], places: list[Place], order: list[int]
) -> Iterator[tuple[int, int]]:
    """Yield pairs (better, other) of the same place that share a band, each once."""
    by_place: defaultdict[Place, list[int]] = defaultdict(list)
    for i in order:
        by_place[places[i]].append(i)
    seen: set[tuple[int, int]] = set()
    for members in by_place.values():
        if len(members) < 2:
            continue
        by_band: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
        for i in members:
            for band in enumerate(bands(chunks[i].text.casefold().split(), NEAR_MINIMUM_WORDS)):
                by_band[band].append(i)
        for group in by_band.values():
            if len(group) > CROWD:
                continue
            for pair in combinations(group, 2):
                if pair not in seen:
                    seen.add(pair)
                    yield pair


def facts_of(text: str) -> Counter[str]:
    """Return what two near copies must share, with how often it occurs.

    Example:
        >>> sorted(facts_of("Jobs run at most 72 hours; use `--time`, not the GUI."))
        ['--time', '72', 'GUI', 'Jobs', 'not']
    """
    facts: Counter[str] = Counter()
    for match in CODE.finditer(text):
        facts.update(word for word in match.group().strip("`~").split() if word)
    for raw in SEPARATOR.split(CODE.sub(" ", text)):
        word = raw.strip(".:{}#*_~=\\") if raw else ""
        plain = word.isalpha() and word.islower()
        if word and (not plain or word in TURNING_WORDS) and EDGES.sub("", word):
            facts[word] += 1
    return facts
