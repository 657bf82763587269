from __future__ import annotations

import random
from pathlib import Path

import pytest

from hpcllm.assistant.prompt import REFUSALS
from hpcllm.records import Turn
from hpcllm.training.assembly import (
    Dropped,
    Site,
    assemble,
    assemble_refusal,
    key_facts,
    squash,
)
from hpcllm.training.records import Seed, Statement
from tests.unit.training.helpers import JOBS, STORAGE, document, make_site, reader

ROW = "| home | 50 GB | nightly |"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    fillers = [
        document(
            f"# Topic {n}\n\nWords about subject number {n} and nothing else here.\n", f"{n}.md"
        )
        for n in range(6)
    ]
    pages = [document(STORAGE, "storage.md"), document(JOBS, "jobs.md"), *fillers]
    return make_site(tmp_path / "index", *pages)


def seed(text: str = "The quota of home is 50 GB.", quote: str = ROW, **fields) -> Seed:
    values = {"question": "What is the quota of home?", "topic": "Scratch", **fields}
    return Seed("table_value", "docs", "storage.md", statements=(Statement(text, quote),), **values)


def test_the_answer_cites_the_passage_that_holds_its_lines(site: Site) -> None:
    for number in range(20):
        example = assemble(
            seed(), site, reader(), random.Random(number), "What is the quota of home?"
        )
        mark = example.completion.removeprefix("The quota of home is 50 GB. [").removesuffix("]")
        shown = example.messages[-1].content.split("<passage>\n")[int(mark)]
        assert shown.startswith(f"[{mark}] ") and "50 GB" in shown


def test_a_page_that_the_search_missed_is_put_among_the_passages(site: Site) -> None:
    question = "Words about subject number 3 and nothing else here"
    example = assemble(seed(), site, reader(), random.Random(3), question)
    assert "50 GB" in example.messages[-1].content
    assert 1 <= example.messages[-1].content.count("<passage>") <= 3


def test_an_answer_that_is_not_in_the_prompt_is_dropped(site: Site) -> None:
    with pytest.raises(Dropped, match="answer in no chunk"):
        assemble(seed(quote="| nowhere | 1 |"), site, reader(), random.Random(1), "quota")


def test_an_answer_with_invented_numbers_is_dropped(site: Site) -> None:
    wrong = seed(text="The quota of home is 99 GB.")
    with pytest.raises(Dropped, match="check of numbers"):
        assemble(wrong, site, reader(), random.Random(1), "What is the quota of home?")


def test_two_statements_of_two_pages_get_a_mark_each(site: Site) -> None:
    both = Seed(
        "combined",
        "docs",
        "storage.md",
        "quota of home, and the default memory?",
        (
            Statement("The quota of home is 50 GB.", ROW),
            Statement("`--mem=SIZE`: the default is 4 GB.", "The default is 4 GB.", path="jobs.md"),
        ),
    )
    example = assemble(both, site, reader(), random.Random(1), both.question)
    marks = [part[0] for part in example.completion.split("[")[1:]]
    assert len(marks) == 2 and marks[0] != marks[1]


def test_code_stands_in_a_fence_under_a_cited_sentence(site: Site) -> None:
    command = "du -h --max-depth=1 ~ | sort -h"
    asked = Seed(
        "procedure",
        "docs",
        "storage.md",
        "find large folders",
        (Statement("To find large folders, run `du`:", command, command, "bash"),),
    )
    example = assemble(asked, site, reader(), random.Random(1), asked.question)
    first, fence, code, end = example.completion.split("\n")
    assert first.startswith("To find large folders, run `du`: [")
    assert (fence, code, end) == ("```bash", command, "```")


def test_near_misses_hold_neither_the_section_nor_the_facts(site: Site) -> None:
    for number in range(10):
        example = assemble_refusal(
            seed(), site, reader(), random.Random(number), seed().question, "refusal_near"
        )
        assert example.completion == REFUSALS["en"]
        assert squash("50 GB") not in squash(example.messages[-1].content)
        assert "<passage>" in example.messages[-1].content


def test_a_refusal_needs_a_fact_that_can_be_told_apart(site: Site) -> None:
    plain = seed(text="It depends on the project.", quote="Files in scratch")
    with pytest.raises(Dropped, match="no fact"):
        assemble_refusal(plain, site, reader(), random.Random(1), "quota?", "refusal_near")


def test_portuguese_questions_get_the_portuguese_refusal(site: Site) -> None:
    asked = seed(question="Qual é a cota da pasta home?")
    example = assemble_refusal(
        asked, site, reader(), random.Random(1), "Qual é a cota da pasta home?", "refusal_near"
    )
    assert example.completion == REFUSALS["pt"]


def test_key_facts_leave_out_what_the_question_says() -> None:
    asked = seed(text="`--mem`: 50 GB after 45 days.", question="what does --mem do")
    assert key_facts(asked) == {"50 GB", "45 days"}


def test_history_is_shown_where_the_question_leans_on_it(site: Site) -> None:
    history = (Turn("user", "What is the quota of scratch?"), Turn("assistant", "10 TB [1]"))
    asked = seed(question="and for home?", history=history)
    example = assemble(asked, site, reader(), random.Random(1), "and for home?")
    assert "Earlier in this conversation:\nUser: What is the quota of scratch?" in (
        example.messages[-1].content
    )
