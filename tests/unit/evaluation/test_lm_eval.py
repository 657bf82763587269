from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
import yaml

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.lm_eval_export import export_task
from hpcllm.evaluation.lm_eval_task import process_results
from hpcllm.records import Turn
from tests.unit.assistant.helpers import passages
from tests.unit.evaluation.helpers import question, unanswerable


class Loader(yaml.SafeLoader):
    """Reads the harness's own tag as text."""


Loader.add_constructor("!function", lambda loader, node: str(node.value))


def test_the_task_names_its_data_and_functions(tmp_path: Path) -> None:
    paths = export_task(tmp_path / "task", [question(1), unanswerable(2)])
    task = yaml.load(paths[0].read_text(), Loader)
    assert task["task"] == "hpcllm" and task["output_type"] == "generate_until"
    assert Path(task["dataset_kwargs"]["data_files"]["test"]) == paths[1].resolve()
    assert task["process_results"] == "utils.process_results"
    assert {m["metric"] for m in task["metric_list"]} == {"right", "facts_share", "facts_all"}


def test_rows_hold_prompt_facts_and_spellings(tmp_path: Path) -> None:
    asked = question(1, history=(Turn("user", "Earlier?"), Turn("assistant", "Yes.")))
    paths = export_task(tmp_path / "task", [asked], search=lambda _: passages()[:1])
    (row,) = map(json.loads, paths[1].read_text().splitlines())
    assert row["gold_facts"] == [{"fact": "50 GB", "alternatives": ["50 gigabytes"]}]
    assert row["prompt"].startswith("[1] GPU jobs\n")
    assert "User: Earlier?" in row["prompt"] and "Assistant: Yes." in row["prompt"]
    assert row["prompt"].endswith(f"Question: {asked.question}\nAnswer:")


def test_the_exported_functions_need_nothing_else(tmp_path: Path) -> None:
    paths = export_task(tmp_path / "task", [question(1)])
    source = paths[2].read_text()
    assert "import hpcllm" not in source and "from hpcllm" not in source
    exported = runpy.run_path(str(paths[2]))["process_results"]
    (row,) = map(json.loads, paths[1].read_text().splitlines())
    for text in ("It is 50 GB [1].", "250 GB", "The documentation does not say."):
        assert exported(row, [text]) == process_results(row, [text])
    assert exported(row, ["It is 50 gigabytes"])["right"] == 1.0


def test_scoring_by_hand() -> None:
    row = {
        "answerable": True,
        "gold_facts": [
            {"fact": "50 GB", "alternatives": []},
            {"fact": "2", "alternatives": ["two"]},
        ],
    }
    assert process_results(row, ["50 GB [2]"]) == {
        "right": 0.0,
        "facts_share": 0.5,
        "facts_all": 0.0,
    }
    assert process_results(row, ["50 GB, two"])["right"] == 1.0
    nothing = {"answerable": False, "gold_facts": []}
    assert process_results(nothing, ["I do not know."])["right"] == 1.0
    assert process_results(nothing, ["It is 50 GB."])["right"] == 0.0


def test_an_earlier_export_is_replaced_and_other_folders_are_not(tmp_path: Path) -> None:
    export_task(tmp_path / "task", [question(1)])
    export_task(tmp_path / "task", [question(2)])
    (tmp_path / "task" / "thesis.tex").write_text("years of work")
    with pytest.raises(EvaluationError, match=r"holds thesis\.tex.*name an empty folder"):
        export_task(tmp_path / "task", [question(3)])


def test_nothing_to_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="no question to export"):
        export_task(tmp_path / "task", [])
