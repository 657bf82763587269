"""``hpcllm models pull``: what it says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hpcllm.cli.main import app

CATALOG = """
[[models]]
id = "tiny"
kind = "embedder"
family = "bert"
parameters = 1
licence = "MIT"
context = 8
dimension = 4
[[models.files]]
name = "m.bin"
size = 3
sha256 = "{sha256}"
places = [{{ kind = "path", path = "{path}" }}]
"""


def pull(*options: str) -> Result:
    return CliRunner().invoke(app, ["models", "pull", "tiny", *options])


def test_a_quiet_pull_speaks_only_of_what_it_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "m.bin").write_bytes(b"abc")
    (tmp_path / "hpcllm.toml").write_text("", encoding="utf-8")
    known = CATALOG.format(
        sha256=hashlib.sha256(b"abc").hexdigest(), path=(tmp_path / "place").as_posix()
    )
    (tmp_path / "training" / "models.toml").write_text(known, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCLLM_HOME", str(tmp_path / "home"))
    assert "tiny: 1 file(s) in" in pull("--quiet").output
    assert pull("--quiet").output == ""
    assert "tiny: 1 file(s) in" in pull().output
