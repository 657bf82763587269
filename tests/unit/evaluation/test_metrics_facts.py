from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpcllm.evaluation.metrics.facts import facts_held, facts_share, is_right
from tests.unit.evaluation.helpers import question, unanswerable

TWO = question(
    gold_facts=("50 GB", "300,000 files"),
    fact_alternatives={"50 GB": ("50 gigabytes",), "300,000 files": ("300000 files",)},
)


def test_share_counts_each_fact_once_in_any_spelling() -> None:
    assert facts_share(TWO, "You have **50 gigabytes**.") == 0.5
    assert facts_share(TWO, "50 GB and `300000 files`, yes 50 GB") == 1.0
    assert facts_share(TWO, "250 GB") == 0.0


def test_a_citation_mark_is_no_fact() -> None:
    asked = question(gold_facts=("2",), fact_alternatives={})
    assert facts_share(asked, "See the page [2].") == 0.0
    assert facts_share(asked, "At most 2 jobs [1].") == 1.0


def test_held_facts_come_in_gold_order() -> None:
    assert facts_held(TWO, "300,000 files in 50 GB") == ("50 GB", "300,000 files")


def test_right_needs_every_fact_and_no_refusal() -> None:
    assert is_right(TWO, "50 GB, 300,000 files", abstained=False)
    assert not is_right(TWO, "50 GB", abstained=False)
    assert not is_right(TWO, "50 GB, 300,000 files", abstained=True)


def test_an_unanswerable_question_is_right_when_refused() -> None:
    assert is_right(unanswerable(), "whatever", abstained=True)
    assert not is_right(unanswerable(), "50 GB", abstained=False)


@given(st.text(max_size=200))
def test_share_stays_within_its_bounds(text: str) -> None:
    assert facts_share(TWO, text) in (0.0, 0.5, 1.0)
