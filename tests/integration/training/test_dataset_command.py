"""``hpcllm dataset`` from the command line, over a small workspace with an index of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcllm.cli.dataset import SMALLEST_BASE, _learner
from hpcllm.models.catalog import load_catalog
from hpcllm.workspace import Workspace
from tests.integration.training.tiny import MODEL_ID, Tiny, hpcllm, make_tiny, write_site

pytest.importorskip("torch", reason="needs hpcllm[train]: the tiny model is made with it")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    made = make_tiny(tmp_path_factory.mktemp("tiny"))
    write_site(made)
    questions = made.workspace / "training" / "questions"
    questions.mkdir()
    row = {
        "question": "how much room is there for my own files",
        "answer": "50 GB in home.",
        "facts": ["50 GB"],
        "source": "docs",
        "path": "storage.md",
        "heading": "Scratch",
    }
    (questions / "docs.jsonl").write_text(json.dumps(row), encoding="utf-8")
    done = hpcllm(made, "ingest")
    assert done.returncode == 0, done.stderr
    return made


def test_a_data_set_is_built_described_and_found_clean(tiny: Tiny) -> None:
    done = hpcllm(tiny, "dataset", "build", "--size", "20")
    assert done.returncode == 0, done.stderr
    path = tiny.workspace / "training" / "data" / f"{MODEL_ID}.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert any(row["question"] == "how much room is there for my own files" for row in rows)
    sheet = json.loads(path.with_suffix(".datasheet.json").read_text(encoding="utf-8"))
    assert sheet["examples"] == len(rows)
    stats = hpcllm(tiny, "dataset", "stats", "--json")
    assert json.loads(stats.stdout)["by_source"] == {"docs": len(rows)}
    check = hpcllm(tiny, "dataset", "check")
    assert check.returncode == 0, check.stderr
    assert "0 hits" in check.stdout


def test_where_answers_are_extracts_the_smallest_base_learns(tmp_path: Path) -> None:
    """An extract is no model: the commands of training/README.md name none either."""
    (tmp_path / "hpcllm.toml").write_text('[model]\nid = "extractive"\n', encoding="utf-8")
    space = Workspace.find(tmp_path)
    assert _learner(space, None) == SMALLEST_BASE
    assert _learner(space, "tiny") == "tiny"
    assert load_catalog(space.catalog_file).get(SMALLEST_BASE).kind == "generator"


def test_an_evaluation_question_is_a_hit_and_left_out_of_the_next_build(tiny: Tiny) -> None:
    assert hpcllm(tiny, "dataset", "build", "--size", "20").returncode == 0
    questions = tiny.workspace / "asked.jsonl"
    asked = {"id": "q1", "question": "How much room is there for my own files?"}
    questions.write_text(json.dumps(asked), encoding="utf-8")
    check = hpcllm(tiny, "dataset", "check", "--against", str(questions))
    assert check.returncode == 1
    assert "question q1 (exact)" in check.stderr
    report = tiny.workspace / "training" / "data" / f"{MODEL_ID}.overlap.md"
    assert "| exact | 1.000 |" in report.read_text(encoding="utf-8")
    again = hpcllm(tiny, "dataset", "build", "--size", "20", "--against", str(questions))
    assert again.returncode == 0, again.stderr
    assert hpcllm(tiny, "dataset", "check", "--against", str(questions)).returncode == 0


def test_a_missing_data_set_names_the_command(tiny: Tiny) -> None:
    done = hpcllm(tiny, "dataset", "stats", "nowhere.jsonl")
    assert done.returncode == 1
    assert "Make it with: hpcllm dataset build" in done.stderr
