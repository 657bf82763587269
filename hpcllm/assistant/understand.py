"""Understand a question before searching: its language, what it refers back to, its cluster.

Role: first step of the answer. By rules alone: no model, no index.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcllm.assistant.language import Language, detect_language, subject_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcllm.records import Turn

CARRIED_WORDS = 10
"""Most words that a follow-up takes over from earlier questions."""
SHORT_QUESTION = 3
"""A question with fewer words that name a subject leans on the one before."""

_REFERS_BACK = re.compile(
    r"\b(it|its|that|this|those|these|them|they|there|then|same|one|ones|instead|again|else|"
    r"former|latter|above|isso|isto|esse|essa|este|esta|ele|ela|eles|elas|dele|dela|lá|mesm[oa]|"
    r"então|outr[oa])\b",
    re.IGNORECASE,
)
_CONTINUES = re.compile(
    r"^\W*(and|but|or|so|also|what about|how about|what if|ok(ay)?|e|mas|ou|então|e se|quanto a)\b",
    re.IGNORECASE,
)
_SURFACE = re.compile(r"[^\s\"'`´’‘“”«»()\[\]<>|,;!?…*]+")


@dataclass(frozen=True, slots=True)
class Understanding:
    """What a question was understood to be.

    Attributes:
        standalone: the question, with words of earlier ones added where it leans on them.
        language: language to answer in.
        cluster: cluster whose pages are searched, or None for all.
        is_follow_up: whether words were added.
    """

    standalone: str
    language: Language
    cluster: str | None
    is_follow_up: bool


def understand(
    question: str,
    history: Sequence[Turn] = (),
    *,
    cluster: str | None = None,
    clusters: Sequence[str] = (),
    language: Language = "en",
) -> Understanding:
    """Make a question self-contained and find its language and cluster.

    Args:
        question: as asked.
        history: earlier turns, oldest first.
        cluster: cluster chosen by the user; a single other one named in the question wins.
        clusters: names of the known clusters.
        language: taken where the question's own is not clear.

    Returns:
        What to search for, and where.
    """
    earlier = [turn.text for turn in history if turn.role == "user"]
    spoken = detect_language(earlier[-1], language) if earlier else language
    added = _carried(question, earlier, clusters) if earlier else ()
    standalone = f"{question.rstrip()} ({' '.join(added)})" if added else question
    named = clusters_in(question, clusters) or clusters_in(" ".join(added), clusters)
    scope = named[0] if len(named) == 1 else (None if named else cluster)
    return Understanding(standalone, detect_language(question, spoken), scope, bool(added))


def clusters_in(text: str, clusters: Sequence[str]) -> list[str]:
    """Return the known clusters named in ``text``, in the order of ``clusters``."""
    return [name for name in clusters if _names(text, name)]


def _names(text: str, cluster: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(cluster)}(?!\w)", text, re.IGNORECASE))


def _carried(question: str, earlier: Sequence[str], clusters: Sequence[str]) -> tuple[str, ...]:
    """Return the words that ``question`` takes over, empty where it stands by itself."""
    own = subject_words(question)
    if not _leans_back(question, own):
        return ()
    swaps_cluster = bool(clusters_in(question, clusters))
    added: list[str] = []
    known = set(own)
    for text in reversed(earlier):
        for word in _salient(text):
            tokens = subject_words(word)
            if tokens <= known or (swaps_cluster and clusters_in(word, clusters)):
                continue
            known |= tokens
            added.append(word)
        if added and not _leans_back(text, subject_words(text)):
            break
    return tuple(added[:CARRIED_WORDS])


def _leans_back(question: str, own: frozenset[str]) -> bool:
    short = len(own) < SHORT_QUESTION
    continues = bool(_CONTINUES.search(question)) and len(question.split()) <= 12
    refers = bool(_REFERS_BACK.search(question)) and len(question.split()) <= 20
    return short or continues or refers


def _salient(text: str) -> list[str]:
    """Return the words of ``text`` that name its subject, as they are spelled, in order."""
    words = (word.rstrip(".:") for word in _SURFACE.findall(text))
    return [word for word in dict.fromkeys(words) if word and subject_words(word)]
