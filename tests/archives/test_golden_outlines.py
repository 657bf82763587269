"""Files of seven archives are cut as they were when a person last read the result."""

from __future__ import annotations

import pytest

from tests.archives.outlines import VARIABLE, archives, differences, load, names, outline

FOLDER = archives()
"""Looked up at import: tests run with a cleaned environment."""


@pytest.mark.skipif(FOLDER is None, reason=f"{VARIABLE} names no folder of unpacked archives")
@pytest.mark.parametrize("name", names())
def test_outline_is_as_recorded(name: str) -> None:
    assert FOLDER is not None
    if not (FOLDER / name).is_file():
        pytest.skip(f"{name} is not below {VARIABLE}")
    found = differences(load().get(name, []), outline(FOLDER, name))
    assert not found, "\n".join([*found, "if this is meant: python -m tests.archives.record"])


def test_sixty_files_of_all_formats_are_recorded() -> None:
    chosen = names()
    assert len(set(chosen)) == len(chosen) == 60
    assert list(load()) == chosen
    assert {name.partition("/")[0] for name in chosen} == {
        "apptainer-userdocs", "csc-user-guide", "hpc-intro", "marvin-docs-pt",
        "nesi-support-docs", "sheffield-hpc", "slurm",
    }  # fmt: skip
    suffixes = {name.rpartition(".")[2] for name in chosen}
    assert suffixes >= {"md", "rst", "html", "shtml", "1", "5", "8", "pdf", "docx"}


def test_differences_name_the_chunk_and_what_changed() -> None:
    head = {"file": "a/b.md", "source": "1", "status": "current", "chunks": 1}
    chunk = {"path": ["T", "S"], "anchor": "s", "words": 3, "blocks": ["text"], "text": "x"}
    assert differences([head, chunk], [head, chunk]) == []
    assert differences([head, chunk], [head, {**chunk, "words": 4, "text": "y"}]) == [
        "chunk 1 (T > S): words, text"
    ]
    assert differences([head, chunk], [{**head, "status": "outdated", "chunks": 2}, chunk]) == [
        "status: current became outdated",
        "chunks: 1 became 2",
    ]
    assert differences([], [head]) == ["is new"]
    assert differences([head], []) == ["is no longer chosen"]
