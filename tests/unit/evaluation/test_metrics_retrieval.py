from __future__ import annotations

from hpcllm.evaluation.metrics.retrieval import (
    facts_in_first,
    facts_in_words,
    first_words,
    hit,
    reciprocal_rank,
)
from tests.unit.evaluation.helpers import question

ASKED = question(gold_pages=("a.md", "b.md"), gold_facts=("50 GB", "45 days"), fact_alternatives={})
PAGES = ["x.md", "b.md", "a.md"]
TEXTS = ["nothing to see", "quota is 50 GB", "purged after 45 days"]


def test_any_gold_page_is_a_hit() -> None:
    assert [hit(ASKED, PAGES, k) for k in (1, 2, 8)] == [0.0, 1.0, 1.0]
    assert reciprocal_rank(ASKED, PAGES) == 0.5
    assert reciprocal_rank(ASKED, ["x.md"]) == 0.0


def test_facts_are_looked_for_in_the_first_passages_together() -> None:
    assert [facts_in_first(ASKED, TEXTS, k) for k in (1, 2, 3)] == [0.0, 0.5, 1.0]


def test_a_budget_of_words_cuts_inside_a_passage() -> None:
    assert facts_in_words(ASKED, TEXTS, 6) == 0.0
    assert facts_in_words(ASKED, TEXTS, 7) == 0.5
    assert facts_in_words(ASKED, TEXTS, 10) == 0.5
    assert facts_in_words(ASKED, TEXTS, 11) == 1.0


def test_first_words_keep_white_space() -> None:
    assert first_words("a\n  b c", 2) == "a\n  b"
    assert first_words("a b", 5) == "a b"
    assert first_words("  a", 0) == ""
