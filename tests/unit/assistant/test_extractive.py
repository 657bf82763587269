from __future__ import annotations

import re

import pytest

from hpcllm.assistant.check import check_answer
from hpcllm.assistant.extractive import extract
from hpcllm.index.embedders.hashing import HashEmbedder

from .helpers import GPU_TEXT, passage, passages

EMBEDDER = HashEmbedder(1024)


def answer_to(question: str, words: int = 120, found=None):  # type: ignore[no-untyped-def]
    return extract(question, passages() if found is None else found, embedder=EMBEDDER, words=words)


def test_a_table_row_is_quoted_with_its_header() -> None:
    found = answer_to("What is the time limit of partition gpu-long?", words=30)
    assert "- Partition: gpu-long; Time limit: 7 days; Cards per job: 2 [1]" in found.text


def test_an_option_entry_is_quoted_with_its_term() -> None:
    found = answer_to("Which types does mail-type know to notify me?", words=25)
    assert "`--mail-type=<type>`: " in found.text
    assert "Known types are BEGIN, END and FAIL. [" in found.text


def test_code_is_quoted_in_a_fence_with_its_mark_after_it() -> None:
    found = answer_to("How do I write #SBATCH lines for gres and partition gpu?", words=40)
    assert re.search(r"```bash\n#SBATCH --partition=gpu\n.*?```\n\[1\]", found.text, re.DOTALL)


def test_units_stand_in_reading_order_whatever_their_score() -> None:
    found = answer_to("cards quota gres time limit", words=120)
    marks = [int(n) for n in re.findall(r"\[(\d)\]", found.text)]
    assert marks == sorted(marks)
    assert found.text.index("Request graphics cards") < found.text.index("#SBATCH")


def test_numbers_run_from_one_over_the_passages_that_are_quoted() -> None:
    found = answer_to("What is the quota in /home?", words=14)
    assert found.text == "Each user has a quota of 50 GB in `/home`. [1]"
    (citation,) = found.citations
    assert (citation.number, citation.passage_rank, citation.path) == (1, 3, "page3.md")
    assert "50 GB" in citation.quote


@pytest.mark.parametrize("words", [10, 40, 120])
def test_the_word_limit_holds(words: int) -> None:
    assert len(answer_to("How do I request cards?", words).text.split()) <= words


def test_what_is_quoted_passes_the_checks() -> None:
    question = "How do I request two cards for 12 hours and who is notified?"
    found = answer_to(question)
    cited = [p for c in found.citations for p in passages() if p.rank == c.passage_rank]
    failed = [c for c in check_answer(found.text, cited, question=question) if not c.passed]
    assert failed == []


def test_the_same_sentence_on_two_pages_is_quoted_once() -> None:
    same = "The quota of every user is 50 GB at most."
    found = answer_to("What is the quota?", found=[passage(same, 1), passage(same, 2)])
    assert found.text.count("50 GB") == 1
    assert len(found.citations) == 1


def test_a_repeated_statement_gives_way_to_a_new_one() -> None:
    text = (
        "The quota of your home is 50 GB for each user.\n\n"
        "The quota of your home is 50 GB for every user.\n\n"
        "More quota can be had from the help desk upon request by mail."
    )
    found = answer_to("What is the quota of my home?", 26, [passage(text)])
    assert found.text.count("50 GB") == 1
    assert "help desk" in found.text


def test_no_passages_give_an_empty_answer() -> None:
    found = answer_to("anything", found=[])
    assert (found.text, found.citations, found.confidence) == ("", (), 0.0)


def test_a_passage_of_headings_alone_gives_an_empty_answer() -> None:
    assert answer_to("anything", found=[passage("# Title\n\n## More")]).text == ""


def test_code_that_holds_fences_is_fenced_longer() -> None:
    found = answer_to(
        "show the fence in markdown code", found=[passage("````\n```\ncode\n```\n````")]
    )
    assert found.text.startswith("````\n```\ncode")


def test_confidence_is_higher_for_a_question_that_the_text_answers() -> None:
    good = answer_to("What is the time limit of partition gpu-long?", found=[passage(GPU_TEXT)])
    bad = answer_to("Where is the cafeteria menu?", found=[passage(GPU_TEXT)])
    assert good.confidence > bad.confidence + 0.3
