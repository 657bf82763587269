from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.facts import holds_fact, normalise
from hpcllm.evaluation.questions import (
    check_counts,
    check_questions,
    count_questions,
    load_questions,
    near_duplicates,
    parse_question,
)
from hpcllm.records import Turn
from tests.unit.evaluation.helpers import question, unanswerable

ROW: dict[str, Any] = {
    "id": "q-1", "question": "How large is home?", "category": "storage", "kind": "how_to",
    "difficulty": "easy", "language": "en", "answerable": True, "gold_pages": ["docs/a.md"],
    "gold_facts": ["50 GB"], "gold_answer": "50 GB.",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fact", "held"),
    [
        ("You have 56 GB", "56", True), ("You have 256 GB", "56", False), ("0.10", "10", False),
        ("use `--mem=4G`", "--mem=4G", True), ("use --mem=4GB", "--mem=4G", False),
        ("**Two**  days", "two days", True), ("", "x", False), ("x", "", False),
        ("a.b", "b", False), ("ends with 10.", "10", True), ("C++ code", "c++", True),
    ],
)  # fmt: skip
def test_facts_stand_as_whole_tokens(text: str, fact: str, held: bool) -> None:
    assert holds_fact(text, fact) is held


def test_other_spellings_count() -> None:
    assert holds_fact("two days", "2 days", ["two days"])


@given(st.text(max_size=60))
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def write(folder: Path, *lines: str) -> Path:
    path = folder / "q.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_questions_are_read_with_history_and_spellings(tmp_path: Path) -> None:
    row = ROW | {
        "history": [{"role": "user", "text": "before"}],
        "fact_alternatives": {"50 GB": ["50 gigabytes"]},
        "split": "dev",
        "group": "g",
    }
    (read,) = load_questions(write(tmp_path, json.dumps(row), ""))
    assert read.history == (Turn("user", "before"),)
    assert read.fact_alternatives == {"50 GB": ("50 gigabytes",)}
    assert read.split == "dev"


def test_all_malformed_lines_are_listed(tmp_path: Path) -> None:
    lines = ["{", json.dumps(ROW), json.dumps(ROW | {"answerable": "yes"}), "[]"]
    with pytest.raises(EvaluationError) as caught:
        load_questions(write(tmp_path, *lines))
    text = str(caught.value)
    assert "3 malformed" in text
    assert "q.jsonl line 1" in text
    assert "line 3: 'answerable' must be bool, got 'yes'" in text
    assert "line 4: expected a JSON object, got list" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gold_fact": []}, r"unknown field 'gold_fact'; did you mean 'gold_facts'"),
        ({"gold_facts": []}, "an answerable question needs gold_facts"),
        ({"id": 7}, "'id' must be str, got 7"),
        ({"history": ["x"]}, "history must be a list"),
        ({"history": [{"role": "user"}]}, "history must be a list"),
    ],
)
def test_wrong_fields_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_question(ROW | changes)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"holds no question files: expected \*\.jsonl"):
        load_questions(tmp_path)
    with pytest.raises(EvaluationError, match="does not exist: expected a question file"):
        load_questions(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(EvaluationError, match="cannot be read as UTF-8"):
        load_questions(tmp_path / "latin.jsonl")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Home has 50 GB.")
    return tmp_path


def problems(corpus: Path, **changes: Any) -> list[str]:
    return check_questions([parse_question(ROW | changes)], corpus)


def test_a_sound_question_has_no_problems(corpus: Path) -> None:
    assert problems(corpus) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"category": "storag"}, "category 'storag' is unknown; did you mean 'storage'?"),
        ({"gold_pages": ["docs/b.md"]}, "gold page docs/b.md does not exist"),
        ({"gold_pages": []}, "gold_pages is empty"),
        ({"gold_answer": ""}, "gold_answer is empty"),
        ({"gold_answer": "60 GB"}, "gold_answer lacks the fact '50 GB'"),
        ({"gold_facts": ["60 GB"], "gold_answer": "60 GB"}, "does not stand in docs/a.md"),
        ({"question": "Is it 50 GB?"}, "stands in the question already"),
        ({"fact_alternatives": {"x": ["y"]}}, "names 'x', which is no gold fact"),
        ({"answerable": False}, "neither gold_pages nor gold_facts"),
    ],
)
def test_unsound_questions_are_told(corpus: Path, changes: dict[str, Any], message: str) -> None:
    assert any(message in problem for problem in problems(corpus, **changes))


def test_ids_must_be_unique() -> None:
    found = check_questions([unanswerable(1), unanswerable(1, question="Other?")], Path("none"))
    assert "q-001: used 2 times" in found


def test_near_duplicates_share_most_word_pairs() -> None:
    one = question(1, question="how do I ask for two GPUs on the gpu partition of meridian")
    same = question(2, question="How do I ask for two GPUs on the gpu partition of Meridian?")
    other = question(3, question="how do I ask for more memory on the cpu partition")
    follow_up = question(4, question=same.question, history=(Turn("user", "and a long time ago"),))
    assert near_duplicates([one, same, other, follow_up]) == [("q-001", "q-002")]


def test_counts_by_hand() -> None:
    questions = [question(1), question(2, language="pt"), unanswerable(3, kind="unanswerable")]
    counts = count_questions(questions)
    assert counts["total"] == {"questions": 3}
    assert counts["language"] == {"en": 2, "pt": 1}
    assert counts["answerable"] == {"yes": 2, "no": 1}
    assert check_counts(questions, {"total": {"questions": 3}, "language": {"pt": 1}}) == []
    assert check_counts(questions, {"kind": {"follow_up": 60}}) == [
        "kind follow_up: 0 questions, stated are 60"
    ]
