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
import zlib
from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hpcllm.index.tokenizer import SEPARATOR
from hpcllm.records import normalise_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from hpcllm.index.embedders.base import Vectors
    from hpcllm.records import Chunk

STATUS_ORDER = {"current": 0, "outdated": 1, "decommissioned": 2, "generated": 3}
"""Which of several copies stands for the others: the lowest, then the first."""

NEAR_COSINE = 0.985
"""Least cosine of two near copies."""

NEAR_MINIMUM_WORDS = 20
"""Shorter texts are folded only when they are the same: too little of them is not a fact."""

SHINGLE_WORDS = 4
"""Words of the overlapping runs that candidates are found by."""

BANDS, BAND_ROWS = 8, 4
"""Minhash bands: with these, texts that share 9 of 10 runs meet almost surely."""

CROWD = 50
"""Members of a band past which it is boilerplate, not copies, and is not compared pair by pair."""

TURNING_WORDS = frozenset(
    {"not", "no", "never", "none", "only", "without", "cannot", "must"}
    | {"não", "nunca", "nem", "só", "sem"}
)
"""Words that change a meaning as much as a number does."""

CODE = re.compile(r"^(```+|~~~+).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)
EDGES = re.compile(r"^\W+|\W+$")

Place: TypeAlias = tuple[str | None, str, str, tuple[str, ...]]


def fold(chunks: Sequence[Chunk], vectors: Vectors) -> list[int | None]:
    """Return for each chunk the position of the chunk that stands for it, or None for itself.

    Args:
        chunks: all chunks.
        vectors: ``(len(chunks), dimension)`` float32, unit rows.

    Returns:
        Positions; one that stands for others stands for itself too.
    """
    folded: list[int | None] = [None] * len(chunks)
    order = sorted(range(len(chunks)), key=lambda i: (STATUS_ORDER[chunks[i].status], i))
    places = [_place(chunk) for chunk in chunks]
    _fold_exact(chunks, places, order, folded)
    _fold_near(chunks, places, [i for i in order if folded[i] is None], vectors, folded)
    _resolve(folded)
    return folded


def _place(chunk: Chunk) -> Place:
    headings = tuple(heading.casefold() for heading in chunk.headings)
    return chunk.cluster, chunk.language, chunk.title.casefold(), headings


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
        bands: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
        for i in members:
            for band in enumerate(_bands(chunks[i].text)):
                bands[band].append(i)
        for group in bands.values():
            if len(group) > CROWD:
                continue
            for pair in combinations(group, 2):
                if pair not in seen:
                    seen.add(pair)
                    yield pair


def _bands(text: str) -> Iterable[bytes]:
    """Return the minhash bands of ``text``, none where it is short."""
    words = text.casefold().split()
    if len(words) < NEAR_MINIMUM_WORDS:
        return ()
    hashes = np.array([zlib.crc32(w.encode("utf-8", "replace")) for w in words], dtype=np.uint64)
    runs = np.zeros(len(words) - SHINGLE_WORDS + 1, dtype=np.uint64)
    for offset in range(SHINGLE_WORDS):
        runs = runs * _RUN_FACTOR + hashes[offset : offset + len(runs)]
    smallest = ((runs[None, :] * _FACTORS + _OFFSETS) >> np.uint64(32)).min(axis=1)
    return [band.tobytes() for band in smallest.reshape(BANDS, BAND_ROWS)]


def _odd_numbers(seed: int, count: int) -> NDArray[np.uint64]:
    numbers = np.random.default_rng(seed).integers(0, 2**63, size=(count, 1), dtype=np.uint64)
    return numbers | np.uint64(1)


_RUN_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = _odd_numbers(1, BANDS * BAND_ROWS)
_OFFSETS = _odd_numbers(2, BANDS * BAND_ROWS)


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
