"""``hpcllm ingest --report``: what was found, on the terminal, as HTML and beside the index."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hpcllm.cli.main import app
from hpcllm.errors import ConfigError, StoreError
from hpcllm.index.update import saved_report


@pytest.fixture
def site(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    (root / "corpus").mkdir(parents=True)
    (root / "docs").mkdir()
    (root / "hpcllm.toml").write_text('[index]\nembedder = "hashing"\n')
    (root / "corpus" / "sources.toml").write_text(
        '[[source]]\nname = "docs"\npath = "docs"\nlicence = "CC-BY-4.0"\n'
    )
    (root / "docs" / "a.md").write_text("# Queues\n\nSee [limits](limits.md).\n")
    return root


def ingest(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["ingest", *map(str, arguments)])


def test_findings_are_counted_without_report_and_shown_with_it(site: Path) -> None:
    done = ingest("-w", site)
    assert done.exit_code == 0
    assert "findings broken link: 1 (see them with: hpcllm ingest --report)" in done.stderr
    again = ingest("-w", site, "--report")
    assert "nothing has changed" in again.stderr
    assert "    a.md:3: limits.md is not among the files of this source\n" in again.stdout


def test_the_report_is_written_as_html_and_kept_beside_the_index(
    site: Path, tmp_path: Path
) -> None:
    target = tmp_path / "report.html"
    done = ingest("-w", site, "--report", target)
    assert done.exit_code == 0
    assert "<code>a.md:3</code>" in target.read_text()
    saved = json.loads((site / "index" / "report.json").read_text())
    assert saved == saved_report(site / "index")
    [source] = saved["sources"]
    assert (source["licence"], source["documents"]) == ("CC-BY-4.0", 1)
    assert source["findings"] == [
        {
            "kind": "broken link",
            "path": "a.md",
            "line": 3,
            "text": "limits.md is not among the files of this source",
            "other": "",
        }
    ]


def test_machines_get_one_line_of_json_with_findings(site: Path) -> None:
    done = ingest("-w", site, "--json", "--report")
    data = json.loads(done.stdout)
    assert data["unchanged"] is False
    assert [f["kind"] for f in data["sources"][0]["findings"]] == ["broken link"]


def test_a_report_file_needs_the_option_and_an_html_name(site: Path) -> None:
    done = ingest("-w", site, "x.html")
    assert isinstance(done.exception, ConfigError)
    assert "hpcllm ingest --report x.html" in str(done.exception)
    done = ingest("-w", site, "--report", "x.txt")
    assert "ends in .html" in str(done.exception)
    done = ingest("-w", site, "--report", site / "missing" / "x.html")
    assert "cannot be written" in str(done.exception)


def test_a_missing_or_damaged_saved_report_says_how_to_make_it(site: Path) -> None:
    index = site / "index"
    with pytest.raises(StoreError, match="hpcllm ingest --rebuild"):
        saved_report(index)
    index.mkdir()
    for text in ("{", "[]", '{"sources": 1}'):
        (index / "report.json").write_text(text)
        with pytest.raises(StoreError, match="hpcllm ingest --rebuild"):
            saved_report(index)
