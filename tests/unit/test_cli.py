"""The command line: exit codes, streams, and what machines read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcllm.cli.common import read_questions
from hpcllm.errors import ConfigError


def hpcllm(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hpcllm", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
    )


def test_no_command_is_a_usage_error_with_help() -> None:
    done = hpcllm()
    assert done.returncode == 2
    assert "ingest" in done.stdout + done.stderr


def test_version_goes_to_standard_output() -> None:
    from hpcllm import __version__

    assert hpcllm("--version").stdout.strip() == f"hpcllm {__version__}"


def test_a_folder_that_is_no_workspace_is_a_usage_error(tmp_path: Path) -> None:
    done = hpcllm("ingest", "-w", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "hpcllm init" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_search_needs_either_a_question_or_a_file(tmp_path: Path) -> None:
    done = hpcllm("search", "-w", tmp_path)
    assert done.returncode == 2
    assert "--questions" in done.stderr


def test_init_then_doctor_say_what_is_missing(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# A\n\nText.\n")
    assert hpcllm("init", tmp_path / "site", "--docs", docs).returncode == 0
    settings = tmp_path / "site" / "hpcllm.toml"
    settings.write_text(
        settings.read_text().replace('id = "extractive"', 'id = "hpc-smollm2-135m"')
    )
    done = hpcllm("doctor", "--json", "-w", tmp_path / "site")
    findings = {f["what"]: f for f in json.loads(done.stdout)}
    assert done.returncode == 1
    assert findings["index"]["state"] == "fail"
    assert findings["index"]["remedy"] == "hpcllm ingest"
    assert "models pull" in findings["model hpc-smollm2-135m"]["remedy"]
    assert findings["sources"]["state"] == "ok"


def test_ingest_without_the_embedder_says_how_to_fetch_it(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# A\n\nText.\n")
    hpcllm("init", tmp_path / "site", "--docs", docs)
    done = hpcllm("ingest", "-w", tmp_path / "site")
    assert done.returncode == 1
    assert "hpcllm models pull all-minilm-l6-v2" in done.stderr


def test_bad_question_lines_are_all_named(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "ok"}\n\n[1]\n{"q": 1}\n{broken\n')
    with pytest.raises(ConfigError) as caught:
        read_questions(path)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "line 3",
        "line 4",
        "line 5",
    ]


def test_a_missing_question_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.jsonl cannot be read: No such file"):
        read_questions(tmp_path / "absent.jsonl")


@pytest.mark.skipif(shutil.which("head") is None, reason="needs head")
def test_a_closed_pipe_is_no_error_message() -> None:
    command = f"{sys.executable} -m hpcllm models list | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_on_a_full_disk_is_one_line_of_error() -> None:
    command = [sys.executable, "-m", "hpcllm", "models", "list"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert "no space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_on_a_terminal_that_is_not_utf8_loses_no_letter() -> None:
    code = "from hpcllm.cli.common import print_json; print_json({'question': 'memória'})"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=environment, timeout=60, check=True
    )
    assert json.loads(done.stdout) == {"question": "memória"}
