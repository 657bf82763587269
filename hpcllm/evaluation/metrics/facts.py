"""Facts present: does the answer hold what a right answer must hold?

A fact is a short string (a number with its unit, an option, an address) that stands in the gold
page and not in the question. The comparison is :func:`~hpcllm.evaluation.facts.holds_fact`: case,
white space and emphasis do not matter, accepted spellings count, numbers match as whole tokens.
Length and wording of the answer do not matter, so a terse and a wordy system are comparable; that
an answer may not buy facts by copying everything is seen in the metric of length beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcllm.evaluation.facts import holds_fact
from hpcllm.evaluation.metrics.markdown import without_marks

if TYPE_CHECKING:
    from hpcllm.records import Question


def facts_share(question: Question, text: str) -> float:
    """Return the share of the gold facts that ``text`` holds.

    Bounds: 0 (none) to 1 (all). Defined for answerable questions, which have at least one fact;
    citation marks in ``text`` are left out.
    """
    held = facts_held(question, text)
    return len(held) / len(question.gold_facts)


def facts_held(question: Question, text: str) -> tuple[str, ...]:
    """Return the gold facts that ``text`` holds in any accepted spelling, in the gold order."""
    bare = without_marks(text)
    return tuple(
        fact
        for fact in question.gold_facts
        if holds_fact(bare, fact, question.fact_alternatives.get(fact, ()))
    )


def is_right(question: Question, text: str, *, abstained: bool) -> bool:
    """Say whether an answer is right: the one number that systems are ranked by.

    Right is an answer to an answerable question that holds every gold fact, and an abstention
    from an unanswerable one. Everything else is wrong, abstaining from an answerable question
    included. Comparable because it is decided by the question alone, not by the system's form.
    """
    if not question.answerable:
        return abstained
    return not abstained and facts_share(question, text) == 1.0
