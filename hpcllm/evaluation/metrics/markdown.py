"""Parts of a Markdown answer that metrics look at: code, prose, citation marks."""

from __future__ import annotations

import re

_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_SPAN = re.compile(r"`([^`\n]+)`")
_MARK = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]")


def fenced_code(text: str) -> list[str]:
    """Return the content of each fenced block, in order; an unclosed fence runs to the end."""
    return [match.group(2) for match in _FENCE.finditer(text)]


def code_spans(text: str) -> list[str]:
    """Return the content of each inline code span outside fences, in order."""
    return _SPAN.findall(without_fences(text))


def without_fences(text: str) -> str:
    """Return ``text`` without its fenced blocks."""
    return _FENCE.sub("\n", text)


def prose(text: str) -> str:
    """Return ``text`` without fenced blocks, code spans and citation marks."""
    return without_marks(_SPAN.sub(" ", without_fences(text)))


def marks(text: str) -> list[int]:
    """Return the numbers of citation marks outside code, in order, repetitions included."""
    bare = _SPAN.sub(" ", without_fences(text))
    return [int(n) for match in _MARK.finditer(bare) for n in match.group(1).split(",")]


def without_marks(text: str) -> str:
    """Return ``text`` without citation marks, so that ``[2]`` never counts as the fact ``2``."""
    return _MARK.sub(" ", text)
