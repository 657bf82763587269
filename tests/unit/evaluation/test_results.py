from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.results import find_results, read_results, write_results
from tests.unit.evaluation.helpers import results, row


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    made = results("one", [row(1, True, text="a\u2028b"), row(2, False)])
    write_results(tmp_path / "one.jsonl", made)
    read = read_results(tmp_path / "one.jsonl")
    assert read.header == made.header
    assert read.rows == made.rows


def test_an_older_format_is_refused_by_name(tmp_path: Path) -> None:
    made = results("one", [row(1, True)])
    write_results(tmp_path / "old.jsonl", replace(made, header=replace(made.header, format=0)))
    with pytest.raises(
        EvaluationError, match=r"old\.jsonl is of an older format 0.*reads format 1"
    ):
        read_results(tmp_path / "old.jsonl")


def test_a_newer_format_is_refused_too(tmp_path: Path) -> None:
    made = results("one", [row(1, True)])
    write_results(tmp_path / "new.jsonl", replace(made, header=replace(made.header, format=9)))
    with pytest.raises(EvaluationError, match="newer or unknown format 9"):
        read_results(tmp_path / "new.jsonl")


@pytest.mark.parametrize("content", ["", "{}\n", '{"id": "q-1", "question": "x"}\n', "[]\n"])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(EvaluationError, match=r"x\.jsonl is no result file.*hpcllm eval run"):
        read_results(tmp_path / "x.jsonl")


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    write_results(tmp_path / "a.jsonl", results("one", [row(1, True)]))
    text = (tmp_path / "a.jsonl").read_text()
    (tmp_path / "a.jsonl").write_text(text[:-20])
    with pytest.raises(EvaluationError, match=r"a\.jsonl line 2 is damaged"):
        read_results(tmp_path / "a.jsonl")


def test_a_row_with_a_missing_field_is_damaged(tmp_path: Path) -> None:
    write_results(tmp_path / "a.jsonl", results("one", [row(1, True)]))
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    short = {k: v for k, v in json.loads(lines[1]).items() if k != "scores"}
    (tmp_path / "a.jsonl").write_text(f"{lines[0]}\n{json.dumps(short)}\n")
    with pytest.raises(EvaluationError, match=r"damaged.*scores"):
        read_results(tmp_path / "a.jsonl")


def test_folders_are_read_in_order_of_names(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_results(tmp_path / f"{name}.jsonl", results(name, [row(1, True)]))
    assert [r.header.system for r in find_results([tmp_path])] == ["a", "b"]
    with pytest.raises(EvaluationError, match=r"same system \(a\)"):
        find_results([tmp_path, tmp_path / "a.jsonl"])


def test_no_results_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="hpcllm eval run"):
        find_results([tmp_path])
    with pytest.raises(EvaluationError, match="does not exist: make it with hpcllm eval run"):
        read_results(tmp_path / "none.jsonl")
