from __future__ import annotations

import pytest

from hpcllm.assistant.check import check_answer, citations_of, marks_in, quote_for

from .helpers import passages

ASKED = "How do I request two cards for 12 hours?"


def outcome(text: str, question: str = ASKED) -> dict[str, bool]:
    return {check.name: check.passed for check in check_answer(text, passages(), question=question)}


def detail(text: str, name: str, question: str = ASKED) -> str:
    return next(
        c.detail for c in check_answer(text, passages(), question=question) if c.name == name
    )


def test_a_good_answer_passes_everything() -> None:
    text = "Use `--gres=gpu:a100:2` in the partition gpu; its limit is 24 hours [1]."
    assert outcome(text) == dict.fromkeys(("citations", "cited", "commands", "numbers"), True)


def test_a_mark_without_a_passage_fails() -> None:
    assert detail("Use the partition gpu [7].", "citations") == "no passage has the number 7"


def test_an_answer_without_marks_fails_twice() -> None:
    text = "Use the partition gpu for this."
    assert not outcome(text)["citations"] and not outcome(text)["cited"]
    assert detail(text, "citations") == "the answer cites nothing"


def test_a_mark_covers_the_sentences_before_it_in_its_paragraph_only() -> None:
    assert outcome("Use the gpu partition. It has cards [1].")["cited"]
    assert not outcome("Use the gpu partition [1]. It has the best cards.")["cited"]
    assert not outcome("Use the gpu partition.\n\nIt has cards [1].")["cited"]


def test_a_mark_after_code_covers_it_and_an_introduction_needs_none() -> None:
    assert outcome("Write these lines:\n\n```\n#SBATCH --gres=gpu:a100:2\n```\n[1]")["cited"]


@pytest.mark.parametrize("text", ["x[0] = 1", "`a[1]`", "```\nb[2]\n```"])
def test_brackets_in_code_are_no_marks(text: str) -> None:
    assert marks_in(text.replace("x[0] = 1", "")) == []


def test_one_mark_may_hold_several_numbers() -> None:
    assert marks_in("Both [1, 3] and [2].") == [1, 3, 2]


@pytest.mark.parametrize(
    "invented",
    [
        "Use --gpus-per-card [1].",
        "Use `--constraint=a100` [1].",
        "Look in /opt/cards/list [1].",
        "Set CARD_COUNT_MAX first [1].",
        "Load cuda/12.1 first [1].",
        "```\nsbatch --partition=turbo job.sh\n```\n[1]",
        "Run:\n\n```bash\nrequest_cards now\n```\n[1]",
    ],
)
def test_invented_commands_fail(invented: str) -> None:
    assert not outcome(invented)["commands"]


def test_what_was_invented_is_named() -> None:
    found = detail("Use --gpus-per-card and --warp [1].", "commands")
    assert found == "not in the cited passages: --gpus-per-card, --warp"


@pytest.mark.parametrize(
    "adapted",
    [
        "```\n#SBATCH --gres=gpu:a100:4\n#SBATCH --time=36:00:00\n```\n[1]",
        "Use `--gres=gpu:a100:1` [1].",
        "Put it in /scratch/project [3].",
    ],
)
def test_values_inside_known_options_are_the_users_own(adapted: str) -> None:
    assert outcome(adapted)["commands"]


def test_only_cited_passages_count() -> None:
    assert outcome("Set --mail-type=END [2].")["commands"]
    assert not outcome("Set --mail-type=END [1].")["commands"]


def test_names_in_the_question_may_be_repeated() -> None:
    question = "Does --exclusive help?"
    assert outcome("The passages name no `--exclusive` [1].", question)["commands"]


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("The limit is 24 hours [1].", True),
        ("The limit is 48 hours [1].", False),
        ("The limit is 7days [1].", True),
        ("The quota is 50GB [3].", True),
        ("The quota is 500 GB [3].", False),
        ("You asked for 12 hours and 2 cards [3].", True),
        ("1. First step for the cards [1].", True),
    ],
)
def test_numbers_come_from_the_passages_or_the_question(text: str, passed: bool) -> None:
    assert outcome(text)["numbers"] is passed


def test_thousands_are_the_same_with_and_without_separator() -> None:
    checks = check_answer(
        "At most 300,000 files [1].", [passages()[0].__class__(**_with("300000 files"))]
    )
    assert all(check.passed for check in checks)


def _with(text: str) -> dict[str, object]:
    first = passages()[0]
    return {name: getattr(first, name) for name in first.__slots__} | {"text": text}


def test_citations_quote_the_lines_that_support_the_claim() -> None:
    found = citations_of("The limit is 7 days in gpu-long [1]. Quota: 50 GB [3].", passages())
    assert [citation.number for citation in found] == [1, 3]
    assert "| gpu-long | 7 days | 2 |" in found[0].quote
    assert "50 GB" in found[1].quote


def test_a_claim_that_shares_nothing_still_quotes_something() -> None:
    assert quote_for("zebra", passages()[2]).startswith("Each user")
