from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.questions import load_questions
from hpcllm.evaluation.selection import read_ids, select_questions
from hpcllm.evaluation.split import are_twins, group_questions, pick, write_split
from hpcllm.records import Question, Turn
from hpcllm.workspace import reference_root
from tests.unit.evaluation.helpers import question, unanswerable

CATEGORIES = ("storage", "gpus")


def many(count: int = 100) -> list[Question]:
    questions = []
    for n in range(count):
        category = CATEGORIES[n % 4 == 0]
        if n % 10 == 0:
            questions.append(unanswerable(n, category=category))
        else:
            questions.append(question(n, category=category, gold_facts=(f"fact {n}",)))
    return questions


def groups(questions: list[Question]) -> list[list[Question]]:
    return group_questions(questions, {})


def test_strata_keep_their_shares() -> None:
    questions = many()
    chosen = pick(groups(questions), 20, seed=1)
    counts = Counter((q.category, q.answerable) for q in questions if q.id in chosen)
    everything = Counter((q.category, q.answerable) for q in questions)
    assert len(chosen) == 20
    assert all(abs(counts[s] - everything[s] / 5) < 1 for s in everything)


def test_the_same_seed_gives_the_same_choice_in_any_order() -> None:
    questions = many()
    assert pick(groups(questions), 20, seed=1) == pick(groups(questions[::-1]), 20, seed=1)
    assert pick(groups(questions), 20, seed=1) != pick(groups(questions), 20, seed=2)


def test_follow_ups_twins_and_marks_stay_together() -> None:
    first = question(1, question="How long is my account valid?")
    follow_up = question(2, history=(Turn("user", "how long is my account valid?"),))
    twin = question(3, language="pt", gold_pages=("b.md", "a.md"), gold_facts=("50 gigabytes",))
    english = question(4, gold_pages=("a.md",))
    marked, other = question(5, gold_pages=("c.md",)), question(6, gold_pages=("d.md",))
    found = group_questions(
        [first, follow_up, twin, english, marked, other], {"q-005": "x", "q-006": "x"}
    )
    assert [[q.id for q in g] for g in found] == [
        ["q-001", "q-002"], ["q-003", "q-004"], ["q-005", "q-006"],
    ]  # fmt: skip


def test_twins_need_a_page_and_all_facts_in_common() -> None:
    one = question(1, gold_facts=("2 days",), fact_alternatives={"2 days": ("2 dias",)})
    same = question(2, gold_facts=("2 dias",), fact_alternatives={})
    assert are_twins(one, same)
    assert not are_twins(one, question(3, gold_facts=("3 dias",), fact_alternatives={}))
    assert not are_twins(one, question(4, gold_facts=("2 dias",), gold_pages=("x.md",)))
    assert not are_twins(one, question(5, gold_facts=("2 dias", "x"), fact_alternatives={}))


def test_too_many_are_refused() -> None:
    with pytest.raises(EvaluationError, match="9 questions are wanted and there are 5"):
        pick(groups([question(n, gold_pages=(f"{n}.md",)) for n in range(5)]), 9, seed=1)


def test_groups_that_do_not_fit_are_refused() -> None:
    pair = [[question(1), question(2)], [question(3), question(4)]]
    with pytest.raises(EvaluationError, match="do not allow exactly 3"):
        pick(pair, 3, seed=1)


def test_only_the_split_is_written(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"q-{n:03}", "question": f"número {n}?", "answerable": True, "category": "gpus",
            "gold_pages": [f"{n}.md"], "gold_facts": [f"{n} GB"], "gold_answer": f"{n} GB",
        }
        for n in range(30)
    ]  # fmt: skip
    path = tmp_path / "all.jsonl"
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
    counts = write_split(tmp_path, dev=6, smoke=4, subset=8, seed=3)
    assert counts == {
        "dev": 6, "test": 24, "smoke.txt": 4, "subset-8.txt": 8, "golden.txt": 6,
    }  # fmt: skip
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert [{k: v for k, v in r.items() if k != "split"} for r in written] == rows
    assert "número" in path.read_text()
    test = {r["id"] for r in written if r["split"] == "test"}
    subset, smoke = (set(read_ids(tmp_path / name)) for name in ("subset-8.txt", "smoke.txt"))
    assert smoke < subset < test
    before = path.read_text()
    write_split(tmp_path, dev=6, smoke=4, subset=8, seed=3)
    assert path.read_text() == before


def test_the_reference_questions_are_split_as_stated() -> None:
    folder = reference_root() / "corpus" / "questions"
    questions = load_questions(folder)
    split = {q.id: q.split for q in questions}
    assert Counter(split.values()) == {"dev": 200, "test": 800}
    for group in group_questions(questions, {}):
        assert len({split[q.id] for q in group}) == 1
    lists = (("smoke.txt", 100, "test"), ("subset-150.txt", 150, "test"), ("golden.txt", 60, "dev"))
    for name, count, of in lists:
        ids = read_ids(folder / name)
        assert len(ids) == count and {split[i] for i in ids} == {of}


def test_selection_by_split_ids_and_number() -> None:
    questions = [question(n, split="dev" if n < 2 else "test") for n in range(10)]
    assert [q.id for q in select_questions(questions, split="dev")] == ["q-000", "q-001"]
    assert [q.id for q in select_questions(questions, ids=["q-003", "q-001"])] == ["q-001", "q-003"]
    assert [q.id for q in select_questions(questions, limit=3)] == ["q-000", "q-003", "q-006"]
    assert select_questions(questions, limit=50) == questions


def test_selection_errors_say_what_to_do() -> None:
    with pytest.raises(EvaluationError, match=r"1 unknown question id.*'q-0001'; did you mean"):
        select_questions([question(1)], ids=["q-0001"])
    with pytest.raises(EvaluationError, match="hpcllm eval questions split"):
        select_questions([question(1)], split="dev")


def test_lists_of_ids_may_have_comments(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("# golden\nq-001  # the quota\n\nq-002\n")
    assert read_ids(tmp_path / "ids.txt") == ["q-001", "q-002"]
    (tmp_path / "none.txt").write_text("# nothing\n")
    with pytest.raises(EvaluationError, match="one id a line"):
        read_ids(tmp_path / "none.txt")
    with pytest.raises(EvaluationError, match="cannot be read"):
        read_ids(tmp_path / "absent.txt")
