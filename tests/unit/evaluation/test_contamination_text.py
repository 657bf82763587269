from __future__ import annotations

from typing import Any

from hpcllm.evaluation.contamination_text import CANDIDATES, contamination_markdown

ASKED = {"q-1": "How large | is my\nhome quota?", "q-2": "x" * 300}


def hit(question: str, kind: str, score: float) -> dict[str, Any]:
    return {
        "question": question,
        "kind": kind,
        "training": "t.jsonl:7",
        "text": "my home",
        "score": score,
    }


def data(**changes: Any) -> dict[str, Any]:
    return {"questions": 1000, "examples": 8107, "hits": [], "candidates": [], **changes}


def test_clean_data_is_said_to_be_clean() -> None:
    text = contamination_markdown(data(), ASKED)
    assert "8,107 texts" in text and "1,000 evaluation questions" in text
    assert "**No question stands in the training data.**" in text
    assert "|" not in text and "Only" not in text


def test_what_was_found_stands_side_by_side() -> None:
    hits = [hit("q-1", "string", 1.0), hit("q-1", "n-gram", 0.625), hit("q-2", "string", 1.0)]
    text = contamination_markdown(data(hits=hits), ASKED)
    assert "**2 questions found: 1 by n-gram, 2 by string.**" in text
    row = "| q-1 | string | 1.000 | t.jsonl:7 | How large \\| is my home quota? | my home |"
    assert row in text
    assert "x" * 160 + "…" in text and "x" * 161 not in text


def test_candidates_are_listed_up_to_a_limit() -> None:
    near = [hit("q-1", "paraphrase", 0.9)] * (CANDIDATES + 3)
    text = contamination_markdown(data(candidates=near), ASKED)
    assert text.count("| q-1 | paraphrase | 0.900 |") == CANDIDATES
    assert "3 more are less close." in text


def test_origins_and_signs_of_the_model() -> None:
    text = contamination_markdown(
        data(
            limit=500,
            training=[{"file": "t.jsonl", "sha256": "ab12", "texts": 1200}],
            questions_sha256="cd34",
            closed_book={
                "system": "bare",
                "right": {"estimate": 0.02, "low": 0.01, "high": 0.03, "n": 705},
                "ids": ["q-1", "q-2"],
            },
            perplexity={"n": 12, "question": 2.71828, "difference": {"low": -0.5, "high": 0.25}},
        ),
        ASKED,
    )
    assert "Only 500 texts were taken, evenly spread." in text
    assert "- `t.jsonl`, 1,200 texts, SHA-256 `ab12`" in text
    assert "- questions, SHA-256 `cd34`" in text
    assert "bare answers 2.0% of 705 answerable questions right" in text
    assert "(95 % interval 1.0% to 3.0%): q-1, q-2." in text
    assert "n 12, question 2.718, difference low -0.5 high 0.25." in text
