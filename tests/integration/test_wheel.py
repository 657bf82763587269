"""A wheel installed outside the checkout has everything: reference site, catalog, commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*command, str(target), str(wheel)], check=True, capture_output=True)
    return target


def run(installed: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, "-m", "hpcllm", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
    )


def test_the_wheel_holds_the_reference_site_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "hpcllm/reference/hpcllm.toml",
        "hpcllm/reference/corpus/sources.toml",
        "hpcllm/reference/corpus/site.toml",
        "hpcllm/reference/corpus/meridian/requesting-gpus.md",
        "hpcllm/models/catalog.toml",
        "hpcllm/reference/training/recipes/smollm2-135m-cpu.toml",
        "hpcllm/py.typed",
    ):
        assert needed in names
    unwanted = ("tests", "hpcllm/reference/index/gen", "hpcllm/reference/training/runs")
    assert not [name for name in names if name.startswith(unwanted) or ".venv" in name]


def test_it_runs_from_where_it_is_installed(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "doctor", "--json")
    findings = {finding["what"]: finding for finding in json.loads(done.stdout)}
    assert findings["workspace"]["detail"].startswith(str(installed))
    assert findings["sources"]["state"] == "ok"


@pytest.mark.models
@pytest.mark.slow
def test_a_site_is_made_ingested_and_asked(installed: Path, tmp_path: Path) -> None:
    docs = tmp_path / "guide"
    docs.mkdir()
    (docs / "limits.md").write_text(
        "# Limits\n\n## Walltime\n\nThe partition `long` allows jobs of up to 14 days.\n"
    )
    assert run(installed, tmp_path, "init", "site", "--docs", "guide").returncode == 0
    ingested = run(installed, tmp_path, "ingest", "-w", "site", "--json")
    assert json.loads(ingested.stdout)["documents"] == 1
    asked = run(
        installed, tmp_path, "ask", "-w", "site", "--model", "extractive", "--json",
        "How long may a job in the long partition run?",
    )  # fmt: skip
    answer = json.loads(asked.stdout)
    assert "14 days" in answer["answer"]
    assert answer["citations"][0]["path"] == "limits.md"
