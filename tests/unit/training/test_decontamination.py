from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcllm.errors import TrainingError
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.training.decontamination import (
    Text,
    example_texts,
    find_overlaps,
    question_texts,
)

LONG = "how many nodes can one job of mine use in the large partition"


def questions(*texts: str) -> list[Text]:
    return [Text(f"q{n}", "question", text) for n, text in enumerate(texts)]


def examples(*texts: str) -> list[Text]:
    return [Text(f"e{n}", "question", text) for n, text in enumerate(texts)]


def test_equal_questions_are_hits_whatever_their_case_and_marks() -> None:
    report = find_overlaps(examples("Memory limit, GPU?"), questions("memory limit gpu"))
    assert [(o.kind, o.example, o.question) for o in report.hits] == [("exact", "e0", "q0")]


def test_eight_shared_words_in_a_row_are_a_hit_and_seven_are_not() -> None:
    eight = " ".join(LONG.split()[:8])
    seven = " ".join(LONG.split()[:7])
    found = find_overlaps(examples(f"{eight} x", f"{seven} y"), questions(LONG))
    assert [(o.kind, o.example) for o in found.hits] == [("n-gram", "e0")]
    assert found.hits[0].score == pytest.approx(1 / (len(LONG.split()) - 7), abs=1e-4)


def test_answers_are_compared_with_answers_only_as_a_whole() -> None:
    asked = [Text("q0", "answer", f"{LONG} and then some more words that follow on here")]
    part = [Text("e0", "answer", " ".join(LONG.split()[:9]))]
    whole = [Text("e1", "answer", asked[0].text)]
    as_question = [Text("e2", "question", asked[0].text)]
    assert not find_overlaps(part, asked).hits
    assert find_overlaps(whole, asked).hits
    assert not find_overlaps(as_question, asked).hits


def test_the_same_words_in_another_order_are_found_by_embedding() -> None:
    report = find_overlaps(
        examples("quota home large how"), questions("how large home quota"), embedder=HashEmbedder()
    )
    assert [o.kind for o in report.hits] == ["embedding"]


def test_the_report_names_pairs_for_people() -> None:
    report = find_overlaps(examples("memory limit | gpu"), questions("memory limit gpu"))
    assert "**1 hits**" in report.to_markdown()
    assert "memory limit \\| gpu" in report.to_markdown()
    assert report.to_json()["hits"] == 1


def test_fixed_refusals_are_not_compared() -> None:
    rows = [
        {"id": "a", "kind": "refusal_near", "question": "x", "completion": "no"},
        {"id": "b", "kind": "faq", "question": "y", "completion": "yes"},
    ]
    assert [(t.id, t.role) for t in example_texts(rows)] == [
        ("a", "question"),
        ("b", "question"),
        ("b", "answer"),
    ]


def test_questions_are_read_with_the_answers_of_the_answerable_ones(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "question": "a", "answerable": True, "gold_answer": "b"},
        {"id": "2", "question": "c", "answerable": False, "gold_answer": "it lacks d"},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert [(t.id, t.role) for t in question_texts([tmp_path])] == [
        ("1", "question"),
        ("1", "answer"),
        ("2", "question"),
    ]


def test_a_line_that_is_no_question_is_named(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": 1}', encoding="utf-8")
    with pytest.raises(TrainingError, match=r"line 1 is no question: expected .*question"):
        question_texts([tmp_path])
