"""A Portuguese question in the English words of the documentation, word by word.

Role: lets pages in English answer questions in Portuguese, although the default embedding model
reads English alone. No translation for people to read: an embedding and a word search need the
right words, not grammar. Names, options, paths and numbers pass through unchanged.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from hpcllm.index.tokenizer import stem, without_accents

if TYPE_CHECKING:
    from collections.abc import Sequence

GLOSSARY_FILE = "glossary_pt.txt"

LONGEST_PHRASE = 5
"""Words of the longest phrase that is looked up."""

RECOGNISED_SHARE = 1 / 3
"""Share of a text's plain words that must be known to be Portuguese for it to be glossed."""

SHORTEST_STEMMED = 5
"""Letters from which a word may be looked up without accents or by its stem: below, too many
different words look the same (``nó``, ``no``)."""

_ALSO_ENGLISH_TEXT = """
a as do no me e o com se data site internet manual central software backup upload download login job
script thread password portal notebook cluster terminal console quota
"""
ALSO_ENGLISH = frozenset(_ALSO_ENGLISH_TEXT.split())
"""Entries that say nothing about the language of a text."""

WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
PLAIN_WORD = r"(?<![\w$/.#@=-])[^\W\d_]+(?:-[^\W\d_]+)*(?![\w/=@$]|\.\w)"
"""A word that stands by itself, not a part of an option, a path or a name."""
PIECE = re.compile(rf"{PLAIN_WORD}|[^\s,;!?()\"]+")


def gloss(text: str) -> str | None:
    """Return ``text`` with Portuguese words and phrases replaced, or None where it has few.

    Example:
        >>> gloss("Qual é o tempo máximo de um job na partição gpu?")
        'which is maximum time limit job in partition gpu'
    """
    words = PIECE.findall(text)
    if not _is_portuguese(words):
        return None
    glossed: list[str] = []
    place = 0
    while place < len(words):
        for length in range(min(LONGEST_PHRASE, len(words) - place), 0, -1):
            english = _look_up(tuple(words[place : place + length]))
            if english is not None:
                break
        glossed.append(words[place] if english is None else english)
        place += length
    return " ".join(filter(None, glossed))


def _is_portuguese(words: Sequence[str]) -> bool:
    plain = [word.lower() for word in words if WORD.fullmatch(word)]
    exact = _entries().exact
    known = sum((word,) in exact and word not in ALSO_ENGLISH for word in plain)
    return known > 0 and known >= RECOGNISED_SHARE * len(plain)


def _look_up(words: tuple[str, ...]) -> str | None:
    """Return the English of a word or phrase, as it stands, else without accents, else by stem."""
    entries = _entries()
    exact = tuple(word.lower() for word in words)
    if exact in entries.exact:
        return entries.exact[exact]
    if not all(WORD.fullmatch(word) for word in words):
        return None
    if max(map(len, words)) < SHORTEST_STEMMED:
        return None
    folded = tuple(map(without_accents, exact))
    return entries.folded.get(folded, entries.stemmed.get(_stems(exact)))


def _stems(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(stem(word, "pt") for word in words)


class _Entries(NamedTuple):
    """The English by words in lower case: as written, without accents, stemmed."""

    exact: dict[tuple[str, ...], str]
    folded: dict[tuple[str, ...], str]
    stemmed: dict[tuple[str, ...], str]


@lru_cache(maxsize=1)
def _entries() -> _Entries:
    text = resources.files("hpcllm.index").joinpath(GLOSSARY_FILE).read_text(encoding="utf-8")
    entries = _Entries({}, {}, {})
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        left, _, english = line.partition("=")
        for phrase in left.split(","):
            words = tuple(phrase.split())
            entries.exact.setdefault(words, english.strip())
            entries.folded.setdefault(tuple(map(without_accents, words)), english.strip())
            if max(map(len, words)) >= SHORTEST_STEMMED:
                entries.stemmed.setdefault(_stems(words), english.strip())
    return entries
