"""Find pages that say nearly the same and differ in a number: a limit, a quota, a version.

Role: a check over the chunks of all sources, for the build report. Of such a pair one page is
usually out of date, and an assistant that cites either cannot know which.

Compared are chunks of current pages about the same cluster. With all numbers masked they must be
nearly equal; reported is the first line that differs in numbers alone and says what the number is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from hpcllm.corpus.blocks import fence_end, opens_fence
from hpcllm.corpus.findings import Finding, shown
from hpcllm.corpus.minhash import bands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hpcllm.corpus.findings import Locator
    from hpcllm.records import Chunk

MINIMUM_WORDS = 12
"""Shorter texts say too little to be the same by more than chance."""

SIMILARITY = 0.75
"""Least share of lines that two chunks have in common once numbers are masked."""

CROWD = 30
"""Members of a minhash band past which it is boilerplate."""

NUMBER = re.compile(r"(?<![\w.])v?\d[\d.,:' ]*\d(?!\w)|(?<![\w.])v?\d(?!\w)|\d+(?=[A-Za-z%])")
MEANING = re.compile(
    r"(?i)\b(?:limit|quota|max(?:imum)?|min(?:imum)?|at most|at least|up to|default|version|release"
    r"|memory|cores?|cpus?|gpus?|nodes?|hours?|days?|weeks?|months?|minutes?|tasks?|jobs?|files?"
    r"|inodes?|capacity|size|cost|price|port|per user|per project|horas?|dias?|limite|cota|máximo"
    r"|memória|versão)\b|\d ?(?:[KMGTP]i?B|%|h\b|min\b|GHz)"
)
"""What makes a number worth comparing."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One line with numbers: as it is, masked, and where."""

    text: str
    masked: str
    numbers: tuple[str, ...]


def find_disagreements(
    chunks: Iterable[Chunk], locators: Mapping[str, Locator]
) -> Iterator[tuple[str, Finding]]:
    """Yield (source, finding) for pairs of pages that disagree, one a pair.

    Args:
        chunks: chunks of all sources.
        locators: by source, finds the lines of its files.
    """
    current = [chunk for chunk in chunks if chunk.status == "current"]
    lines = [_lines(chunk.text) for chunk in current]
    reported: set[tuple[str, str, str, str]] = set()
    for one, other in _candidates(current, lines):
        first, second = current[one], current[other]
        pair = (first.source, first.path, second.source, second.path)
        if pair in reported or not _may_be_compared(first, second):
            continue
        found = _difference(lines[one], lines[other])
        if found:
            reported.add(pair)
            yield first.source, _finding(first, second, *found, locators)


def _may_be_compared(one: Chunk, other: Chunk) -> bool:
    same_page = (one.source, one.path) == (other.source, other.path)
    scopes = {one.cluster, other.cluster}
    return not same_page and len(scopes) == 1 and one.language == other.language


def _lines(text: str) -> list[_Line]:
    """Return the lines of a chunk outside code, headings left out."""
    raw = text.split("\n")
    lines: list[_Line] = []
    index = 0
    while index < len(raw):
        if opens_fence(raw[index]):
            index = max(fence_end(raw, index), index + 1)
            continue
        plain = re.sub(r"^\s*(?:[-*+]|\d+[.)])\s+|\]\([^)]*\)", "", raw[index]).strip()
        if plain and not plain.startswith("#"):
            numbers = tuple(" ".join(found.split()) for found in NUMBER.findall(plain))
            masked = " ".join(NUMBER.sub("0", plain).casefold().split())
            lines.append(_Line(plain, masked, numbers))
        index += 1
    return lines


def _candidates(
    chunks: Sequence[Chunk], lines: Sequence[Sequence[_Line]]
) -> Iterator[tuple[int, int]]:
    by_band: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
    for index, of_chunk in enumerate(lines):
        if any(line.numbers for line in of_chunk):
            words = [word for line in of_chunk for word in line.masked.split()]
            for band in enumerate(bands(words, MINIMUM_WORDS)):
                by_band[band].append(index)
    seen: set[tuple[int, int]] = set()
    for members in by_band.values():
        if 1 < len(members) <= CROWD:
            for pair in combinations(members, 2):
                if pair not in seen and chunks[pair[0]].path != chunks[pair[1]].path:
                    seen.add(pair)
                    yield pair


def _difference(one: Sequence[_Line], other: Sequence[_Line]) -> tuple[_Line, _Line] | None:
    """Return the first two lines that differ in a number alone, if the chunks are alike."""
    masked = {line.masked: line for line in other}
    shared = [(line, masked[line.masked]) for line in one if line.masked in masked]
    if 2 * len(shared) < SIMILARITY * (len(one) + len(other)):
        return None
    known = {line.text for line in other}
    return next(
        (
            (line, twin)
            for line, twin in shared
            if line.numbers != twin.numbers and line.text not in known and MEANING.search(line.text)
        ),
        None,
    )


def _finding(
    one: Chunk, other: Chunk, line: _Line, twin: _Line, locators: Mapping[str, Locator]
) -> Finding:
    differing = [(a, b) for a, b in zip(line.numbers, twin.numbers, strict=False) if a != b]
    here, there = differing[0] if differing else (line.numbers[-1:], twin.numbers[-1:])
    place = f"{other.path}:{locators[other.source].line_of(other.path, twin.text)}"
    if other.source != one.source:
        place = f"{other.source}/{place}"
    return Finding(
        "disagreement",
        one.path,
        locators[one.source].line_of(one.path, line.text),
        f"{here} here and {there} there: {shown(line.text)}",
        place,
    )
