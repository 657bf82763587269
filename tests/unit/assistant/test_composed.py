from __future__ import annotations

from dataclasses import replace

from hpcllm.assistant.composed import compose, numbers_of
from hpcllm.assistant.draft import Draft
from hpcllm.assistant.extractive import Extract, cite

from .helpers import passage

FIRST, SECOND, THIRD = (replace(passage(f"Line {n}."), rank=n) for n in (1, 2, 3))


def test_passages_shown_keep_their_numbers_and_the_rest_follow() -> None:
    assert numbers_of([FIRST, SECOND, THIRD], [SECOND]) == (2, 1, 3)
    assert numbers_of([FIRST, SECOND, THIRD], [FIRST, SECOND, THIRD]) == (1, 2, 3)
    assert numbers_of([], []) == ()


def test_an_answer_stands_above_the_lines_and_sources_are_joined() -> None:
    draft = Draft("Four days. [1]", citations=(cite(FIRST, 1, "Line 1."),))
    found = Extract(
        "Line 1b. [1]\n\nLine 3. [3]", (cite(FIRST, 1, "Line 1b."), cite(THIRD, 3, "Line 3.")), 1.0
    )
    whole = compose(draft, found, "en")
    assert whole.text == "Four days. [1]\n\nFrom the pages:\n\nLine 1b. [1]\n\nLine 3. [3]"
    assert [(c.number, c.quote) for c in whole.citations] == [
        (1, "Line 1.\nLine 1b."),
        (3, "Line 3."),
    ]


def test_a_line_quoted_by_both_stands_once() -> None:
    draft = Draft("Line one. [1]", citations=(cite(FIRST, 1, "Line 1."),))
    whole = compose(draft, Extract("Line 1. [1]", (cite(FIRST, 1, "Line 1."),), 1.0), "pt")
    assert whole.citations == draft.citations
    assert "Das páginas:" in whole.text


def test_without_lines_the_answer_stays() -> None:
    draft = Draft("Four days. [1]")
    assert compose(draft, Extract("", (), 0.0), "en") is draft
