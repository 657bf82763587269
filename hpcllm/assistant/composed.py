"""A short answer of a model, followed by the lines of the pages that bear on the question.

Role: joins the two kinds of answer. A small model says in a line what is asked for, and leaves out
what it should not; the quoted lines stand below, for whoever needs more, and cannot be wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcllm.assistant.draft import Draft
    from hpcllm.assistant.extractive import Extract
    from hpcllm.assistant.language import Language
    from hpcllm.records import Citation, Passage

LEADS: dict[Language, str] = {"en": "From the pages:", "pt": "Das páginas:"}
"""Said between the answer and the lines."""
FEWEST_WORDS = 20
"""Room below which nothing is quoted."""


def numbers_of(passages: Sequence[Passage], shown: Sequence[Passage]) -> tuple[int, ...]:
    """Number passages so that those a model was shown keep the numbers that they had.

    Args:
        passages: what retrieval gave.
        shown: those of them that stood in the prompt, numbered from 1 in this order.

    Returns:
        The number of each passage; the rest follow in order.
    """
    known = {passage.rank: number for number, passage in enumerate(shown, 1)}
    following = iter(range(len(shown) + 1, len(shown) + len(passages) + 1))
    return tuple(known.get(passage.rank) or next(following) for passage in passages)


def compose(draft: Draft, found: Extract, language: Language) -> Draft:
    """Return the draft with the quoted lines below it and the sources of both.

    Args:
        draft: a checked answer.
        found: lines to quote, numbered like the draft's; where empty the draft stays as it is.
        language: language of the line between.
    """
    if not found.text:
        return draft
    return replace(
        draft,
        text=f"{draft.text}\n\n{LEADS[language]}\n\n{found.text}",
        citations=_joined(draft.citations, found.citations),
    )


def _joined(first: Sequence[Citation], second: Sequence[Citation]) -> tuple[Citation, ...]:
    """Join sources by number, in the order in which they appear; a page quoted twice has both."""
    joined = {citation.number: citation for citation in first}
    for citation in second:
        held = joined.get(citation.number)
        if held is None:
            joined[citation.number] = citation
        elif citation.quote not in held.quote:
            joined[citation.number] = replace(held, quote=f"{held.quote}\n{citation.quote}")
    return tuple(joined.values())
