from __future__ import annotations

from typing import Any

import pytest

from hpcllm.assistant.draft import is_refusal, keep_complete, language_note, why_rejected
from hpcllm.records import Check

from .helpers import passage


@pytest.mark.parametrize(
    "text",
    [
        "The documentation does not say.",
        '"The documentation does not say."',
        "The passages do not answer this question.",
        "The provided documentation doesn't mention CHARMM.",
        "A documentação não diz.",
    ],
)
def test_refusals_in_many_words_are_known(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "Use the gpu partition [1]. The documentation does not say more.",
        "The documentation says that 24 hours is the limit [1].",
        "The documentation does not say it, but " + "in other words " * 20,
        "",
    ],
)
def test_answers_are_no_refusals(text: str) -> None:
    assert not is_refusal(text)


def test_a_cut_text_ends_with_its_last_mark() -> None:
    assert keep_complete("One [1]. Two [2]. Three and") == "One [1]. Two [2]."
    assert keep_complete("nothing cited") == "nothing cited"


def test_failed_checks_are_named_and_the_mark_of_every_sentence_is_asked_of_the_unadapted() -> None:
    checks = [Check("citations", True), Check("cited", False, "without a citation: x")]
    assert why_rejected("text [1]", checks, adapted=True) == ""
    assert why_rejected("text [1]", checks, adapted=False) == (
        "the model's draft was dropped because a statement in it has no source "
        "(without a citation: x)"
    )
    both = [
        Check("citations", False, "a"),
        Check("numbers", False, "b"),
        Check("other", False, "c"),
    ]
    assert why_rejected("text [1]", both, adapted=False) == (
        "the model's draft was dropped because it names a source that is not there (a) and a "
        "number in it is not on the pages that it cites (b) and its check of other failed (c)"
    )


@pytest.mark.parametrize(
    ("language", "pages", "line"),
    [
        ("pt", ["en", "en"], "As páginas citadas estão em inglês."),
        ("pt", ["en", "pt-BR"], ""),
        ("pt", ["de"], "As páginas citadas estão em outra língua."),
        ("en", ["pt-BR"], "The pages quoted are in Portuguese."),
        ("en", ["de", "fr"], "The pages quoted are in another language."),
        ("en", ["en-GB"], ""),
        ("en", [], ""),
    ],
)
def test_pages_in_another_language_than_the_question_are_announced(
    language: Any, pages: list[str], line: str
) -> None:
    cited = [passage("text", rank, language=code) for rank, code in enumerate(pages, 1)]
    assert language_note(language, cited) == line
