from __future__ import annotations

import numpy as np
import pytest

from hpcllm.index.duplicates import facts_of, fold
from hpcllm.index.embedders.base import Vectors
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.text import embedding_text
from hpcllm.records import Chunk, Document
from tests.unit.index.helpers import corpus, page

LONG = (
    "the scheduler starts a job as soon as the resources that it asks for are free and no other "
    "job with a higher priority waits for the same resources in the partition; ask for a time of "
    "72 hours at most and for as much memory as the program really needs on the node"
)


def fold_pages(*pages: tuple[Document, list[Chunk]]) -> list[int | None]:
    chunks = corpus(*pages)[1]
    return fold(chunks, HashEmbedder().embed([embedding_text(chunk) for chunk in chunks]))


def same_vectors(count: int) -> Vectors:
    return np.tile(np.eye(1, 8, dtype=np.float32), (count, 1))


def test_the_same_text_but_for_case_and_space_is_folded_into_the_first() -> None:
    first, second = (
        page("a.md", ["Use  the queue"], title="T"),
        page("b.md", ["use the\nqueue"], title="t"),
    )
    assert fold_pages(first, second) == [None, 0]


def test_a_current_page_stands_for_an_outdated_one_that_comes_first() -> None:
    old, new = (
        page("old.md", [LONG], title="T", status="outdated"),
        page("new.md", [LONG], title="T"),
    )
    assert fold_pages(old, new) == [1, None]


@pytest.mark.parametrize(
    "other",
    [
        page("b.md", [LONG], title="Other"),
        page("b.md", [LONG], title="T", heading="Elsewhere"),
        page("b.md", [LONG], title="T", cluster="halley"),
        page("b.md", [LONG], title="T", language="pt"),
        page("b.md", [LONG.replace("72", "48")], title="T"),
        page("b.md", [LONG.replace("and no other", "and not other")], title="T"),
        page("b.md", [LONG.replace("the partition", "the `gpu` partition")], title="T"),
        page("b.md", [LONG.replace("the partition", "the GPU partition")], title="T"),
        page("b.md", [LONG.replace("the partition", "--partition")], title="T"),
    ],
    ids=["title", "heading", "cluster", "language", "number", "negation", "code", "name", "option"],
)
def test_what_differs_in_more_than_wording_is_never_folded(
    other: tuple[Document, list[Chunk]],
) -> None:
    chunks = corpus(page("a.md", [LONG], title="T"), other)[1]
    assert fold(chunks, same_vectors(2)) == [None, None]


def test_a_long_text_in_nearly_the_same_words_is_folded() -> None:
    near = LONG.replace("really needs", "truly needs")
    chunks = corpus(page("a.md", [LONG], title="T"), page("b.md", [near], title="T"))[1]
    assert fold(chunks, same_vectors(2)) == [None, 0]


def test_nearly_the_same_words_are_not_enough_where_the_meaning_is_far() -> None:
    near = LONG.replace("really needs", "truly needs")
    chunks = corpus(page("a.md", [LONG], title="T"), page("b.md", [near], title="T"))[1]
    assert fold(chunks, np.eye(2, dtype=np.float32)) == [None, None]


def test_repeated_text_of_one_page_stays_where_it_is() -> None:
    document, chunks = page("a.md", [LONG, "between", LONG], title="T")
    assert fold_pages((document, chunks)) == [None, None, None]


def test_chains_of_copies_end_at_one_chunk() -> None:
    near = LONG.replace("really needs", "truly needs")
    pages = [
        page("a.md", [near], title="T", status="outdated"),
        page("b.md", [near], title="T", status="outdated"),
        page("c.md", [LONG], title="T"),
    ]
    assert fold(corpus(*pages)[1], same_vectors(3)) == [2, 2, None]


def test_boilerplate_short_of_a_fact_is_folded_only_when_equal() -> None:
    assert fold_pages(
        page("a.md", ["see the other page"], title="T"), page("b.md", ["see this page"], title="T")
    ) == [None, None]


def test_facts_are_numbers_names_code_options_and_negations() -> None:
    text = (
        "Jobs run for 72 hours, not more; use `sbatch job.sh` or --time on gpu.q.\n```\nml x\n```"
    )
    assert sorted(facts_of(text)) == sorted(
        ["Jobs", "72", "not", "sbatch", "job.sh", "--time", "gpu.q", "ml", "x"]
    )
