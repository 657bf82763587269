"""Which words of a chunk are embedded, and which are searched for.

Role: the one place that decides what stands for a chunk in either index.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from hpcllm.index.tokenizer import tokenize

if TYPE_CHECKING:
    from hpcllm.records import Chunk

VERSION = 1
"""Enters the hash of a corpus; raise it when these functions change."""

TITLE_REPEATS = 2
"""How often a page's title counts in word search. Higher prefers pages named like the question."""

HEADING_REPEATS = 2
"""How often each heading above a chunk counts in word search."""

LINK = re.compile(
    r"!?\[([^\]]*)\]\((?:<[^>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)"
)
"""A Markdown link or image; its address says little of its subject."""

RULE = re.compile(r"^\|?[ :|-]*-{3}[ :|-]*$\n?", re.MULTILINE)
"""The line between a table's header and its rows, or a rule."""

SPACES = re.compile(r"[ \t]{2,}")

HEADING = re.compile(r"#{1,6} +(.*?)(?: +\{#[^}\n]*\})? *(?:\n+|$)")
"""A heading with its anchor."""


def embedding_text(chunk: Chunk) -> str:
    """Return what is embedded for ``chunk``: title and heading path, then the text.

    The headings come first because the model reads a limited number of tokens and because a
    piece deep in a page often does not name its subject. What only lays the text out is dropped:
    it would take up tokens.
    """
    return f"{_place(chunk)}\n{_plain(_without_heading(chunk))}"


def _without_heading(chunk: Chunk) -> str:
    """Return the text without a first line that the heading path names already."""
    match = HEADING.match(chunk.text)
    if match and match[1] in (chunk.title, *chunk.headings[-1:]):
        return chunk.text[match.end() :]
    return chunk.text


def _plain(text: str) -> str:
    return SPACES.sub(" ", RULE.sub("", LINK.sub(_label, text)))


def _place(chunk: Chunk) -> str:
    names = [chunk.title, *chunk.headings]
    return ": ".join(name for i, name in enumerate(names) if name and name not in names[:i])


def _label(match: re.Match[str]) -> str:
    return match[1]


def vector_key(chunk: Chunk) -> bytes:
    """Return a hash of what is embedded: equal keys have equal vectors of one embedder."""
    return hashlib.sha256(embedding_text(chunk).encode("utf-8", "surrogatepass")).digest()[:16]


def lexical_tokens(chunk: Chunk) -> list[str]:
    """Return the tokens that ``chunk`` is found by: title, headings, keywords and text."""
    language = chunk.language
    tokens = tokenize(chunk.title, language) * TITLE_REPEATS
    for heading in chunk.headings:
        tokens += tokenize(heading, language) * HEADING_REPEATS
    return tokens + tokenize(chunk.keywords, language) + tokenize(chunk.text, language)
