"""Cut an answer where Slack's limits make it necessary: between paragraphs, never inside a fence.

Role: pieces to the texts of section blocks, and those to messages. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcllm.ui.slack.render import Piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SECTION_CHARACTERS = 2900
"""Longest text of a section; Slack refuses more than 3000."""
MESSAGE_CHARACTERS = 8500
"""Longest text of a message in all; Slack refuses about 13 000 with the JSON around it."""
MESSAGE_SECTIONS = 40
"""Most sections of a message; Slack takes 50 blocks, and sources and buttons need some."""

_FENCE = "```"
_FENCE_CHARACTERS = 2 * len(_FENCE) + 2


def sections(pieces: Iterable[Piece], limit: int = SECTION_CHARACTERS) -> list[str]:
    """Join pieces to texts of at most ``limit`` characters, as few as possible.

    A piece that is longer is cut: prose at the end of a paragraph, line, sentence or word; code at
    the end of a line, each part in a fence of its own.
    """
    texts: list[str] = []
    for piece in pieces:
        for part in _parts(piece, limit):
            joint = "\n" if _FENCE in (part[:3], texts[-1][-3:] if texts else "") else "\n\n"
            if texts and len(texts[-1]) + len(joint) + len(part) <= limit:
                texts[-1] += joint + part
            else:
                texts.append(part)
    return texts


def messages(texts: Iterable[str]) -> list[list[str]]:
    """Group the texts of sections to messages, at least one."""
    grouped: list[list[str]] = [[]]
    for text in texts:
        held = sum(len(other) for other in grouped[-1])
        full = held + len(text) > MESSAGE_CHARACTERS or len(grouped[-1]) >= MESSAGE_SECTIONS
        if full and grouped[-1]:
            grouped.append([])
        grouped[-1].append(text)
    return grouped


def _parts(piece: Piece, limit: int) -> Iterator[str]:
    if piece.kind == "text":
        yield from _cut(piece.text, limit)
        return
    room = limit - _FENCE_CHARACTERS
    if len(piece.text) <= room:
        yield f"{_FENCE}\n{piece.text}\n{_FENCE}"
        return
    body = piece.text.removeprefix(piece.head)
    for part in _cut(body, room - len(piece.head), at=("\n",)):
        yield f"{_FENCE}\n{piece.head}{part}\n{_FENCE}"


def _cut(text: str, limit: int, at: tuple[str, ...] = ("\n\n", "\n", ". ", " ")) -> Iterator[str]:
    while len(text) > limit:
        end = _end(text, limit, at)
        yield text[:end].rstrip()
        text = text[end:].lstrip("\n") if "\n" in at[:1] else text[end:].lstrip()
    if text.strip():
        yield text


def _end(text: str, limit: int, at: tuple[str, ...]) -> int:
    for border in at:
        found = text.rfind(border, limit // 2, limit)
        if found > 0:
            return _outside_link(text, found + len(border))
    return _outside_link(text, limit)


def _outside_link(text: str, end: int) -> int:
    """Move a cut out of a link or an escaped character, to its begin."""
    opened = text.rfind("<", 0, end)
    if opened > 0 and text.rfind(">", opened, end) < 0:
        return opened
    escaped = text.rfind("&", max(0, end - 4), end)
    if escaped > 0 and ";" not in text[escaped:end]:
        return escaped
    return end
