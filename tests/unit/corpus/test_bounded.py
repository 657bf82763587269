"""A file that takes too long, or ends the process that reads it, costs itself and nothing else."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from hpcllm.corpus.bounded import SMALL_FILE_BYTES, SMALL_SOURCE_BYTES, BoundedReader, is_small
from hpcllm.corpus.ingest import Corpus, ReadSettings, fingerprint, open_sources, read_corpus
from hpcllm.corpus.readers import RawFile, read
from hpcllm.corpus.source_files import FileEntry
from hpcllm.corpus.sources import load_sources
from hpcllm.errors import IngestError

SLOW = "`a_ " * 60_000
"""Start marks that docutils pairs in time that grows with their square: minutes, here."""


def raw(root: Path, name: str, text: str) -> RawFile:
    return RawFile(name, text.encode(), root, {"variables": {"a": 1}}, "https://docs.example.org")


def children() -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.add(int(entry.name))
    return found


def test_a_file_is_read_as_without_a_limit(tmp_path: Path) -> None:
    (tmp_path / "part.md").write_text("From a part.\n")
    text = '---\ntags: [a, b]\nlang: pt\n---\n# Título\n\n--8<-- "part.md"\n\n--8<-- "gone.md"\n'
    page = raw(tmp_path, "docs/á.md", text)
    with BoundedReader() as reader:
        result = reader.read(page)
    assert result == read(page)
    assert result.includes == ("part.md",)
    assert isinstance(result.warnings, tuple)


def test_a_slow_file_is_given_up_and_the_next_one_is_read(tmp_path: Path) -> None:
    with BoundedReader(timeout_s=2.0) as reader:
        with pytest.raises(IngestError) as caught:
            reader.read(raw(tmp_path, "docs/slow.rst", SLOW))
        assert reader.read(raw(tmp_path, "docs/next.md", "# Next\n\nbody\n")).title == "Next"
    message = str(caught.value)
    assert message.startswith("docs/slow.rst: reading it took longer than 2 s;")
    assert "exclude it from its source" in message
    assert "raise read_timeout_s under [index] in hpcllm.toml" in message


def test_one_process_reads_all_files_and_ends_with_the_reader(tmp_path: Path) -> None:
    before = children()
    with BoundedReader() as reader:
        reader.read(raw(tmp_path, "a.md", "# A\n"))
        first = children() - before
        reader.read(raw(tmp_path, "b.rst", "B\n=\n"))
        assert children() - before == first
        assert len(first) == 1
    assert not children() - before


def test_a_process_that_dies_is_reported_with_how_it_ended(tmp_path: Path) -> None:
    before = children()
    with BoundedReader() as reader:
        reader.read(raw(tmp_path, "a.md", "# A\n"))
        [helper] = children() - before
        os.kill(helper, signal.SIGSEGV)
        with pytest.raises(
            IngestError, match=r"b\.md: the process that read it ended \(signal SIG"
        ):
            reader.read(raw(tmp_path, "b.md", "# B\n"))
        assert reader.read(raw(tmp_path, "c.md", "# C\n")).title == "C"


def test_an_unreadable_file_gives_the_reason_of_its_reader(tmp_path: Path) -> None:
    with BoundedReader() as reader, pytest.raises(IngestError, match="no reader for the suffix"):
        reader.read(raw(tmp_path, "a.xyz", "x"))


def test_a_reader_that_never_read_closes_without_a_process() -> None:
    reader = BoundedReader()
    reader.close()
    reader.close()


def test_without_an_interpreter_to_start_files_are_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with BoundedReader() as reader:
        assert reader.read(raw(tmp_path, "a.md", "# A\n")).title == "A"


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"a.md": SMALL_FILE_BYTES}, True),
        ({"a.md": SMALL_FILE_BYTES + 1}, False),
        ({"a.docx": 10}, False),
        ({f"{n}.md": 4000 for n in range(SMALL_SOURCE_BYTES // 4000)}, True),
        ({f"{n}.md": 4000 for n in range(SMALL_SOURCE_BYTES // 4000 + 1)}, False),
        ({}, True),
    ],
)
def test_which_sources_need_no_helper(sizes: dict[str, int], expected: bool) -> None:
    entries = [FileEntry(path, size, 0, Path(path)) for path, size in sizes.items()]
    assert is_small(entries) is expected


def ingest(root: Path, settings: ReadSettings) -> Corpus:
    (root / "sources.toml").write_text(
        '[[source]]\nname = "docs"\nkind = "folder"\npath = "docs"\n'
    )
    sources = load_sources(root / "sources.toml")
    opened = open_sources(sources, workspace_root=root, cache_dir=root / "cache")
    return read_corpus(
        sources, opened, count_tokens=lambda text: len(text.split()), settings=settings
    )


@pytest.fixture
def slow_site(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bad.rst").write_text(f"Bad\n===\n\n{SLOW}\n")
    (tmp_path / "docs" / "good.md").write_text("# Good\n\nThe limit is 7 days.\n")
    return tmp_path


def test_ingest_reports_a_slow_file_and_keeps_the_others(slow_site: Path) -> None:
    corpus = ingest(slow_site, ReadSettings(timeout_s=2.0))
    assert [document.path for document in corpus.documents] == ["good.md"]
    [skipped] = corpus.reports[0].skipped
    assert skipped.path == "bad.rst"
    assert "took longer than 2 s" in skipped.reason
    assert "read_timeout_s" in skipped.reason


def test_strict_ingest_fails_on_a_slow_file_and_leaves_no_process(slow_site: Path) -> None:
    before = children()
    with pytest.raises(IngestError, match="took longer than 2 s"):
        ingest(slow_site, ReadSettings(timeout_s=2.0, strict=True))
    assert not children() - before


def test_another_limit_reads_again() -> None:
    assert fingerprint([], [], ReadSettings()) != fingerprint([], [], ReadSettings(timeout_s=5.0))
