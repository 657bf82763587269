from __future__ import annotations

import json
from pathlib import Path

from hpcllm.server.store import Store
from hpcllm.ui.proposals import propose_question
from tests.unit.server.helpers import QUESTION, answer


def test_a_bad_answer_becomes_a_question_once(tmp_path: Path, store: Store) -> None:
    recorded = store.record_answer(answer(), channel="web", cluster="meridian")
    path = tmp_path / "proposals" / "questions.jsonl"
    assert propose_question(path, recorded)
    assert not propose_question(path, recorded)
    (line,) = path.read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    assert row["id"] == f"staff-{'a' * 16}" and row["question"] == QUESTION
    assert row["gold_pages"] == ["docs/storage.md"] and row["cluster"] == "meridian"
    assert row["answerable"] is True and row["gold_facts"] == []


def test_what_was_not_documented_is_proposed_as_unanswerable(tmp_path: Path, store: Store) -> None:
    recorded = store.record_answer(answer(abstained=True), channel="web")
    path = tmp_path / "questions.jsonl"
    propose_question(path, recorded)
    row = json.loads(path.read_text(encoding="utf-8"))
    assert row["answerable"] is False and row["gold_pages"] == []
