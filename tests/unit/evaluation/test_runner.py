from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from hpcllm.errors import BusyError, EvaluationError, GenerationError, HpcLlmError
from hpcllm.evaluation.answering import RawAnswer
from hpcllm.evaluation.cache import AnswerCache, answer_key
from hpcllm.evaluation.results import Results, read_results
from hpcllm.evaluation.runner import run_system
from hpcllm.evaluation.scoring import Scorer
from hpcllm.records import Question, Turn
from tests.unit.evaluation.helpers import FakeAnswerer, answer, failing, question, system

QUESTIONS = [question(n) for n in range(1, 7)]


def run(
    answerer: FakeAnswerer, folder: Path, questions: list[Question] = QUESTIONS, **options: Any
) -> Results:
    chosen = options.pop("system", system())
    return run_system(
        chosen,
        answerer,
        questions,
        results_dir=folder,
        make_scorer=options.pop("make_scorer", Scorer),
        sleep=options.pop("sleep", lambda _: None),
        **options,
    )


def test_rows_come_in_the_order_of_the_questions_and_are_written(tmp_path: Path) -> None:
    made = run(FakeAnswerer(), tmp_path, QUESTIONS[::-1])
    assert [row.id for row in made.rows] == [q.id for q in QUESTIONS[::-1]]
    assert read_results(tmp_path / "questions" / "test.jsonl").rows == made.rows


def test_the_header_says_what_produced_the_results(tmp_path: Path) -> None:
    header = run(FakeAnswerer(produced_by={"model": "m", "index_sha256": "x"}), tmp_path).header
    assert header.produced_by == {"model": "m", "index_sha256": "x"}
    assert header.questions["count"] == 6 and len(header.questions["sha256"]) == 64
    assert header.versions["hpcllm"] and header.versions["python"]
    assert header.summary["right"] == {"mean": 1.0, "standard_error": 0.0, "n": 6}
    assert header.settings["model"] == "extractive"


def test_known_answers_are_not_asked_again(tmp_path: Path) -> None:
    run(FakeAnswerer(), tmp_path, QUESTIONS[:4])
    again = FakeAnswerer()
    made = run(again, tmp_path, name="more")
    assert again.asked == ["q-005", "q-006"]
    assert made.header.run["reused"] == 4
    assert (tmp_path / "more" / "test.jsonl").is_file()


@pytest.mark.parametrize(
    "changes",
    [
        {"question": "Another wording?"},
        {"history": (Turn("user", "before"),)},
        {"cluster": "other"},
    ],
)
def test_a_changed_question_is_asked_again(tmp_path: Path, changes: dict[str, Any]) -> None:
    run(FakeAnswerer(), tmp_path, [question(1)])
    again = FakeAnswerer()
    run(again, tmp_path, [question(1, **changes)])
    assert again.asked == ["q-001"]


def test_new_gold_facts_are_scored_without_asking(tmp_path: Path) -> None:
    run(FakeAnswerer(), tmp_path, [question(1)])
    again = FakeAnswerer()
    made = run(again, tmp_path, [question(1, gold_facts=("70 GB",), fact_alternatives={})])
    assert again.asked == []
    assert made.rows[0].scores["right"] == 0.0


def test_another_model_or_index_is_asked_anew(tmp_path: Path) -> None:
    run(FakeAnswerer(produced_by={"model": "a"}), tmp_path)
    other = FakeAnswerer(produced_by={"model": "b"})
    run(other, tmp_path)
    assert len(other.asked) == 6


def test_a_failing_engine_is_tried_again_and_waited_for(tmp_path: Path) -> None:
    errors = [GenerationError("broke off"), BusyError("full", retry_after_s=7.0)]
    waits: list[float] = []

    def reply(_: Question) -> RawAnswer:
        if errors:
            raise errors.pop(0)
        return answer()

    made = run(FakeAnswerer(reply), tmp_path, [question(1)], sleep=waits.append)
    assert made.header.failed == 0
    assert waits == [1.0, 7.0]


def test_an_engine_that_fails_midway_is_recorded_and_counted(tmp_path: Path) -> None:
    def reply(asked: Question) -> RawAnswer:
        if asked.id in ("q-003", "q-005"):
            raise GenerationError("the server closed the connection")
        return answer()

    answerer = FakeAnswerer(reply)
    made = run(answerer, tmp_path)
    assert len(made.rows) == 6 and made.header.failed == 2
    assert answerer.asked.count("q-003") == 3
    failed = [row for row in made.rows if row.status == "failed"]
    assert [row.id for row in failed] == ["q-003", "q-005"]
    assert failed[0].error == "the server closed the connection"
    assert made.header.summary["right"]["mean"] == pytest.approx(4 / 6)


def test_failures_stay_until_they_are_asked_for(tmp_path: Path) -> None:
    run(FakeAnswerer(failing(GenerationError("down"))), tmp_path, [question(1)])
    kept = FakeAnswerer()
    assert run(kept, tmp_path, [question(1)]).header.failed == 1
    assert kept.asked == []
    assert run(kept, tmp_path, [question(1)], retry_failed=True).header.failed == 0


def test_a_question_that_cannot_be_asked_fails_at_once(tmp_path: Path) -> None:
    answerer = FakeAnswerer(failing(HpcLlmError("the question is too long")))
    made = run(answerer, tmp_path, [question(1)])
    assert answerer.asked == ["q-001"]
    assert made.rows[0].error == "the question is too long"


def test_a_defect_is_not_swallowed(tmp_path: Path) -> None:
    def reply(_: Question) -> RawAnswer:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(FakeAnswerer(reply), tmp_path)


def test_questions_run_at_the_same_time_where_it_is_allowed(tmp_path: Path) -> None:
    together = threading.Barrier(3, timeout=20)

    def reply(_: Question) -> RawAnswer:
        together.wait()
        return answer()

    made = run(FakeAnswerer(reply), tmp_path, system=system(parallel=3))
    assert [row.id for row in made.rows] == [q.id for q in QUESTIONS]


def test_progress_counts_known_answers_first(tmp_path: Path) -> None:
    run(FakeAnswerer(), tmp_path, QUESTIONS[:2])
    seen: list[tuple[int, int | None]] = []
    run(FakeAnswerer(), tmp_path, progress=lambda advance, total: seen.append((advance, total)))
    assert seen == [(2, 6), (1, None), (1, None), (1, None), (1, None)]


def test_the_scorer_is_made_after_all_is_answered(tmp_path: Path) -> None:
    answerer = FakeAnswerer()

    def make_scorer() -> Scorer:
        assert len(answerer.asked) == 6
        return Scorer()

    run(answerer, tmp_path, make_scorer=make_scorer)


def test_a_second_run_of_the_same_system_is_refused(tmp_path: Path) -> None:
    with (
        AnswerCache(tmp_path / "cache", {"model": "test"}),
        pytest.raises(EvaluationError, match="another run is answering"),
    ):
        run(FakeAnswerer(), tmp_path)


def test_a_line_cut_short_by_a_kill_is_dropped(tmp_path: Path) -> None:
    run(FakeAnswerer(), tmp_path)
    (journal,) = (tmp_path / "cache").glob("*.jsonl")
    journal.write_bytes(journal.read_bytes()[:-30])
    again = FakeAnswerer()
    assert len(run(again, tmp_path).rows) == 6
    assert again.asked == ["q-006"]
    assert journal.read_bytes().endswith(b"\n")


def test_a_damaged_line_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(FakeAnswerer(), tmp_path)
    (journal,) = (tmp_path / "cache").glob("*.jsonl")
    lines = journal.read_bytes().split(b"\n")
    lines[2] = b"\0" * len(lines[2])
    journal.write_bytes(b"\n".join(lines))
    again = FakeAnswerer()
    run(again, tmp_path)
    assert again.asked == ["q-002"]
    assert "line 3 is damaged" in caplog.text


def test_each_answer_is_on_disk_before_the_next_question(tmp_path: Path) -> None:
    def reply(asked: Question) -> RawAnswer:
        journal = next((tmp_path / "cache").glob("*.jsonl"))
        lines = journal.read_text(encoding="utf-8").count("\n")
        assert lines == int(asked.id.removeprefix("q-"))  # the first line says what produced it
        return answer()

    run(FakeAnswerer(reply), tmp_path)


def test_keys_depend_on_what_the_system_sees_alone() -> None:
    assert answer_key(question(1)) == answer_key(question(1, gold_facts=("x",), category="gpus"))
    assert answer_key(question(1)) != answer_key(question(2))
