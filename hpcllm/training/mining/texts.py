"""What miners share: making short, self-contained statements from lines of documentation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.assistant.units import clean_inline, split_sentences
from hpcllm.training.records import Seed, Statement

if TYPE_CHECKING:
    from hpcllm.training.records import Section

STATEMENT_WORDS = 45
"""Longest statement in words; longer ones are not taken."""
CODE_LINES = 12
"""Longest code block that an answer repeats."""

_LEANS_BACK = re.compile(
    r"^(this|that|these|those|it|its|they|he|she|such|there|here|then|however|but|and|or|also|"
    r"otherwise|instead|thus|hence|therefore|for example|e\.g\.|in (?:this|that|such) case|in addition|"
    r"to (?:this|that) end|for this|in order to do so|note|see|"
    r"above|below|isto|isso|este|esta|esse|essa|ele|ela|mas|também|porém|assim|veja|ver|caso)\b",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"\b(see|refer to|the following|as follows|shown (?:above|below)|listed (?:above|below)|"
    r"described (?:above|below)|(?:above|below)[,.:]|click here|more information|"
    r"a seguir|abaixo|acima|veja)\b",
    re.IGNORECASE,
)
_LEANS_INSIDE = re.compile(
    r"\b(them|the (?:former|latter)|this (?:page|section|case)|these (?:steps|commands)|"
    r"desta página|desta seção)\b",
    re.IGNORECASE,
)
_ODD = re.compile(r"\{[{%]|:material-|\|\w+\||<!--|\[\^|</|\\\\|…$|\]\(|^\W*$|^[:!?>]{2,}")


def is_clean(text: str) -> bool:
    """Whether a statement can be shown as it is: no template rests, no half markup."""
    return not _ODD.search(text) and text.count("`") % 2 == 0 and text.count("(") == text.count(")")


def stands_alone(sentence: str) -> bool:
    """Whether a sentence makes sense without the one before it."""
    words = len(sentence.split())
    return (
        4 <= words <= STATEMENT_WORDS
        and is_clean(sentence)
        and not _LEANS_BACK.match(sentence)
        and not _LEANS_INSIDE.search(sentence)
        and not sentence.rstrip().endswith((":", "?"))
    )


def points_elsewhere(sentence: str) -> bool:
    """Whether a sentence only leads to something else."""
    return bool(_POINTS.search(sentence))


def first_sentences(text: str, words: int = 30) -> tuple[str, str]:
    """Return the first sentence, and a second one where both stay short.

    Args:
        text: prose of one paragraph in canonical Markdown.
        words: most words of both.

    Returns:
        What is shown, and the raw lines that it comes from; two empty texts where the first
        sentence is no use.
    """
    raw = split_sentences(" ".join(text.split()))
    if not raw:
        return "", ""
    shown = clean_inline(raw[0])
    if not is_clean(shown) or len(shown.split()) > STATEMENT_WORDS or shown.endswith((":", "?")):
        return "", ""
    quote = raw[0]
    if len(raw) > 1:
        second = clean_inline(raw[1])
        total = len(shown.split()) + len(second.split())
        if total <= words and is_clean(second) and not second.endswith(":"):
            return f"{shown} {second}", f"{raw[0]} {raw[1]}"
    return shown, quote


def with_stop(text: str) -> str:
    """Return a statement that ends like a sentence."""
    bare = text.strip().rstrip(";,")
    return bare if bare.endswith((".", "!", "?", "…")) else f"{bare}."


def lower_start(text: str) -> str:
    """Return a description so that it can stand inside a question."""
    first = text.split(" ", 1)[0]
    bare = text.rstrip(". ")
    return bare[:1].lower() + bare[1:] if first[1:].islower() or len(first) == 1 else bare


def seed(
    kind: str, section: Section, question: str, *statements: Statement, topic: str = ""
) -> Seed:
    """Return a seed of a section."""
    return Seed(
        kind=kind,
        source=section.source,
        path=section.path,
        question=" ".join(question.split(" ")).strip(),
        statements=statements,
        language=section.language,
        cluster=section.cluster,
        topic=topic or section.topic,
    )
