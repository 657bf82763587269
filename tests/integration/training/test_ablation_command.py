"""``hpcllm train ablate`` from the command line, in a small workspace with an index of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.training.tiny import (
    Tiny,
    hpcllm,
    make_tiny,
    write_recipe,
    write_site,
)

pytest.importorskip("trl", reason="needs hpcllm[train]")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(1200),
]

VARIANTS = """\
held_out = 6
set = ["training.max_steps=2", "training.evaluate_every=2"]
[[variant]]
id = "all"
[[variant]]
id = "no-b"
question = "Is b needed?"
drop = ["kind_b"]
passages = 1
set = ["adapter.rank=2"]
"""
QUESTIONS = (
    {"id": "q1", "question": "quota of home?", "answerable": True, "gold_facts": ["50 GB"]},
    {"id": "q2", "question": "who won the cup?", "answerable": False, "gold_facts": []},
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    made = make_tiny(tmp_path_factory.mktemp("tiny"), rows=40)
    write_site(made, minimum_evidence=0.0)
    lines = made.data.read_text(encoding="utf-8").splitlines()
    kinds = [{**json.loads(x), "kind": f"kind_{'ab'[n % 2]}"} for n, x in enumerate(lines)]
    made.data.write_text("".join(json.dumps(row) + "\n" for row in kinds), encoding="utf-8")
    (made.workspace / "variants.toml").write_text(VARIANTS, encoding="utf-8")
    asked = "".join(json.dumps(question) + "\n" for question in QUESTIONS)
    (made.workspace / "asked.jsonl").write_text(asked, encoding="utf-8")
    write_recipe(made)
    done = hpcllm(made, "ingest")
    assert done.returncode == 0, done.stderr
    return made


def arguments(tiny: Tiny) -> list[str]:
    files = tiny.workspace / "variants.toml", tiny.workspace / "asked.jsonl"
    return ["train", "ablate", "tiny", "--variants", str(files[0]), "--questions", str(files[1])]


def test_variants_are_trained_and_scored_once_and_tabled(tiny: Tiny) -> None:
    done = hpcllm(tiny, *arguments(tiny), "--json")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert first["training"]["examples"] == second["training"]["examples"]
    assert first["held_out_loss"] > 0 and first["held_out_loss"] != second["held_out_loss"]
    assert set(first["score"]["by_question"]) == {"q1"}
    assert first["score"]["questions"] == 2 and "draft_facts_all" in first["score"]
    assert second["difference"]["n"] == 1 and first["difference"] is None
    assert second["changes"] == ["without kind_b", "1 passages", "adapter.rank=2"]
    folder = tiny.workspace / "training" / "runs" / "ablation-variants"
    table = (folder / "ablation.md").read_text(encoding="utf-8")
    assert "| no-b | `without kind_b`; `1 passages`; `adapter.rank=2` |" in table
    config = folder / "no-b" / "run" / "adapter" / "adapter_config.json"
    assert json.loads(config.read_text(encoding="utf-8"))["r"] == 2
    assert not (folder / "no-b" / "run" / "checkpoints").exists()
    files = [folder / name / "variant.json" for name in ("all", "no-b")]
    times = [file.stat().st_mtime_ns for file in files]
    again = hpcllm(tiny, *arguments(tiny), "--json")
    assert again.returncode == 0, again.stderr
    assert [file.stat().st_mtime_ns for file in files] == times


def test_a_wrong_file_stops_before_anything_is_trained(tiny: Tiny, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[[variant]]\nid = "a"\ndrop = ["nothing*"]\n', encoding="utf-8")
    done = hpcllm(tiny, "train", "ablate", "tiny", "--variants", str(wrong))
    assert done.returncode == 1
    assert "no example is of kind 'nothing*'" in done.stderr
    assert not (tiny.workspace / "training" / "runs" / "ablation-wrong").exists()
