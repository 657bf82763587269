from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.records import Chunk, Turn
from hpcllm.training.assembly import Site
from hpcllm.training.handwritten import HandwrittenQuestion
from hpcllm.training.retriever.pairs import (
    answering_chunks,
    build_pairs,
    count_facts,
    question_words,
)
from tests.unit.training.helpers import JOBS, STORAGE, document, make_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    pages = [document(STORAGE, "storage.md"), document(JOBS, "jobs.md")]
    return make_site(tmp_path / "index", *pages)


def asked(**fields) -> HandwrittenQuestion:
    values = {
        "id": "t-1",
        "question": "how much space in my home",
        "answer": "50 GB.",
        "source": "docs",
        "path": "storage.md",
        "heading": "Scratch",
        "kind": "table_lookup",
        "facts": ("50 GB",),
        **fields,
    }
    return HandwrittenQuestion(**values)


def chunk(text: str, position: int, *headings: str) -> Chunk:
    return Chunk(f"{position:032x}", "docs", "p.md", "Page", headings, "", text, position, 5)


def test_a_fact_of_one_word_counts_as_a_whole_word_only() -> None:
    assert count_facts(chunk("at most 150 files", 0), ("50",)) == 0
    assert count_facts(chunk("at most 50 files", 0), ("50",)) == 1


def test_a_fact_stands_in_headings_too_and_spaces_do_not_count() -> None:
    assert count_facts(chunk("use it", 0, "--mem = SIZE"), ("--mem=SIZE",)) == 1


def test_chunks_below_the_heading_go_first() -> None:
    page = [chunk("limit 10 TB", 0, "Home"), chunk("limit 10 TB", 1, "Scratch")]
    assert answering_chunks(page, "scratch", ("10 TB",)) == [page[1]]


def test_the_whole_page_is_looked_at_where_the_heading_holds_no_fact() -> None:
    page = [chunk("limit 10 TB", 0, "Home"), chunk("nothing", 1, "Scratch")]
    assert answering_chunks(page, "Scratch", ("10 TB",)) == [page[0]]


def test_the_chunks_with_most_facts_answer() -> None:
    page = [chunk("10 TB", 0, "A"), chunk("10 TB for 45 days", 1, "A"), chunk("45 days", 2, "A")]
    assert answering_chunks(page, "A", ("10 TB", "45 days")) == [page[1]]


def test_a_page_without_the_facts_has_no_answer() -> None:
    assert answering_chunks([chunk("nothing", 0, "A")], "A", ("10 TB",)) == []


def test_negatives_lack_the_facts_and_stand_in_another_section(site: Site) -> None:
    pairs, left_out = build_pairs([asked()], [site.searcher])
    (pair,) = pairs
    assert not left_out
    assert "| home | 50 GB | nightly |" in pair.positives[0]
    assert pair.negatives
    assert all("50 GB" not in text for text in pair.negatives)
    assert set(pair.negatives).isdisjoint(pair.positives)


def test_what_cannot_be_resolved_is_counted_by_reason(site: Site) -> None:
    questions = [
        asked(answer=""),
        asked(path="gone.md"),
        asked(facts=("99 PB",)),
    ]
    pairs, left_out = build_pairs(questions, [site.searcher])
    assert pairs == []
    assert left_out == {
        "has no answer": 1,
        "page is in no index": 1,
        "no chunk holds the answer": 1,
    }


def test_questions_of_one_page_are_kept_apart_together(site: Site) -> None:
    pairs, _ = build_pairs([asked(), asked(id="t-2", question="home size")], [site.searcher])
    assert pairs[0].held_out == pairs[1].held_out


def test_a_follow_up_stands_with_what_was_asked_before() -> None:
    history = (Turn("user", "how large is scratch"), Turn("assistant", "10 TB"))
    assert question_words(asked(question="and home?", history=history)) == (
        "how large is scratch\nand home?"
    )
