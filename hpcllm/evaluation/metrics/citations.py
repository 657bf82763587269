"""Citation precision and recall: do the cited passages hold what the answer says?

A claim is a paragraph or list item, cut into sentences; a sentence without a mark belongs to the
next mark of its paragraph. Comparable between systems because both are shares over claims, not
counts; a system that cites more is not better for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcllm.assistant.language import subject_words
from hpcllm.evaluation.facts import holds_fact
from hpcllm.evaluation.metrics.facts import facts_held
from hpcllm.evaluation.metrics.markdown import marks, without_marks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hpcllm.records import Question

SUPPORT = 0.5
"""Share of a claim's words that a passage must hold where the claim holds no gold fact."""

_MARKED = re.compile(r"(.*?(?:\[\d{1,3}(?:\s*,\s*\d{1,3})*\]\s*)+[.;:!?]?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Claim:
    """A piece of an answer with the numbers that it cites.

    Attributes:
        text: the piece without marks.
        numbers: the passages' numbers, each once.
    """

    text: str
    numbers: tuple[int, ...]


def split_claims(text: str) -> list[Claim]:
    """Cut an answer after each group of citation marks, paragraph by paragraph.

    What stands in a paragraph after its last mark cites nothing, except code: a fenced block
    belongs to the claim before it.
    """
    claims: list[Claim] = []
    for paragraph in _paragraphs(text):
        if paragraph.lstrip().startswith(("```", "~~~")) and not marks(paragraph) and claims:
            before = claims.pop()
            claims.append(Claim(f"{before.text}\n{paragraph}", before.numbers))
            continue
        claims += [
            _claim(piece)
            for piece in _MARKED.split(paragraph)
            if without_marks(piece).strip(" .\n")
        ]
    return claims


def _claim(piece: str) -> Claim:
    return Claim(without_marks(piece).strip(), tuple(dict.fromkeys(marks(piece))))


def _paragraphs(text: str) -> list[str]:
    parts = re.split(r"(^[ \t]*```.*?^[ \t]*```[ \t]*$)", text, flags=re.DOTALL | re.MULTILINE)
    out: list[str] = []
    for part in parts:
        if part.lstrip().startswith("```"):
            out.append(part)
        else:
            out += re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+[.)])\s)", part)
    return [part for part in out if part.strip()]


def citation_precision(question: Question, text: str, cited: Mapping[int, str]) -> float | None:
    """Return the share of citations whose passage supports the claim that bears them.

    Args:
        question: gives the facts.
        text: the answer with its marks.
        cited: texts of the passages by number; a mark without a passage supports nothing.

    Returns:
        0 to 1, or None where the answer cites nothing. A passage supports a claim when it holds
        at least one of the gold facts that the claim holds; of a claim without gold facts, at
        least half of the words that name its subject.
    """
    pairs = [(claim, number) for claim in split_claims(text) for number in claim.numbers]
    if not pairs:
        return None
    return sum(supports(question, c.text, cited.get(n, "")) for c, n in pairs) / len(pairs)


def supports(question: Question, claim: str, passage: str) -> bool:
    """Say whether ``passage`` supports ``claim``; see :func:`citation_precision`."""
    facts = facts_held(question, claim)
    if facts:
        return any(_holds(question, passage, fact) for fact in facts)
    words = subject_words(claim)
    return bool(words) and len(words & subject_words(passage)) >= SUPPORT * len(words)


def citation_recall(question: Question, text: str, cited: Mapping[int, str]) -> float | None:
    """Return the share of the answer's gold facts that stand in a passage cited for them.

    Returns:
        0 to 1, or None where the answer holds no gold fact. A fact counts when a claim that holds
        it cites a passage that holds it too.
    """
    held = facts_held(question, text)
    if not held:
        return None
    claims = split_claims(text)
    backed = [
        fact
        for fact in held
        if any(
            _holds(question, claim.text, fact) and _holds(question, cited.get(number, ""), fact)
            for claim in claims
            for number in claim.numbers
        )
    ]
    return len(backed) / len(held)


def _holds(question: Question, text: str, fact: str) -> bool:
    return holds_fact(text, fact, question.fact_alternatives.get(fact, ()))
