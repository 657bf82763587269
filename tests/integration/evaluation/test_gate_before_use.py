"""``hpcllm ingest`` with a gate before the new index goes in use, from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hpcllm.cli.main import app
from hpcllm.errors import ConfigError, EvaluationError

GATE = "[gate]\nbefore_activation = true\n[gate.minimum]\nfacts_first_8 = 1.0\n"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def current(site: Path) -> str:
    return (site / "index" / "current").read_text().strip()


@pytest.fixture
def gated(site: Path) -> Path:
    settings = site / "hpcllm.toml"
    settings.write_text(settings.read_text() + GATE)
    return site


def spoil(site: Path) -> None:
    (site / "corpus" / "docs" / "quota.md").write_text("# About quota\n\nThis page moved.\n")


def test_a_change_that_holds_goes_in_use(gated: Path) -> None:
    before = current(gated)
    (gated / "corpus" / "docs" / "new.md").write_text("# Doors\n\nThe doors open at 8:00.\n")
    done = call("ingest", "-w", gated)
    assert done.exit_code == 0, done.output
    assert "holds  facts_first_8: 1, at least 1" in done.stdout
    assert current(gated) != before


def test_one_that_does_not_is_held_back_with_the_way_out(gated: Path) -> None:
    before = current(gated)
    spoil(gated)
    done = call("ingest", "-w", gated)
    assert done.exit_code == 3
    assert "FAILS  facts_first_8" in done.stdout and "chunks held back" in done.stdout
    assert current(gated) == before and f"{before} stays in use" in done.stderr
    (held,) = {p.parent.name for p in (gated / "index").glob("gen-*/held")}
    assert f"hpcllm ingest --use {held}" in done.stderr

    again = call("ingest", "-w", gated)
    assert again.exit_code == 3 and "since the gate was asked last" in again.stderr

    assert call("ingest", "-w", gated, "--use", held).exit_code == 0
    assert current(gated) == held
    unchanged = call("ingest", "-w", gated)
    assert unchanged.exit_code == 0 and "stays in use" in unchanged.stderr


def test_machines_are_told_what_failed(gated: Path) -> None:
    before = current(gated)
    spoil(gated)
    done = call("ingest", "-w", gated, "--json")
    data = json.loads(done.stdout)
    assert done.exit_code == 3
    assert data["generation"] == before and data["held"].startswith("gen-")
    assert [c["name"] for c in data["gate"]["checks"] if not c["holds"]] == ["facts_first_8"]


def test_a_page_that_is_mended_goes_in_use(gated: Path) -> None:
    page = gated / "corpus" / "docs" / "quota.md"
    good = page.read_text()
    spoil(gated)
    assert call("ingest", "-w", gated).exit_code == 3
    page.write_text(f"{good}\nAsk for more by e-mail.\n")
    assert call("ingest", "-w", gated).exit_code == 0
    assert not list((gated / "index").glob("gen-*/held"))


def test_other_thresholds_are_asked_of_what_was_held_back(gated: Path) -> None:
    spoil(gated)
    assert call("ingest", "-w", gated).exit_code == 3
    settings = gated / "hpcllm.toml"
    settings.write_text(settings.read_text().replace("= 1.0", "= 0.5"))
    (held,) = {p.parent.name for p in (gated / "index").glob("gen-*/held")}
    done = call("ingest", "-w", gated, "--json")
    data = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (data["generation"], data["embedded"], data["held"]) == (held, 0, "")


def test_wrong_thresholds_are_said_before_anything_is_read(gated: Path) -> None:
    settings = gated / "hpcllm.toml"
    settings.write_text(settings.read_text().replace("facts_first_8", "facts_frist_8"))
    spoil(gated)
    done = call("ingest", "-w", gated)
    assert isinstance(done.exception, ConfigError)
    assert "did you mean 'facts_first_8'" in str(done.exception)
    assert len(list((gated / "index").glob("gen-*"))) == 1


def test_a_gate_that_cannot_be_asked_holds_back(gated: Path) -> None:
    before = current(gated)
    spoil(gated)
    (gated / "corpus" / "questions" / "all.jsonl").write_text("{\n")
    done = call("ingest", "-w", gated)
    assert isinstance(done.exception, EvaluationError)
    assert "held back: its gate could not be asked" in done.stderr
    assert current(gated) == before


def test_the_accepted_state_is_kept_and_compared_with(gated: Path) -> None:
    settings = gated / "hpcllm.toml"
    text = settings.read_text().replace("= 1.0", "= 0.1")
    settings.write_text(text.replace("[gate]\n", '[gate]\naccepted = "accepted.jsonl"\n'))
    (gated / "corpus" / "docs" / "new.md").write_text("# Doors\n\nThe doors open at 8:00.\n")
    assert call("ingest", "-w", gated).exit_code == 0
    accepted = (gated / "accepted.jsonl").read_bytes()
    for name in ("quota", "purge", "walltime", "mail"):
        (gated / "corpus" / "docs" / f"{name}.md").write_text("# Moved\n\nNothing here any more.\n")
    done = call("ingest", "-w", gated)
    assert done.exit_code == 3 and "FAILS  change of facts_share" in done.stdout
    assert (gated / "accepted.jsonl").read_bytes() == accepted


def test_another_model_is_named_once_it_holds(gated: Path) -> None:
    settings = gated / "hpcllm.toml"
    settings.write_text(settings.read_text().replace('id = "extractive"', 'id = "other"'))
    done = call("eval", "gate", "-w", gated, "--model", "extractive", "--activate")
    assert done.exit_code == 0, done.output
    assert '[model]\nid = "extractive"\n' in settings.read_text()
    spoil(gated)
    settings.write_text(settings.read_text().replace("before_activation = true\n", ""))
    assert call("ingest", "-w", gated).exit_code == 0
    before = settings.read_text()
    done = call("eval", "gate", "-w", gated, "--model", "extractive", "--activate")
    assert done.exit_code == 3 and settings.read_text() == before


def test_an_adapter_file_is_looked_for_and_not_put_in_use(gated: Path) -> None:
    lora = gated / "x.gguf"
    model = ("--model", "smollm2-135m-instruct", "--adapter", lora)
    done = call("eval", "gate", "-w", gated, *model)
    assert f"adapter {lora} does not exist" in str(done.exception)
    done = call("eval", "gate", "-w", gated, *model, "--activate")
    assert isinstance(done.exception, ConfigError)
    assert "export it first (hpcllm export)" in str(done.exception)
