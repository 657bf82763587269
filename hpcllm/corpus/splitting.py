"""Cut one block that is too long for a chunk into pieces.

Role: the second half of :mod:`hpcllm.corpus.chunker`, which says what may be cut. What names a
piece (a header row, an entry's term, a fence's first line) is repeated where a chunk begins.

Over-long prose is the one case left to a library
(``langchain_text_splitters.RecursiveCharacterTextSplitter``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hpcllm.corpus.blocks import (
    DEFINITION,
    LIST_ITEM,
    NESTED_DEFINITION,
    Block,
    fence_end,
    opens_fence,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    CountTokens = Callable[[str], int]

FENCE_STRETCH = 2.0
"""A fence is cut (at blank lines, re-fenced) only past this many times the limit."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a block that can stand in a chunk.

    Attributes:
        body: text that belongs to this piece alone.
        block: the block it was cut from.
        prefix: text to repeat before it where it begins a chunk, empty for a block's first piece.
        suffix: text to add after it where it ends a chunk (a closing fence).
        joint: what stands between the piece before and this one within a chunk.
    """

    body: str
    block: Block
    prefix: str = ""
    suffix: str = ""
    joint: str = "\n\n"


def split_block(block: Block, count: CountTokens, limit: int) -> list[Piece]:
    """Cut one block into pieces of at most ``limit`` tokens, as far as it may be cut.

    The bodies of the pieces, joined by their joints, are the block's text again.
    """
    text = block.text
    if count(text) <= limit:
        return [Piece(text, block)]
    if block.kind == "fence":
        return _split_fence(block, count, limit)
    if block.kind == "table":
        return _split_table(block, count, limit)
    if block.kind == "item":
        return _split_item(block, count, limit)
    if block.kind == "list":
        return _split_list(block, count, limit)
    return _split_prose(text, block, limit=limit, count=count)


def _gather(parts: Iterable[str], count: CountTokens, limit: int, joint: str) -> Iterator[str]:
    """Join consecutive parts while the result stays within ``limit`` tokens."""
    held: list[str] = []
    tokens = 0
    for part in parts:
        size = count(part)
        if held and tokens + size > limit:
            yield joint.join(held)
            held, tokens = [], 0
        held.append(part)
        tokens += size
    if held:
        yield joint.join(held)


def _split_fence(block: Block, count: CountTokens, limit: int) -> list[Piece]:
    if count(block.text) <= limit * FENCE_STRETCH or len(block.lines) < 4:
        return [Piece(block.text, block)]
    opening = block.lines[0]
    is_closed = fence_end(block.lines, 0) == len(block.lines) and opens_fence(opening)
    closing = block.lines[-1] if is_closed and block.lines[-1].strip(" \t`~") == "" else ""
    inner = block.lines[1:-1] if closing else block.lines[1:]
    bodies = list(_gather(_paragraphs_of_code(inner, count, limit), count, limit, "\n"))
    mark = closing or re.match(r"[ \t]*[`~]+", opening).group(0)  # type: ignore[union-attr]
    pieces = []
    for index, body in enumerate(bodies):
        is_last = index == len(bodies) - 1
        pieces.append(
            Piece(
                (f"{opening}\n" if index == 0 else "") + body + (f"\n{mark}" if is_last else ""),
                block,
                prefix="" if index == 0 else f"{opening}\n",
                suffix="" if is_last else f"\n{mark}",
                joint="\n\n" if index == 0 else "\n",
            )
        )
    return pieces


def _paragraphs_of_code(lines: tuple[str, ...], count: CountTokens, limit: int) -> Iterator[str]:
    """Yield runs of code lines that end at blank lines, or single lines of an over-long run."""
    held: list[str] = []
    for line in lines:
        held.append(line)
        if not line.strip():
            yield from _bounded("\n".join(held), count, limit)
            held = []
    if held:
        yield from _bounded("\n".join(held), count, limit)


def _bounded(text: str, count: CountTokens, limit: int) -> list[str]:
    return [text] if count(text) <= limit else text.split("\n")


def _split_table(block: Block, count: CountTokens, limit: int) -> list[Piece]:
    header = "\n".join(block.lines[:2])
    room = max(limit - count(header), limit // 3)
    bodies = list(_gather(block.lines[2:], count, room, "\n")) or [""]
    return [
        Piece(
            f"{header}\n{body}" if index == 0 else body,
            block,
            prefix="" if index == 0 else f"{header}\n",
            joint="\n\n" if index == 0 else "\n",
        )
        for index, body in enumerate(bodies)
    ]


def _split_list(block: Block, count: CountTokens, limit: int) -> list[Piece]:
    items: list[list[str]] = []
    index = 0
    while index < len(block.lines):
        line = block.lines[index]
        end = fence_end(block.lines, index) if opens_fence(line) else index + 1
        if LIST_ITEM.match(line) or not items:
            items.append([])
        items[-1].extend(block.lines[index:end])
        index = end
    pieces: list[Piece] = []
    for body in _gather(("\n".join(item) for item in items), count, limit, "\n"):
        pieces += _begun(_split_nested(body, block, count=count, limit=limit), "\n")
    return _begun(pieces, "\n\n")


def _split_item(block: Block, count: CountTokens, limit: int) -> list[Piece]:
    """Cut an over-long entry at its inner blocks and repeat its terms on every piece."""
    lines = block.text.split("\n")
    terms = "\n".join(lines[: len(block.terms)])
    body = "\n".join(lines[len(block.terms) :])
    room = max(limit - count(terms), limit // 2)
    parts = _split_nested(body, block, count=count, limit=room)
    return [
        replace(
            piece,
            body=f"{terms}\n{piece.body}" if index == 0 else piece.body,
            prefix="" if index == 0 else f"{terms}\n: …\n\n{piece.prefix}",
        )
        for index, piece in enumerate(parts)
    ]


def _split_nested(body: str, block: Block, *, count: CountTokens, limit: int) -> list[Piece]:
    """Cut the body of a list item or entry at its blank lines; fences inside stay whole."""
    if count(body) <= limit:
        return [Piece(body, block)]
    pieces: list[Piece] = []
    for part in _gather(_paragraphs(body), count, limit, "\n\n"):
        if count(part) <= limit:
            pieces.append(Piece(part, block))
        elif not _has_fence(part):
            pieces += _split_prose(part, block, limit=limit, count=count)
        else:
            pieces += _split_around_fences(part, block, count=count, limit=limit)
    return pieces


def _split_around_fences(part: str, block: Block, *, count: CountTokens, limit: int) -> list[Piece]:
    """Cut a paragraph with a fence in it: the fence by its own rule, the rest as prose."""
    lines = part.split("\n")
    pieces: list[Piece] = []
    index = 0
    while index < len(lines):
        start = index
        if opens_fence(lines[index]):
            index = fence_end(lines, index)
            fence = Block("fence", tuple(lines[start:index]), block.line)
            cut = [replace(piece, block=block) for piece in _split_fence(fence, count, limit)]
        else:
            while index < len(lines) and not opens_fence(lines[index]):
                index += 1
            cut = _split_prose("\n".join(lines[start:index]), block, limit=limit, count=count)
        pieces += _begun(cut, "\n" if start else "\n\n")
    return pieces


def _has_fence(text: str) -> bool:
    return any(opens_fence(line) for line in text.split("\n"))


def _paragraphs(body: str) -> Iterator[str]:
    """Yield what stands between blank lines, blank lines inside fences kept."""
    lines = body.split("\n")
    held: list[str] = []
    index = 0
    while index < len(lines):
        end = fence_end(lines, index) if opens_fence(lines[index]) else index + 1
        if end == index + 1 and not lines[index].strip():
            if held:
                yield "\n".join(held)
            held = []
        else:
            held.extend(lines[index:end])
        index = end
    if held:
        yield "\n".join(held)


def _split_prose(text: str, block: Block, *, limit: int, count: CountTokens) -> list[Piece]:
    """Cut a paragraph at sentences; one inside an entry or list keeps its column and its term."""
    if count(text) <= limit:
        return [Piece(text, block)]
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    term, body = _inner_term(text)
    indent = body[: len(body) - len(body.lstrip(" \t"))]
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=max(limit - count(term), limit // 2),
        chunk_overlap=0,
        length_function=count,
        separators=["\n\n", "\n", ". ", "; ", ", ", " ", ""],
        keep_separator="end",
    )
    first, *rest = splitter.split_text(body)
    column = f"{indent}    " if term or DEFINITION.match(body) else indent
    again = f"{term}{indent}: …\n\n{column}" if term else column
    return [
        Piece(f"{term}{indent}{first}", block),
        *(Piece(part, block, prefix=again, joint=" ") for part in rest),
    ]


def _inner_term(text: str) -> tuple[str, str]:
    """Split an entry inside another one into its term lines, with a line end, and its text."""
    lines = text.split("\n")
    place = next((n for n, line in enumerate(lines) if NESTED_DEFINITION.match(line)), 0)
    term = "".join(f"{line}\n" for line in lines[:place])
    return term, "\n".join(lines[place:])


def _begun(pieces: list[Piece], joint: str) -> list[Piece]:
    """Return the pieces with ``joint`` before the first of them."""
    return [
        replace(piece, joint=joint) if index == 0 else piece for index, piece in enumerate(pieces)
    ]
