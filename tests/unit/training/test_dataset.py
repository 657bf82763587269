from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcllm.errors import TrainingError
from hpcllm.training.dataset import (
    BuildSettings,
    SiteMaterial,
    build_examples,
    read_examples,
    write_examples,
)
from hpcllm.training.datasheet import describe, to_markdown
from hpcllm.training.records import Example
from tests.unit.training.helpers import JOBS, STORAGE, document, make_site, reader


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> list[SiteMaterial]:
    def pages(source: str) -> list:
        texts = {"storage.md": STORAGE, "jobs.md": JOBS}
        for n in range(8):
            texts[f"{n}.md"] = (
                f"# Queue q{n}\n\n## Limits of q{n}\n\n| Name | Longest time | Nodes |\n|---|---|---|\n"
                f"| q{n}-small | {n + 3} hours | {n + 40} |\n| q{n}-large | {n + 50} hours | {n + 90} |\n\n"
                f"The default time limit of q{n} is {n + 11} minutes for all users.\n"
            )
        return [document(text, path, source=source) for path, text in texts.items()]

    return [
        SiteMaterial(make_site(tmp_path_factory.mktemp(name) / "index", *pages(name), name=name))
        for name in ("one", "two")
    ]


@pytest.fixture(scope="module")
def examples(materials: list[SiteMaterial]) -> list[Example]:
    found, _ = build_examples(materials, [], reader(), BuildSettings(size=120, seed=3))
    return found


def test_the_same_seed_gives_the_same_bytes(
    materials: list[SiteMaterial], examples: list[Example], tmp_path: Path
) -> None:
    again, _ = build_examples(materials, [], reader(), BuildSettings(size=120, seed=3))
    other, _ = build_examples(materials, [], reader(), BuildSettings(size=120, seed=4))
    hashes = [
        write_examples(found, tmp_path / f"{n}.jsonl")
        for n, found in enumerate((examples, again, other))
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_about_one_in_eight_refuses(examples: list[Example]) -> None:
    refusals = [e for e in examples if e.kind.startswith("refusal")]
    assert 0.04 < len(refusals) / len(examples) < 0.25
    assert {e.completion for e in refusals} == {"The documentation does not say."}


def test_every_answer_is_cited_and_its_passages_are_named(examples: list[Example]) -> None:
    for example in examples:
        assert example.passages and all(example.passages)
        assert [m.role for m in example.messages] == ["system", "user"]
        if not example.kind.startswith("refusal"):
            assert "[" in example.completion


def test_no_kind_swamps_the_others(examples: list[Example]) -> None:
    kinds = describe([e.to_json() for e in examples])["by_kind"]
    assert max(kinds.values()) <= len(examples) * 0.25
    assert len(kinds) >= 6


def test_lines_come_back_as_they_were_written(examples: list[Example], tmp_path: Path) -> None:
    write_examples(examples, tmp_path / "d.jsonl")
    assert read_examples(tmp_path / "d.jsonl") == [
        json.loads(json.dumps(e.to_json())) for e in examples
    ]


def test_a_line_without_an_answer_is_refused(examples: list[Example], tmp_path: Path) -> None:
    rows = [examples[0].to_json(), {**examples[1].to_json(), "completion": ""}, {"messages": []}]
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(TrainingError, match=r"2 line\(s\).*\n.*line 2: 'completion' is missing"):
        read_examples(path)


def test_a_missing_file_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="hpcllm dataset build"):
        read_examples(tmp_path / "none.jsonl")


def test_nothing_to_learn_from_is_an_error() -> None:
    with pytest.raises(TrainingError, match="hpcllm ingest"):
        build_examples([], [], reader(), BuildSettings(size=5))


def test_the_data_sheet_counts(examples: list[Example]) -> None:
    sheet = describe([e.to_json() for e in examples], sha256="abc")
    assert sheet["examples"] == len(examples)
    assert sum(sheet["by_source"].values()) == len(examples)
    assert f"- examples: {len(examples)}" in to_markdown(sheet)
