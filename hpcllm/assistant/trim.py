"""Cut a passage down to a number of tokens without tearing what belongs together.

Role: called by the prompt builder. A table keeps its header, an entry its terms, a fence both its
marks; rows, list items and lines of code stay whole. Deterministic; no model, no embedder.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcllm.assistant.language import subject_words
from hpcllm.assistant.units import list_items, split_sentences
from hpcllm.corpus.blocks import Block, fence_end, opens_fence, parse_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    CountTokens = Callable[[str], int]

GAP = "…"
"""Stands where text was left out before or after what is shown."""
_MARGIN_TOKENS = 8
"""Kept free for gaps and line breaks, which are not counted one by one."""


@dataclass(frozen=True, slots=True)
class Atom:
    """The smallest piece of a passage that may be shown alone.

    Attributes:
        block: ordinal of its block.
        text: its lines.
        before: lines that must stand before the first atom shown of a block, or empty.
        after: lines that must stand after the last one, or empty.
        joint: what stands between it and the atom before it in the same block.
    """

    block: int
    text: str
    before: str = ""
    after: str = ""
    joint: str = "\n"


def trim_passage(text: str, question: str, *, tokens: int, count_tokens: CountTokens) -> str:
    """Return the run of ``text`` that fits best to the question within ``tokens``.

    Args:
        text: canonical Markdown of a passage.
        question: decides around which part the run grows.
        tokens: most tokens of the result.
        count_tokens: length of a text in the model's tokens.

    Returns:
        ``text`` itself where it fits; else one contiguous run with ``…`` where text was left
        out; empty where not even the best atom fits.
    """
    if count_tokens(text) <= tokens:
        return text
    atoms = [atom for n, block in enumerate(parse_blocks(text)) for atom in _atoms(block, n)]
    costs = [count_tokens(atom.text) + 1 for atom in atoms]
    frames = [count_tokens(atom.before) + count_tokens(atom.after) for atom in atoms]
    first, last = _grow(atoms, _fit(atoms, question), costs, frames, tokens - _MARGIN_TOKENS)
    while first < last:
        shown = _join(atoms, first, last)
        if count_tokens(shown) <= tokens:
            return shown
        last -= 1
    return ""


def _atoms(block: Block, number: int) -> Iterator[Atom]:
    if block.kind == "fence":
        yield from _fence_atoms(block, number)
    elif block.kind == "table":
        header = "\n".join(block.lines[:2])
        yield from (Atom(number, row, before=header) for row in block.lines[2:])
    elif block.kind == "list":
        yield from (Atom(number, "\n".join(item).rstrip()) for item in list_items(block.lines))
    elif block.kind == "item":
        terms = block.text.split("\n")[: len(block.terms)]
        parts = _paragraphs(block.lines[len(block.terms) :])
        yield from (Atom(number, p, before="\n".join(terms), joint="\n\n") for p in parts)
    elif block.kind == "heading":
        yield Atom(number, block.text)
    else:
        sentences = split_sentences(" ".join(line.strip() for line in block.lines))
        yield from (Atom(number, sentence, joint=" ") for sentence in sentences)


def _fence_atoms(block: Block, number: int) -> Iterator[Atom]:
    opening = block.lines[0]
    mark = opening[: len(opening) - len(opening.lstrip())]
    bare = opening.strip()
    mark += bare[: len(bare) - len(bare.lstrip(bare[0]))]
    closed = len(block.lines) > 1 and block.lines[-1].strip() == mark.strip()
    inner = block.lines[1:-1] if closed else block.lines[1:]
    yield from (Atom(number, line, before=opening, after=mark) for line in inner)


def _paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Yield the paragraphs of an entry's body; a fence in it is one paragraph."""
    held: list[str] = []
    index = 0
    while index < len(lines):
        if opens_fence(lines[index]):
            end = fence_end(tuple(lines), index)
            held.extend(lines[index:end])
            index = end
            continue
        if lines[index].strip():
            held.append(lines[index])
        elif held:
            yield "\n".join(held)
            held = []
        index += 1
    if held:
        yield "\n".join(held)


def _fit(atoms: Sequence[Atom], question: str) -> list[float]:
    """Return for each atom the rarity of the question's words that it holds."""
    asked = subject_words(question)
    found = [asked & subject_words(f"{atom.before} {atom.text}") for atom in atoms]
    count = Counter(word for words in found for word in words)
    return [sum(math.log(1 + len(atoms) / count[word]) for word in words) for words in found]


def _grow(
    atoms: Sequence[Atom],
    fit: Sequence[float],
    costs: Sequence[int],
    frames: Sequence[int],
    tokens: int,
) -> tuple[int, int]:
    """Return the half-open range of atoms grown around the best one within ``tokens``.

    What introduces the best atom is tried first; then always the better fitting side, the
    following one when they are equal.
    """
    if not atoms:
        return 0, 0
    best = max(range(len(atoms)), key=lambda i: (fit[i], -i))
    first, last, spent = best, best + 1, costs[best] + frames[best]
    while True:
        sides = [side for side in (last, first - 1) if 0 <= side < len(atoms)]
        if first == best and best > 0 and last == best + 1:
            sides.reverse()
        else:
            sides.sort(key=lambda side: -fit[side])
        for side in sides:
            frame = (
                0
                if atoms[side].block in {atoms[first].block, atoms[last - 1].block}
                else frames[side]
            )
            if spent + costs[side] + frame <= tokens:
                spent += costs[side] + frame
                first, last = min(first, side), max(last, side + 1)
                break
        else:
            return first, last


def _join(atoms: Sequence[Atom], first: int, last: int) -> str:
    parts: list[str] = [GAP] if first else []
    index = first
    while index < last:
        end = index
        while end < last and atoms[end].block == atoms[index].block:
            end += 1
        run = atoms[index:end]
        body = run[0].text + "".join(atom.joint + atom.text for atom in run[1:])
        parts.append("\n".join(part for part in (run[0].before, body, run[0].after) if part))
        index = end
    if last < len(atoms):
        parts.append(GAP)
    return "\n\n".join(parts)
