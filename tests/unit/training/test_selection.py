from __future__ import annotations

from hpcllm.training.selection import choose


def row(kind: str, answer: str, question: str = "q") -> dict[str, str]:
    return {"kind": kind, "completion": answer, "question": question, "path": "a.md"}


ROWS = [
    row("option", "m1"),
    row("hand_how_to", "h1"),
    row("hand_how_to", "h1", "another wording"),
    row("table", "m2"),
    row("hand_email", "h2"),
    row("refusal_hand", "no", "q1"),
    row("refusal_hand", "no", "q2"),
    row("value", "m3"),
]


def answers(rows: list[dict[str, str]]) -> list[str]:
    return [r["completion"] for r in rows]


def test_without_a_limit_all_are_taken() -> None:
    assert choose(ROWS, limit=0, hand_share=0.5) == ROWS
    assert choose(ROWS, limit=99, hand_share=None) == ROWS


def test_without_a_share_the_first_are_taken() -> None:
    assert answers(choose(ROWS, limit=3, hand_share=None)) == ["m1", "h1", "h1"]


def test_each_answer_comes_before_a_second_wording() -> None:
    chosen = choose(ROWS, limit=6, hand_share=2 / 3)
    assert answers(chosen) == ["m1", "h1", "m2", "h2", "no", "no"]
    assert [r["question"] for r in chosen if r["kind"] == "refusal_hand"] == ["q1", "q2"]


def test_mined_ones_fill_what_the_hand_written_do_not() -> None:
    assert answers(choose(ROWS, limit=7, hand_share=1.0)) == [
        "m1", "h1", "h1", "m2", "h2", "no", "no",
    ]  # fmt: skip
    assert answers(choose(ROWS, limit=4, hand_share=0.25)) == ["m1", "h1", "m2", "m3"]
