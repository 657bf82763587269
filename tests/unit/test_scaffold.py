"""A scaffolded workspace is valid as it is, whatever its names look like."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.corpus.sources import load_sources
from hpcllm.errors import ConfigError
from hpcllm.scaffold import scaffold
from hpcllm.workspace import Workspace


def test_with_docs_the_workspace_lists_them_as_its_source(tmp_path: Path) -> None:
    docs = tmp_path / 'User "Guide" \\ ünïcode'
    docs.mkdir()
    scaffold(tmp_path / "site", docs=docs, name='The "Site"')
    space = Workspace.find(tmp_path / "site")
    assert space.settings.site.name == 'The "Site"'
    [source] = load_sources(space.sources_file)
    assert source.kind == "folder"
    assert Path(source.path) == docs


def test_without_docs_no_source_is_switched_on(tmp_path: Path) -> None:
    scaffold(tmp_path / "site")
    assert load_sources(tmp_path / "site" / "corpus" / "sources.toml") == []


def test_a_folder_with_content_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "keep.txt").write_text("mine")
    with pytest.raises(ConfigError, match="exists and is not empty"):
        scaffold(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["keep.txt"]


def test_docs_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        scaffold(tmp_path / "site", docs=tmp_path / "absent")
    assert not (tmp_path / "site").exists()
