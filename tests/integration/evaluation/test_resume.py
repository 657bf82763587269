"""An evaluation that is killed at random moments ends with the file of one that was not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.evaluation.conftest import question_rows

ROOT = Path(__file__).resolve().parents[3]
KILLS = 3
WAIT_S = 60


def start(site: Path, results: Path, *, delay_s: float, parallel: int) -> subprocess.Popen[bytes]:
    module = "tests.integration.evaluation.run_evaluation"
    command = [sys.executable, "-m", module, str(site), str(results), str(delay_s), str(parallel)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)


def finish(site: Path, results: Path, *, parallel: int) -> None:
    process = start(site, results, delay_s=0.0, parallel=parallel)
    _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, errors.decode()


def answered(results: Path) -> int:
    """Return how many complete lines the journal has, the first one left out."""
    journals = list((results / "cache").glob("*.jsonl"))
    return journals[0].read_bytes().count(b"\n") - 1 if journals else 0


def kill_after(site: Path, results: Path, lines: int, pause_s: float, *, parallel: int) -> None:
    """Start a run and kill it a moment after it has answered so many questions in all."""
    process = start(site, results, delay_s=0.004, parallel=parallel)
    deadline = time.monotonic() + WAIT_S
    while answered(results) < lines:
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(pause_s)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def stable(results: Path) -> list[Any]:
    """Return the result file without what differs by nature: times, memory, date."""
    lines = (results / "all" / "scripted.jsonl").read_text(encoding="utf-8").splitlines()
    header, *rows = map(json.loads, lines)
    header.pop("run")
    for row in rows:
        row.pop("measured")
    return [header, *rows]


@pytest.mark.parametrize("parallel", [1, 3])
def test_three_kills_do_not_change_the_results(site: Path, tmp_path: Path, parallel: int) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finish(site, whole, parallel=parallel)
    draw = random.Random(parallel)
    for lines in sorted(draw.sample(range(1, len(question_rows()) - 4), KILLS)):
        kill_after(site, broken, lines, draw.uniform(0, 0.05), parallel=parallel)
        assert not (broken / "all").exists()
        assert lines <= answered(broken) < len(question_rows())
    before = answered(broken)
    finish(site, broken, parallel=parallel)
    assert stable(broken) == stable(whole)
    header = json.loads((broken / "all" / "scripted.jsonl").read_text().splitlines()[0])
    assert header["run"]["reused"] == before


def test_the_script_answers_in_more_than_one_way(site: Path, tmp_path: Path) -> None:
    finish(site, tmp_path, parallel=1)
    rows = stable(tmp_path)[1:]
    assert len(rows) == len(question_rows())
    assert len({row["model"] for row in rows}) == 2
    assert 0 < sum(row["scores"]["right"] for row in rows) < len(rows)
