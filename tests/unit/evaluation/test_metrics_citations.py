from __future__ import annotations

from hpcllm.evaluation.metrics.citations import (
    Claim,
    citation_precision,
    citation_recall,
    split_claims,
)
from tests.unit.evaluation.helpers import question

TWO = question(gold_facts=("50 GB", "45 days"), fact_alternatives={"45 days": ("forty-five days",)})
PAGES = {
    1: "Each user has a quota of 50 GB.",
    2: "Files on scratch are deleted after forty-five days.",
    3: "The office hour is on Wednesday.",
}


def test_claims_end_at_their_marks() -> None:
    text = "Home has 50 GB [1]. Scratch is purged [2][3]\n\n- Ask us [3].\n- No mark here."
    assert split_claims(text) == [
        Claim("Home has 50 GB  .", (1,)),
        Claim("Scratch is purged", (2, 3)),
        Claim("- Ask us  .", (3,)),
        Claim("- No mark here.", ()),
    ]


def test_a_fence_belongs_to_the_claim_before_it() -> None:
    claims = split_claims("Run this [1]:\n\n```\nsqueue --me\n```\n")
    assert [claim.numbers for claim in claims] == [(1,)]
    assert "squeue --me" in claims[0].text


def test_precision_is_the_share_of_marks_that_hold() -> None:
    good = "Home has 50 GB [1]. Scratch is purged after 45 days [2]."
    assert citation_precision(TWO, good, PAGES) == 1.0
    assert citation_precision(TWO, "Home has 50 GB [3].", PAGES) == 0.0
    assert citation_precision(TWO, "Home has 50 GB [1][3].", PAGES) == 0.5
    assert citation_precision(TWO, "Home has 50 GB [7].", PAGES) == 0.0


def test_one_passage_need_not_hold_all_facts_of_a_claim() -> None:
    assert citation_precision(TWO, "50 GB, purged after 45 days [1][2].", PAGES) == 1.0


def test_a_claim_without_facts_is_compared_by_its_words() -> None:
    assert citation_precision(TWO, "The office hour is on Wednesday [3].", PAGES) == 1.0
    assert citation_precision(TWO, "The office hour is on Wednesday [1].", PAGES) == 0.0


def test_no_citation_no_precision() -> None:
    assert citation_precision(TWO, "Home has 50 GB.", PAGES) is None


def test_recall_is_the_share_of_facts_that_are_backed() -> None:
    assert citation_recall(TWO, "50 GB [1]. Purged after 45 days.", PAGES) == 0.5
    assert citation_recall(TWO, "50 GB [1]. Purged after 45 days [2].", PAGES) == 1.0
    assert citation_recall(TWO, "50 GB [2].", PAGES) == 0.0
    assert citation_recall(TWO, "Nothing [1].", PAGES) is None
