"""``hpcllm eval`` from end to end on a small site."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def hpcllm(*arguments: str | Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hpcllm", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stderr
    return done


@pytest.fixture
def evaluated(site: Path) -> Path:
    hpcllm("eval", "run", "-w", site, "--name", "test")
    return site


def test_run_compare_and_report(evaluated: Path) -> None:
    folder = evaluated / "results" / "test"
    assert sorted(p.name for p in folder.iterdir()) == ["extractive.jsonl", "never-refuses.jsonl"]

    compared = json.loads(hpcllm("eval", "compare", "-w", evaluated, "--json").stdout)
    assert [s["system"] for s in compared["systems"]] == ["extractive", "never-refuses"]
    assert compared["systems"][0]["n"] == 25
    assert compared["systems"][0]["peak_memory_mib"] > 10
    assert compared["pairs"][0]["n"] == 25
    text = hpcllm("eval", "compare", "-w", evaluated).stdout
    assert "| extractive | 25 |" in text and "wins / losses / ties" in text

    hpcllm("eval", "report", "-w", evaluated, "--markdown", evaluated / "table.md")
    assert "| extractive | 25 |" in (evaluated / "table.md").read_text()
    hpcllm("eval", "report", "-w", evaluated)
    page = (evaluated / "results" / "report.html").read_text()
    assert page.startswith("<!doctype html>") and page.count("<svg") == 4


def test_a_repeated_run_answers_nothing_again(evaluated: Path) -> None:
    hpcllm("eval", "run", "-w", evaluated, "--name", "test", "--only", "extractive")
    header = (evaluated / "results" / "test" / "extractive.jsonl").read_text().splitlines()[0]
    assert json.loads(header)["run"]["reused"] == 25


def test_one_system_that_cannot_run_does_not_stop_the_others(site: Path) -> None:
    systems = site / "corpus" / "systems.toml"
    text = systems.read_text()
    systems.write_text(f'[[system]]\nid = "absent"\nmodel = "smollm2-135m-instruct"\n{text}')
    done = hpcllm("eval", "run", "-w", site, "--name", "test", expect=1)
    assert "1 of 3 systems did not finish: absent" in done.stderr
    assert "hpcllm models pull" in done.stderr
    assert len(list((site / "results" / "test").glob("*.jsonl"))) == 2


def test_an_unknown_model_is_refused_before_anything_runs(site: Path) -> None:
    systems = site / "corpus" / "systems.toml"
    systems.write_text(systems.read_text() + '[[system]]\nid = "x"\nmodel = "nosuch-7b"\n')
    done = hpcllm("eval", "run", "-w", site, expect=1)
    assert "system 'x': the catalog has no model 'nosuch-7b'" in done.stderr
    assert not (site / "results").exists()


def test_a_malformed_question_is_named_by_file_and_line(site: Path) -> None:
    with (site / "corpus" / "questions" / "all.jsonl").open("a") as stream:
        stream.write('{"id": "broken", "question": \n')
    done = hpcllm("eval", "run", "-w", site, expect=1)
    assert "all.jsonl line 26" in done.stderr


def test_the_gate_holds_and_breaks(site: Path) -> None:
    settings = site / "hpcllm.toml"
    base = settings.read_text()
    settings.write_text(f"{base}[gate.minimum]\nfacts_share = 0.5\nhit_8 = 0.9\n")
    done = hpcllm("eval", "gate", "-w", site, "--json")
    assert json.loads(done.stdout)["holds"] is True

    page = site / "corpus" / "docs" / "quota.md"
    page.write_text("# About quota\n\nThis page moved.\n")
    settings.write_text(f"{base}[gate.minimum]\nfacts_first_8 = 1.0\n")
    current = site / "index" / "current"
    before = current.read_text().strip()
    hpcllm("ingest", "-w", site)
    after = current.read_text().strip()
    done = hpcllm("eval", "gate", "-w", site, "--otherwise", before, expect=3)
    assert "FAILS  facts_first_8" in done.stdout and "does not hold" in done.stderr
    assert after != before == current.read_text().strip()
    hpcllm("eval", "gate", "-w", site)
    done = hpcllm("eval", "gate", "-w", site, "--generation", after, "--activate", expect=3)
    assert current.read_text().strip() == before


def test_the_gate_compares_with_the_accepted_state(site: Path) -> None:
    settings = site / "hpcllm.toml"
    settings.write_text(f"{settings.read_text()}[gate.minimum]\nhit_8 = 0.1\n")
    accepted = site / "accepted.jsonl"
    hpcllm("eval", "gate", "-w", site)
    (site / "results" / "gate" / "gate.jsonl").rename(accepted)
    hpcllm("eval", "gate", "-w", site, "--accepted", accepted)
    for name in ("quota", "purge", "walltime", "mail"):
        (site / "corpus" / "docs" / f"{name}.md").write_text("# Moved\n\nNothing here any more.\n")
    hpcllm("ingest", "-w", site)
    done = hpcllm("eval", "gate", "-w", site, "--accepted", accepted, expect=3)
    assert "FAILS  change of facts_share" in done.stdout


def test_a_gate_without_thresholds_says_how_to_set_some(site: Path) -> None:
    done = hpcllm("eval", "gate", "-w", site, expect=2)
    assert "[gate.minimum] facts_share = 0.6" in done.stderr


def test_questions_are_checked_counted_and_split(site: Path) -> None:
    folder = site / "corpus" / "questions"
    hpcllm("eval", "questions", "split", "-w", site, "--dev", "5", "--smoke", "6", "--subset", "12")
    counts = json.loads(hpcllm("eval", "questions", "stats", "-w", site, "--json").stdout)
    assert counts["split"] == {"dev": 5, "test": 20}
    assert len((folder / "smoke.txt").read_text().split()) == 6
    hpcllm("eval", "questions", "check", "-w", site)
    hpcllm("eval", "run", "-w", site, "--ids", folder / "smoke.txt", "--only", "extractive")
    assert (site / "results" / "smoke" / "extractive.jsonl").is_file()
    (folder / "counts.toml").write_text("[total]\nquestions = 26\n")
    done = hpcllm("eval", "questions", "check", "-w", site, expect=1)
    assert "total questions: 25 questions, stated are 26" in done.stdout


def test_contamination_is_found(site: Path) -> None:
    training = site / "train.jsonl"
    clean = {"messages": [{"role": "user", "content": "Question: How do I compile with MPI?"}]}
    training.write_text(json.dumps(clean) + "\n")
    hpcllm("eval", "contamination", training, "-w", site)
    leak = {"prompt": "Question: I forgot what the pages say about quota, remind me"}
    training.write_text(json.dumps(clean) + "\n" + json.dumps(leak) + "\n")
    done = hpcllm("eval", "contamination", training, "-w", site, "--json", expect=3)
    hits = json.loads(done.stdout)["hits"]
    assert {(hit["question"], hit["training"]) for hit in hits} >= {("quota-3", "train.jsonl:2")}


def test_contamination_of_the_workspace_as_markdown(site: Path) -> None:
    data = site / "training" / "data"
    data.mkdir(parents=True)
    said = [f"Question: how is library number {n} compiled?" for n in range(20)]
    said[10] = "Question: I forgot what the pages say about quota, remind me"
    (data / "a.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in said))
    target = site / "contamination.md"
    hpcllm("eval", "contamination", "-w", site, "--markdown", target, expect=3)
    text = target.read_text()
    assert "20 texts that users say" in text and "- `a.jsonl`, 20 texts, SHA-256 `" in text
    assert "| quota-3 | string | 1.000 | a.jsonl:11 | I forgot what the pages say" in text
    # of 20 texts 3 are taken, the first, the 7th and the 14th: the leak is not among them
    hpcllm("eval", "contamination", "-w", site, "--markdown", target, "--limit", "3")
    text = target.read_text()
    assert "Only 3 texts were taken" in text and "No question stands in the training data." in text


def test_the_export_stands_by_itself(site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    hpcllm("eval", "export-lm-eval", folder, "-w", site, "--passages", "2")
    assert sorted(p.name for p in folder.iterdir()) == [
        "hpcllm.yaml", "questions.jsonl", "utils.py",
    ]  # fmt: skip
    row = json.loads((folder / "questions.jsonl").read_text().splitlines()[0])
    assert "50 GB" in row["prompt"] and row["prompt"].endswith("Answer:")
