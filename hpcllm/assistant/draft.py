"""What an answer is before it is finished: a draft, a refusal, a reason to reject.

Role: rules that the assistant applies between generating and answering.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpcllm.assistant.check import quote_for
from hpcllm.assistant.extractive import cite
from hpcllm.assistant.prompt import REFUSALS
from hpcllm.records import Check, Citation, Passage, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hpcllm.assistant.language import Language

DROPPED = "the model's draft was dropped"
"""Start of the reasons of :func:`why_rejected` that a failed check gives."""
NEAREST_PAGES = 3
"""Pages named when abstaining."""

_NEAREST = {"en": "These pages come nearest:", "pt": "Estas páginas são as mais próximas:"}
_SUPPORT = {"en": "For help, ask {support}.", "pt": "Para ajuda, procure {support}."}
_QUOTED_IN = {
    ("pt", "en"): "As páginas citadas estão em inglês.",
    ("pt", ""): "As páginas citadas estão em outra língua.",
    ("en", "pt"): "The pages quoted are in Portuguese.",
    ("en", ""): "The pages quoted are in another language.",
}
"""Said before an extract, by the question's language and that of its pages (empty: any other)."""
_FAULTS = {
    "citations": "it names a source that is not there",
    "cited": "a statement in it has no source",
    "commands": "a command or option in it is not on the pages that it cites",
    "numbers": "a number in it is not on the pages that it cites",
}
"""What a draft is dropped for, by the name of the check, for whoever reads the answer."""
_REFUSAL = re.compile(
    r"^\W*(the (documentation|passages?|provided (passages?|documentation))\b.{0,40}\b"
    r"(do(es)? not|don't|doesn't) (say|answer|mention|contain|provide)|"
    r"a documentação não (diz|responde|menciona|informa)|as passagens não)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer in the making.

    Attributes:
        text: what is written so far, or in the end.
        piece: what the last step added, empty in the end.
        model: what writes it.
        abstained: whether it says that the documentation does not say.
        is_cut: whether the model was stopped before its end.
        citations: sources of the text.
        checks: what was checked.
        fallback: why it replaces another one, or empty.
        usage: tokens taken.
        timings_ms: milliseconds by stage.
        prompt_sha256: hash of the prompt, or empty.
    """

    text: str
    piece: str = ""
    model: str = "extractive"
    abstained: bool = False
    is_cut: bool = False
    citations: tuple[Citation, ...] = ()
    checks: tuple[Check, ...] = ()
    fallback: str = ""
    usage: Usage = field(default_factory=Usage)
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    prompt_sha256: str = ""


def abstain(question: str, passages: Sequence[Passage], language: Language, support: str) -> Draft:
    """Return the answer that the documentation does not say, with the nearest pages.

    Args:
        question: decides which lines of the pages are quoted.
        passages: what retrieval gave, best first; each page is named once.
        language: language of the fixed sentences.
        support: how to reach a person.
    """
    pages = list({(p.source, p.path): p for p in reversed(passages)}.values())[::-1]
    nearest = sorted(pages, key=lambda passage: passage.rank)[:NEAREST_PAGES]
    citations = tuple(
        cite(passage, number, quote_for(question, passage))
        for number, passage in enumerate(nearest, 1)
    )
    names = [f"{_place(c)} [{c.number}]" for c in citations]
    parts = [REFUSALS[language]]
    if names:
        parts.append(f"{_NEAREST[language]} {'; '.join(names)}.")
    parts.append(_SUPPORT[language].format(support=support))
    check = Check("evidence", True, "abstained: no passage was found to answer the question")
    return Draft(" ".join(parts), abstained=True, citations=citations, checks=(check,))


def _place(citation: Citation) -> str:
    inner = [h for h in citation.headings if h != citation.title]
    return f"{citation.title} > {inner[-1]}" if inner else citation.title


def is_refusal(text: str) -> bool:
    """Tell whether a model's text says that the passages do not answer, and nothing else."""
    return bool(_REFUSAL.match(text)) and len(text.split()) <= 40


def keep_complete(text: str) -> str:
    """Return a text that was cut by the token limit up to its last complete, cited statement."""
    marks = list(re.finditer(r"\[\d[\d, ]*\][.)]?", text))
    return text[: marks[-1].end()] if marks else text


def why_rejected(text: str, checks: Sequence[Check], *, adapted: bool) -> str:
    """Return why a draft must not be shown, or an empty string.

    A draft must have text beside its marks, and its citations, commands and numbers must hold;
    the draft of a model that was not adapted must also bear a mark for every statement.
    """
    bare = re.sub(r"\[[\d, ]*\]", "", text).strip(" .\n")
    if not bare:
        return "the model wrote no answer"
    needed = {"citations", "commands", "numbers"} if adapted else {c.name for c in checks}
    failed = [check for check in checks if check.name in needed and not check.passed]
    faults = [
        f"{_FAULTS.get(c.name, f'its check of {c.name} failed')} ({c.detail})" for c in failed
    ]
    return f"{DROPPED} because {' and '.join(faults)}" if faults else ""


def language_note(language: Language, cited: Sequence[Passage]) -> str:
    """Return a line that says which language quoted pages are in, where it is not the question's.

    Args:
        language: of the question.
        cited: the passages that are quoted.

    Returns:
        The line, or empty where a page is in the question's language.
    """
    found = {passage.language.lower().partition("-")[0] for passage in cited}
    if not found or language in found:
        return ""
    known = found.pop() if len(found) == 1 else ""
    return _QUOTED_IN.get((language, known), _QUOTED_IN[language, ""])
