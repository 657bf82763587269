from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hpcllm.errors import StoreError
from hpcllm.index.embedders.base import Vectors
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.generation import Generation
from hpcllm.index.glossary import gloss
from hpcllm.index.passages import EXPAND_PASSAGES
from hpcllm.index.search import Searcher
from hpcllm.index.text import embedding_text
from hpcllm.records import Passage
from tests.unit.index.conftest import Build
from tests.unit.index.helpers import page

Make = Callable[..., Searcher]

QUOTA = page("quota.md", ["The disk quota of home is 50 GB."], title="Quotas")
QUEUE = page("queue.md", ["Jobs wait in the queue until nodes are free."], title="Queues")
FILLER = [page(f"f{i}.md", [f"filler{i} text of no interest"], title=f"F{i}") for i in range(20)]


def paths(passages: list[Passage]) -> list[str]:
    return [passage.path for passage in passages]


def test_the_page_that_answers_comes_first_with_its_place(searcher: Make) -> None:
    found = searcher(QUEUE, QUOTA, *FILLER).search("What is the disk quota?")
    first = found[0]
    assert (first.rank, first.path, first.title) == (1, "quota.md", "Quotas")
    assert first.url == "https://docs.example.org/quota.md#use"
    assert first.headings == ("Use",)
    assert first.text == "The disk quota of home is 50 GB."
    assert first.chunk_ids == (QUOTA[1][0].id,)
    assert 0 < first.similarity <= 1
    assert [passage.rank for passage in found] == list(range(1, len(found) + 1))
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)


def test_no_more_than_k_come_back_and_nothing_for_nothing(searcher: Make) -> None:
    search = searcher(QUEUE, QUOTA, *FILLER).search
    assert len(search("text", k=3)) == 3
    assert search("  \n") == []
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        search("text", k=0)
    with pytest.raises(ValueError, match="words must be at least 1, got 0"):
        search("text", words=0)


def test_an_option_is_found_as_it_stands_and_by_its_parts(searcher: Make) -> None:
    option = page("gres.md", ["Ask with `--gres=gpu:a100:2` for cards."], title="Cards")
    search = searcher(option, *FILLER).search
    for query in ("--gres=gpu:a100:2", "--gres", "a100", "gres"):
        assert search(query)[0].path == "gres.md", query


def test_a_chunk_found_by_words_alone_has_no_similarity(searcher: Make) -> None:
    pages = [page(f"{i}.md", [f"alpha beta gamma {i}"], title=str(i)) for i in range(260)]
    odd = page("odd.md", [" ".join(f"w{i}" for i in range(300)) + " alpha"], title="odd")
    found = searcher(*pages, odd).search("w7 alpha beta gamma", k=50)
    alone = next(passage for passage in found if passage.path == "odd.md")
    assert math.isnan(alone.similarity)


def test_many_questions_give_what_each_gives(searcher: Make) -> None:
    search = searcher(QUEUE, QUOTA, *FILLER)
    queries = ["disk quota", "", "queue of jobs"]
    assert search.search_many(queries, k=4) == [search.search(query, k=4) for query in queries]


def test_pages_of_another_cluster_are_out_of_scope_and_those_of_none_never(searcher: Make) -> None:
    text = "The gpu partition has a limit of {} hours."
    search = searcher(
        page("m.md", [text.format(24)], cluster="meridian"),
        page("h.md", [text.format(48)], cluster="halley"),
        page("all.md", ["Partitions group nodes, gpu ones too."]),
        *FILLER,
    ).search
    query = "limit of the gpu partition"
    assert {"m.md", "h.md", "all.md"} <= set(paths(search(query)))
    scoped = paths(search(query, cluster="Meridian", k=50))
    assert scoped[0] == "m.md"
    assert "all.md" in scoped
    assert "h.md" not in scoped
    unknown = paths(search(query, cluster="nowhere", k=50))
    assert "all.md" in unknown
    assert not {"m.md", "h.md"} & set(unknown)


def test_the_language_asked_for_comes_first_and_nothing_is_left_out(searcher: Make) -> None:
    search = searcher(
        page("en.md", ["cluster slurm gpu"], title="x"),
        page("pt.md", ["slurm gpu cluster"], title="x", language="pt"),
        page("fr.md", ["autre chose"], language="fr"),
    ).search
    assert paths(search("slurm gpu", language="pt-BR"))[:2] == ["pt.md", "en.md"]
    assert paths(search("slurm gpu", language="en"))[:2] == ["en.md", "pt.md"]


@pytest.mark.parametrize("status", ["outdated", "decommissioned", "generated"])
def test_an_equal_page_that_is_trusted_less_comes_after(searcher: Make, status: str) -> None:
    old = page("a-old.md", ["Submit jobs with the batch command"], title="Old", status=status)
    new = page("new.md", ["Submit jobs with the batch command."], title="New")
    found = searcher(old, new, *FILLER).search("submit jobs batch")
    assert paths(found)[:2] == ["new.md", "a-old.md"]
    assert found[1].status == status


def test_generated_bulk_does_not_crowd_out_a_page_written_by_hand(searcher: Make) -> None:
    bulk = [
        page(f"api{i}.md", [f"job state code {i} of the job state api"], status="generated")
        for i in range(300)
    ]
    hand = page("states.md", ["A job can be in one of these states: pending, running, done."])
    assert searcher(*bulk, hand).search("which states can a job be in")[0].path == "states.md"


def test_neighbours_that_were_both_found_come_as_one_in_reading_order(searcher: Make) -> None:
    document = page("mpi.md", ["First load mpi.", "Then run mpi with srun.", "Unrelated end."])
    found = searcher(document, *FILLER).search("run mpi srun", k=8)
    assert found[0].text == "First load mpi.\n\nThen run mpi with srun.\n\nUnrelated end."
    assert found[0].chunk_ids == tuple(chunk.id for chunk in document[1])
    assert paths(found).count("mpi.md") == 1


def test_neighbours_are_not_merged_past_the_limit(searcher: Make) -> None:
    long = " ".join(["mpi"] * 150)
    found = searcher(page("mpi.md", [long, f"{long} too"]), *FILLER).search("mpi")
    assert [len(passage.chunk_ids) for passage in found if passage.path == "mpi.md"] == [1, 1]


def test_the_same_text_on_pages_with_other_titles_is_shown_once_with_all_addresses(
    searcher: Make,
) -> None:
    pages = [page(f"p{i}.md", ["Ask the desk for a quota."], title=f"T{i}") for i in range(3)]
    found = searcher(*pages, *FILLER).search("quota desk")
    assert found[0].path == "p0.md"
    assert set(found[0].other_urls) == {f"https://docs.example.org/p{i}.md#use" for i in (1, 2)}
    assert not {"p1.md", "p2.md"} & set(paths(found))


def test_folded_copies_keep_their_address(searcher: Make) -> None:
    search = searcher(
        page("v2.md", ["Ask the desk."], title="Desk"),
        page("v1.md", ["Ask the  desk."], title="Desk"),
        *FILLER,
    )
    assert search.generation.manifest.vectors == search.generation.manifest.chunks - 1
    found = search.search("desk")
    assert found[0].other_urls == ("https://docs.example.org/v1.md#use",)


def test_words_limit_all_passages_together_but_not_the_first(searcher: Make) -> None:
    texts = ["quota alpha one two", "quota beta one two", "quota gamma one two"]
    search = searcher(*[page(f"{i}.md", [t]) for i, t in enumerate(texts)], *FILLER).search
    assert len(search("quota", words=8)) == 2
    assert len(search("quota", words=1)) == 1


def test_an_index_smaller_than_the_number_of_candidates_can_be_searched(searcher: Make) -> None:
    assert paths(searcher(QUOTA).search("anything", k=50)) in ([], ["quota.md"])


def test_another_embedder_than_built_with_is_refused(
    build: Build, opened: Callable[[], Generation]
) -> None:
    build(QUOTA)
    with pytest.raises(StoreError) as caught:
        Searcher(opened(), HashEmbedder(64))
    message = str(caught.value)
    assert "'hashing' (SHA-256" in message
    assert "'hashing-64' (SHA-256" in message
    assert "dimension 64" in message
    assert "choose the former in hpcllm.toml" in message
    assert "hpcllm ingest --rebuild" in message


def test_an_open_searcher_answers_from_its_generation_while_others_are_built(
    searcher: Make, build: Build, opened: Callable[[], Generation]
) -> None:
    old = searcher(QUOTA, *FILLER)
    for number in range(3):
        build(page("quota.md", [f"The disk quota is {number} GB."], title="Quotas"), keep=1)
    assert "50 GB" in old.search("disk quota")[0].text
    assert "2 GB" in Searcher(opened(), HashEmbedder()).search("disk quota")[0].text


def test_threads_get_the_same_answers(searcher: Make) -> None:
    search = searcher(QUEUE, QUOTA, *FILLER)
    queries = ["disk quota", "jobs queue", "filler3"]
    expected = {query: search.search(query) for query in queries}
    wrong: list[str] = []

    def work() -> None:
        for _ in range(10):
            wrong.extend(query for query in queries if search.search(query) != expected[query])

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_short_passage_takes_in_the_neighbour_of_its_section_that_was_not_found(
    searcher: Make,
) -> None:
    crowd = [page(f"q{i}.md", [f"quota quota of project {i}"], title="Quota") for i in range(60)]
    document = page("a.md", ["Raise your quota like this:", "`lfs setquota`"], title="Quota raise")
    found = searcher(document, *crowd).search("raise quota like this", k=1)
    assert found[0].text == "Raise your quota like this:\n\n`lfs setquota`"


def test_a_passage_is_not_lengthened_into_another_section_or_page(searcher: Make) -> None:
    document, chunks = page("a.md", ["Raise your quota like this:", "unrelated end"])
    other = [replace(chunks[1], headings=("Elsewhere",))]
    crowd = [page(f"q{i}.md", [f"quota quota of project {i}"], title="Quota") for i in range(60)]
    search = searcher((document, [chunks[0], *other]), *crowd)
    assert search.search("raise quota like this", k=1)[0].text == "Raise your quota like this:"


def test_only_the_first_passages_are_lengthened(searcher: Make) -> None:
    pages = []
    for i in range(EXPAND_PASSAGES + 2):
        texts = [f"raise quota {'quota ' * (5 - i)}", f"unlike{i} ending{i}"]
        pages.append(page(f"a{i}.md", texts, title=f"A{i}"))
    crowd = [page(f"q{i}.md", [f"quota of project {i}"], title=f"Q{i}") for i in range(60)]
    found = searcher(*pages, *crowd).search("raise quota", k=EXPAND_PASSAGES + 2)
    assert {passage.path for passage in found} == {f"a{i}.md" for i in range(EXPAND_PASSAGES + 2)}
    lengths = [len(passage.chunk_ids) for passage in found]
    assert lengths == [2] * EXPAND_PASSAGES + [1, 1]


class TurnedEmbedder(HashEmbedder):
    """Reads every question as if it asked for something else; passages as they are."""

    question_adapter = "turned"

    def __init__(self, reads_as: str) -> None:
        super().__init__()
        self.reads_as = reads_as

    def embed_questions(self, texts: Sequence[str]) -> Vectors:
        return self.embed([self.reads_as] * len(texts))


@pytest.fixture
def turned(build: Build, opened: Callable[[], Generation]) -> Make:
    def of(*pages: Any, reads_as: str, **options: Any) -> Searcher:
        build(*pages, **options)
        return Searcher(opened(), TurnedEmbedder(reads_as))

    return of


def test_an_adapter_for_questions_ranks_and_leaves_similarities_as_they_were(turned: Make) -> None:
    question = "disk quota of home"
    search = turned(QUEUE, QUOTA, *FILLER, reads_as="Jobs wait in the queue until nodes are free.")
    found = {passage.path: passage for passage in search.search(question)}
    plain = HashEmbedder()
    for path, text in (("quota.md", QUOTA[1][0]), ("queue.md", QUEUE[1][0])):
        cosine = plain.embed([question])[0] @ plain.embed([embedding_text(text)])[0]
        assert found[path].similarity == pytest.approx(float(cosine), abs=1e-5)
    without = Searcher(search.generation, plain).search(question)
    assert "queue.md" not in paths(without)[:2]
    assert "queue.md" in paths(list(found.values()))[:2]


def test_the_adapter_changes_neither_words_nor_what_words_alone_found(turned: Make) -> None:
    pages = [page(f"{i}.md", [f"alpha beta gamma {i}"], title=str(i)) for i in range(260)]
    odd = page("odd.md", [" ".join(f"w{i}" for i in range(300))], title="odd")
    found = turned(*pages, odd, reads_as="alpha beta gamma").search("w7", k=50)
    alone = next(passage for passage in found if passage.path == "odd.md")
    assert math.isnan(alone.similarity)


def test_of_two_forms_of_a_question_the_closer_one_gives_the_similarity(turned: Make) -> None:
    question = "qual a quota de disco"
    forms = [question, gloss(question)]
    search = turned(QUEUE, QUOTA, *FILLER, reads_as=QUOTA[1][0].text)
    first = search.search(question)[0]
    plain = HashEmbedder()
    rows = plain.embed(forms) @ plain.embed([embedding_text(QUOTA[1][0])])[0]
    assert first.path == "quota.md"
    assert abs(rows[0] - rows[1]) > 0.01
    assert first.similarity == pytest.approx(float(rows.max()), abs=1e-5)


def test_many_questions_keep_their_own_similarities_with_an_adapter(turned: Make) -> None:
    search = turned(QUEUE, QUOTA, *FILLER, reads_as="quota queue")
    queries = ["disk quota", "qual a quota de disco", "queue of jobs"]
    assert search.search_many(queries, k=4) == [search.search(query, k=4) for query in queries]


def test_the_adapter_reads_english_questions_only(turned: Make) -> None:
    question = "disk quota of home"
    search = turned(QUEUE, QUOTA, *FILLER, reads_as="Jobs wait in the queue until nodes are free.")
    without = Searcher(search.generation, HashEmbedder())
    for language in ("pt", "pt-BR"):
        assert search.search(question, language=language) == without.search(
            question, language=language
        )
    assert search.search(question, language="en") != without.search(question, language="en")
