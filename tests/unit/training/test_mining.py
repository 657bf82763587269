from __future__ import annotations

import random

import pytest

from hpcllm.training.mining.commands import mine_commands
from hpcllm.training.mining.entries import mine_entries
from hpcllm.training.mining.facts import mine_facts
from hpcllm.training.mining.messages import mine_messages
from hpcllm.training.mining.sentences import mine_sentences
from hpcllm.training.mining.tables import mine_tables
from hpcllm.training.records import Seed
from tests.unit.training.helpers import JOBS, STORAGE, document, sections


def mined(miner, text: str, seed: int = 1, **fields: str) -> list[Seed]:
    rng = random.Random(seed)
    return [found for section in sections(text, **fields) for found in miner(section, rng)]


def test_option_entries_are_asked_both_ways() -> None:
    found = mined(mine_entries, JOBS)
    assert [seed.kind for seed in found if "mem" in seed.statements[0].text] == [
        "option",
        "option_name",
    ]
    meaning, name = found[:2]
    assert "--mem" in meaning.question and "memory for each node" not in meaning.question.lower()
    assert "memory for each node" in name.question and "--mem" not in name.question
    assert meaning.statements[0].text == "`--mem=SIZE`: Memory for each node. The default is 4 GB."


def test_quotes_are_lines_of_the_page() -> None:
    for text, miner in ((JOBS, mine_entries), (STORAGE, mine_tables), (JOBS, mine_messages)):
        for seed in mined(miner, text):
            for statement in seed.statements:
                for line in statement.quote.split("\n"):
                    assert line in text.replace("\n", " ") or line in text


def test_table_cells_are_asked_by_row_and_column() -> None:
    found = mined(mine_tables, STORAGE)
    value = next(s for s in found if s.kind == "table_value" and "home" in s.question)
    text = value.statements[0].text
    assert text in {
        "The quota of home is 50 GB.",
        "home: quota 50 GB.",
        "The backup of home is nightly.",
        "home: backup nightly.",
    }
    assert value.statements[0].quote == "| home | 50 GB | nightly |"


def test_table_follow_up_has_the_other_row_in_its_history() -> None:
    (follow,) = [s for s in mined(mine_tables, STORAGE) if s.kind == "table_follow_up"]
    asked, told = follow.history
    names = {"home", "scratch"}
    (other,) = [n for n in names if n in asked.text]
    (own,) = names - {other}
    assert own in follow.question and own in follow.statements[0].text
    assert told.text.endswith("[1]")


def test_a_command_block_answers_its_heading_and_its_introduction() -> None:
    found = mined(mine_commands, STORAGE)
    assert {seed.kind for seed in found} == {"command_introduced", "procedure"}
    for seed in found:
        assert "find large folders" in seed.question.lower()
        assert seed.statements[0].code == "du -h --max-depth=1 ~ | sort -h"
        assert seed.statements[0].code_language == "bash"


def test_program_output_is_no_command() -> None:
    text = "# Page\n\n## Run it\n\nIt prints:\n\n```text\nslurmstepd: error: killed\n```\n"
    assert mined(mine_commands, text) == []


def test_prompts_of_transcripts_are_not_copied() -> None:
    text = "# Page\n\n## List files\n\nList:\n\n```console\n$ ls -l\ntotal 4\n$ pwd\n```\n"
    assert {s.statements[0].code for s in mined(mine_commands, text)} == {"ls -l\npwd"}


def test_error_rows_give_message_and_remedy() -> None:
    found = mined(mine_messages, JOBS)
    assert [seed.statements[0].text for seed in found] == [
        "Delete files or ask for more space.",
        "Choose another QOS.",
    ]
    assert all(
        message in seed.question
        for message, seed in zip(
            ["Disk quota exceeded", "Invalid qos specification"], found, strict=True
        )
    )


def test_bold_leads_give_message_and_remedy() -> None:
    text = "# Page\n\n## Trouble\n\n**`Connection refused`.** The server is down; wait a minute.\n"
    (seed,) = mined(mine_messages, text)
    assert "Connection refused" in seed.question
    assert seed.statements[0].text == "The server is down; wait a minute."


@pytest.mark.parametrize(
    ("sentence", "kind", "part"),
    [
        ("To list your jobs, use `squeue --me`.", "task", "list my jobs"),
        ("You cannot run jobs on the login nodes.", "permission", "Can I run jobs on the login"),
        ("If your job is killed, raise `--mem`.", "condition", "My job is killed"),
        ("The default time limit is 1 hour.", "value", "What is the default time limit?"),
        ("Old files in scratch are deleted after 45 days.", "passive", "old files"),
        ("`squeue` shows the jobs in the queue.", "meaning", "squeue"),
    ],
)
def test_sentences_become_the_questions_that_they_answer(
    sentence: str, kind: str, part: str
) -> None:
    found = mined(mine_sentences, f"# Page\n\n{sentence}\n")
    (seed,) = [s for s in found if s.kind == kind]
    assert part.lower() in seed.question.lower()
    assert seed.statements[0].text == sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "This is deleted after 45 days.",
        "See the following page for 3 examples of use.",
        "The limit of them is 4 GB for all.",
        "To this end, use the option of the 3 tools.",
    ],
)
def test_sentences_that_lean_on_others_are_left_out(sentence: str) -> None:
    assert mined(mine_sentences, f"# Page\n\n{sentence}\n") == []


def test_portuguese_sentences_get_portuguese_questions() -> None:
    text = "# Tempo\n\nO tempo padrão de um job é de 1 hora na fila, e não pode ser maior.\n"
    (seed,) = [s for s in mined(mine_sentences, text) if s.kind == "value"]
    assert seed.language == "pt"
    assert seed.question == "Qual é o tempo padrão de um job?"


def test_site_facts_are_answered_by_the_page_that_states_them() -> None:
    page = document("# Limits\n\nThe partition gpu allows 4 nodes per job.\n\nOther text.\n")
    facts = {"partition": [{"name": "gpu", "max_nodes_per_job": 4444}, {"name": "x", "a": "y"}]}
    assert list(mine_facts(facts, [page], random.Random(1))) == []
    page = document("# Limits\n\nThe partition gpu has a limit of 44 nodes for each job.\n")
    facts = {"partition": [{"name": "gpu", "limit_nodes": 44}]}
    (seed,) = mine_facts(facts, [page], random.Random(1))
    assert "partition gpu" in seed.question and "limit nodes" in seed.question
    assert "44" not in seed.question
    assert seed.statements[0].text == "The partition gpu has a limit of 44 nodes for each job."


def test_the_same_seed_mines_the_same() -> None:
    for miner in (mine_tables, mine_sentences, mine_commands, mine_entries):
        assert mined(miner, STORAGE + JOBS, 7) == mined(miner, STORAGE + JOBS, 7)
