"""Words of a text for lexical search.

Role: the same function cuts chunks and questions. What sets documentation of computing systems
apart is that an option, a path or a variable must be found both as it stands and by its parts:
``--gres=gpu:a100:2`` yields itself, ``--gres`` and ``gres gpu a100 2``. Ordinary words are
stemmed: those of a chunk in its own language, those of a question in every language that has a
stemmer, since a question in Portuguese may be answered by a page in English and the other way
round. Accents are dropped after stemming, because people leave them out.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from threading import local
from typing import Any

VERSION = 1
"""Enters the hash of a corpus; raise it when tokens change, so that indexes are rebuilt."""

MAX_TOKEN = 80
"""Longest token in characters that is kept whole; hashes and encoded data exceed it."""

LANGUAGES = ("en", "pt")
"""Languages with a stemmer; the first serves texts in any other."""

STOP_TEXT = """
a am an and any are as at be been but by can could did do does doing for from get had has have he
her him his how i if in into is it its me my of on or our please shall she should so some than that
the their them then there these they this those to too us was we were what when where which while
who why will with would you your

ao aos as com como da das de do dos e ela ele em entre era esse esta este eu foi isso isto já lhe
mais mas me meu minha na nas no nos nós o os ou para pela pelas pelo pelos por qual quais quando que
quem se sem ser seu sua são também tem ter um uma umas uns você vocês é à às

s t d ll ve re m don doesn didn isn aren wasn won can couldn
"""
STOP_WORDS = frozenset(STOP_TEXT.split())
"""Words that say nothing of the subject: English, Portuguese, remains of English contractions.
``not`` and ``não`` stay: they change an answer."""

SEPARATOR = re.compile(r"[\s\"'`´’‘“”«»()\[\]<>|,;!?…*]+")
"""What ends a token whatever stands around it; braces are dealt with before."""

VARIABLE = re.compile(r"\$\{(\w+)\}")
BRACES = re.compile(r"[{}]")
LEADING = re.compile(r"^[^\w$/~#%.@\-]+")
TRAILING = re.compile(r"[^\w/%$+#]+$")
PART = re.compile(r"[^\W_]+(?:\+\+|#(?!\w))?", re.UNICODE)
"""A part of a compound: letters and digits, with ``++`` or ``#`` for names of languages."""
CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
ASSIGNMENT = re.compile(r"([^=]*[^\W\d][^=]*)=.")
SHORT_OPTION = re.compile(r"-[A-Za-z]$")
NUMBER_WITH_UNIT = re.compile(r"(\d+)([a-z]+)$")
PLURAL_ACRONYM = re.compile(r"[A-Z]{2,}s$|(?:gpu|cpu|tpu|vm|ssd|hdd|pdf|id|url)s$")


def tokenize(text: str, language: str | None = None) -> list[str]:
    """Return the lexical tokens of ``text``, in order, repetitions kept.

    Args:
        text: any text; Markdown's own marks are ignored.
        language: code such as ``en`` or ``pt-BR`` whose stemmer is used (English where there is
            none for it), or None to add the stems of all languages where they differ.

    Example:
        >>> tokenize("Submit jobs with --mem=4G", "en")
        ['submit', 'job', '--mem=4g', '--mem', 'mem', '4g', '4', 'g']
    """
    languages = LANGUAGES if language is None else (_stemmer_language(language),)
    if "{" in text:
        text = BRACES.sub(" ", VARIABLE.sub(r"$\1", text))
    tokens: list[str] = []
    for raw in SEPARATOR.split(text):
        if raw:
            tokens.extend(_expand(raw, languages))
    return tokens


def stem(word: str, language: str) -> str:
    """Return the stem of one word, in lower case and without accents; stop words are stemmed too.

    Args:
        word: letters, perhaps joined by hyphens.
        language: one of :data:`LANGUAGES`.
    """
    return without_accents(_stemmers()[language].stemWord(word.lower()))


def _stemmer_language(language: str) -> str:
    code = language.lower().partition("-")[0]
    return code if code in LANGUAGES else LANGUAGES[0]


@lru_cache(maxsize=200_000)
def _expand(raw: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tokens of one run of characters between separators."""
    raw = TRAILING.sub("", LEADING.sub("", raw))
    if SHORT_OPTION.match(raw):
        return (raw,)  # -n and -N are different options
    if raw.isalpha() and not _is_camel(raw):
        return _word(raw, languages)
    parts = [part for match in PART.finditer(raw) for part in _split_part(match.group())]
    if not parts:
        return ()
    found: list[str] = []
    whole = raw.lower().rstrip("/")
    if len(whole) <= MAX_TOKEN and whole != parts[0].lower():
        found.append(without_accents(whole))
    assignment = ASSIGNMENT.match(whole)
    if assignment and assignment[1] != parts[0].lower():
        found.append(without_accents(assignment[1]))
    for part in parts:
        found.extend(_word(part, languages))
    return tuple(found)


def _is_camel(word: str) -> bool:
    mixed = word[1:] != word[1:].lower() and not word.isupper()
    return mixed and not PLURAL_ACRONYM.match(word)


def _split_part(part: str) -> list[str]:
    """Return ``MaxArraySize`` as itself and its words, ``80gb`` as itself, number and unit."""
    if len(part) > MAX_TOKEN:
        return []
    unit = NUMBER_WITH_UNIT.match(part.lower())
    if unit:
        return [part, unit[1], unit[2]]
    words = CAMEL.findall(part) if _is_camel(part) and part.isalpha() else []
    return [part, *words] if len(words) > 1 else [part]


def _word(word: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the stems of one word, those that languages agree on once."""
    lower = word.lower()
    if lower in STOP_WORDS:
        return ()
    if not lower.isalpha():
        return (without_accents(lower),)
    if PLURAL_ACRONYM.match(word):
        return (lower[:-1],)
    stemmers = _stemmers()
    return tuple(
        dict.fromkeys(without_accents(stemmers[code].stemWord(lower)) for code in languages)
    )


def without_accents(text: str) -> str:
    """Return ``text`` without accents."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


_thread = local()


def _stemmers() -> dict[str, Any]:
    """Return this thread's stemmers: a stemmer keeps state and must not be shared."""
    if not hasattr(_thread, "stemmers"):
        import Stemmer

        _thread.stemmers = {code: Stemmer.Stemmer(code) for code in LANGUAGES}
    stemmers: dict[str, Any] = _thread.stemmers
    return stemmers
