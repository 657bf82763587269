from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hpcllm.cli.main import app
from hpcllm.errors import EvaluationError
from hpcllm.evaluation.reproduction import (
    agreements,
    read_reference,
    reference_of,
    reproduction_table,
    write_reference,
)
from hpcllm.evaluation.results import Results, write_results
from tests.unit.evaluation.helpers import results, row

IDS = [f"q-{n:03}" for n in range(20)]


def system(right: int, of: int, name: str = "s", **changes: Any) -> Results:
    """A system that gets the first ``right`` of so many questions right."""
    return results(name, [row(n, n < right, **changes) for n in range(of)])


REFERENCE = reference_of([system(10, 80)], IDS)


def test_the_reference_holds_all_questions_and_those_of_reruns() -> None:
    entry = REFERENCE["systems"]["s"]
    assert (entry["n"], entry["metrics"]["right"]["mean"]) == (80, 0.125)
    assert entry["rerun"]["n"] == 20 and entry["rerun"]["metrics"]["right"]["mean"] == 0.5
    # 20 questions, half of them right: 0.5 ± 1.96 * sqrt(0.25 / 20)
    assert entry["rerun"]["metrics"]["right"]["low"] == pytest.approx(0.28, abs=0.03)
    assert REFERENCE["rerun"]["count"] == 20


def test_the_same_answers_are_within_and_chance_is_allowed() -> None:
    for right in (10, 7, 13):
        found, missing = agreements([system(right, 20)], REFERENCE)
        assert missing == [] and all(each.is_within for each in found)
    found, _ = agreements([system(3, 20)], REFERENCE)
    by_name = {each.metric: each for each in found}
    assert not by_name["right"].is_within and by_name["right"].now == 0.15
    assert by_name["right"].whole == 0.125
    assert by_name["refused_wrong"].is_within


def test_unanimous_questions_leave_room_for_one_by_the_rule_of_three() -> None:
    bounds = REFERENCE["systems"]["s"]["rerun"]["metrics"]["refused_wrong"]
    assert (bounds["low"], bounds["high"]) == (0.0, 0.15)
    rows = [row(n, n < 10, scores={"refused_wrong": float(n < 3)}) for n in range(20)]
    found, _ = agreements([results("s", rows)], REFERENCE)
    assert all(each.is_within for each in found)
    rows = [row(n, n < 10, scores={"refused_wrong": float(n < 4)}) for n in range(20)]
    found, _ = agreements([results("s", rows)], REFERENCE)
    assert [each.metric for each in found if not each.is_within] == ["refused_wrong"]


def test_a_metric_that_is_gone_is_not_reproduced() -> None:
    rows = [row(n, n < 10, scores={"refused_wrong": None}) for n in range(20)]
    found, _ = agreements([results("s", rows)], REFERENCE)
    (gone,) = [each for each in found if each.metric == "refused_wrong"]
    assert gone.now is None and not gone.is_within


def test_systems_without_a_row_are_named() -> None:
    partial = reference_of([system(5, 10)], IDS)
    assert "rerun" not in partial["systems"]["s"]
    assert agreements([system(10, 20)], partial) == ([], ["s"])
    assert agreements([system(10, 20, "other")], REFERENCE) == ([], ["other"])


def test_other_questions_are_refused() -> None:
    for rerun in (system(10, 19), system(10, 20, question="Reworded?")):
        with pytest.raises(EvaluationError, match=r"asked other questions .* hpcllm eval publish"):
            agreements([rerun], REFERENCE)


def test_the_file_is_read_back_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with pytest.raises(EvaluationError, match=r"cannot be read.*hpcllm eval publish"):
        read_reference(path)
    write_reference(path, REFERENCE)
    assert read_reference(path) == REFERENCE
    path.write_text('{"format": 0}')
    with pytest.raises(EvaluationError, match="no reference of format 1"):
        read_reference(path)


def test_the_table_says_then_and_now() -> None:
    found, _ = agreements([system(3, 20)], REFERENCE)
    cells = reproduction_table(found, REFERENCE).rows[0]
    assert cells[:3] == ("s", "right", "12.5")
    assert cells[3].startswith("50.0 [") and cells[4:] == ("15.0", "OUTSIDE")


def test_from_publishing_to_a_rerun_on_the_command_line(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus" / "questions"
    corpus.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "hpcllm.toml").write_text('[site]\nname = "T"\n')
    (corpus / "smoke.txt").write_text("\n".join(IDS))
    place = "<!-- {0}: begin (hpcllm eval publish) -->\n<!-- {0}: end -->\n"
    (tmp_path / "README.md").write_text(place.format("short results"))
    (tmp_path / "docs" / "evaluation.md").write_text(place.format("results"))
    write_results(tmp_path / "results" / "test" / "s.jsonl", system(10, 80))
    run = CliRunner().invoke
    done = run(app, ["eval", "publish", "-w", str(tmp_path)])
    assert done.exit_code == 0, done.output
    for name in ("README.md", "docs/evaluation.md"):
        assert "| s | 80 | 12.5 [" in (tmp_path / name).read_text()

    rerun = tmp_path / "results" / "smoke" / "s.jsonl"
    write_results(rerun, system(11, 20))
    done = run(app, ["eval", "reproduce", "-w", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "| s | right | 12.5 | 50.0 [" in done.stdout and "| 55.0 | within |" in done.stdout
    write_results(rerun, system(20, 20))
    done = run(app, ["eval", "reproduce", "-w", str(tmp_path), "--json"])
    assert done.exit_code == 3 and '"reproduced": false' in done.stdout
