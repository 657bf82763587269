"""Sources become documents and chunks, and everything left out is accounted for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcllm.corpus.ingest import Corpus, ReadSettings, fingerprint, open_sources, read_corpus
from hpcllm.corpus.sources import load_sources
from hpcllm.errors import IngestError

DEFAULTS = ReadSettings()


def count_words(text: str) -> int:
    return len(text.split())


def ingest(root: Path, settings: ReadSettings = DEFAULTS, extra: str = "") -> Corpus:
    sources = sources_of(root, extra)
    opened = open_sources(sources, workspace_root=root, cache_dir=root / "cache")
    return read_corpus(sources, opened, count_tokens=count_words, settings=settings)


def sources_of(root: Path, extra: str = ""):
    listing = root / "sources.toml"
    listing.write_text(f'[[source]]\nname = "docs"\nkind = "folder"\npath = "docs"\n{extra}\n')
    return load_sources(listing)


def reasons(corpus: Corpus) -> dict[str, str]:
    return {item.path: item.reason for report in corpus.reports for item in report.skipped}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nThe limit is 7 days.\n")
    return folder


def test_every_kind_of_bad_file_is_reported_and_the_good_one_is_kept(docs: Path) -> None:
    (docs / "binary.md").write_bytes(b"\x00\x01\x02\xff" * 300)
    (docs / "empty.md").write_text("")
    (docs / "cut.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog")
    (docs / "fake.docx").write_bytes(b"not a zip")
    (docs / "broken.ipynb").write_text('{"cells": [')
    (docs / "notes.xyz").write_text("unknown")
    with (docs / "huge.md").open("wb") as stream:
        stream.truncate(200_000_000)
    os.symlink(docs, docs / "loop")
    corpus = ingest(docs.parent)
    found = reasons(corpus)
    assert [document.path for document in corpus.documents] == ["good.md"]
    assert "binary" in found["binary.md"]
    assert found["empty.md"] == "holds no text"
    assert "no reader" in found["notes.xyz"]
    assert "20" in found["huge.md"] and "MB" in found["huge.md"]
    assert {"cut.pdf", "fake.docx", "broken.ipynb"} <= set(found)
    assert all("\n" not in reason for reason in found.values())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1", "cp1252"])
def test_text_in_other_encodings_is_read(docs: Path, encoding: str) -> None:
    text = "# Größe\n\nDie Größe für Übungsläufe beträgt 5 Gigabyte, das genügt für alle Läufe.\n"
    (docs / "other.md").write_bytes(text.encode(encoding))
    corpus = ingest(docs.parent)
    [document] = [d for d in corpus.documents if d.path == "other.md"]
    assert document.title == "Größe"


def test_broken_front_matter_costs_a_warning_and_not_the_page(docs: Path) -> None:
    (docs / "front.md").write_text("---\ntitle: [unclosed\n---\n\n# Page\n\nBody stays.\n")
    corpus = ingest(docs.parent)
    assert any("Body stays." in chunk.text for chunk in corpus.chunks)
    assert any(line.startswith("front.md:") for line in corpus.reports[0].warnings)


def test_strict_makes_the_first_bad_file_an_error(docs: Path) -> None:
    (docs / "binary.md").write_bytes(b"\x00\x01\x02\xff" * 300)
    with pytest.raises(IngestError, match=r"binary\.md looks like a binary file"):
        ingest(docs.parent, ReadSettings(strict=True))


def test_folders_that_call_themselves_old_give_their_pages_a_status(docs: Path) -> None:
    (docs / "decommissioned").mkdir()
    (docs / "decommissioned" / "sge.md").write_text("# SGE\n\nUse qsub.\n")
    corpus = ingest(docs.parent)
    old = next(d for d in corpus.documents if d.path == "decommissioned/sge.md")
    assert old.status == "decommissioned"
    assert "no longer in service" in old.notice
    assert corpus.reports[0].statuses == {"decommissioned": 1}


def test_status_paths_of_the_source_win(docs: Path) -> None:
    (docs / "sharc").mkdir()
    (docs / "sharc" / "a.md").write_text("# Old\n\nText.\n")
    extra = 'options = { status_paths = { outdated = ["sharc/**"] } }'
    corpus = ingest(docs.parent, extra=extra)
    assert {d.path: d.status for d in corpus.documents} == {
        "good.md": "current",
        "sharc/a.md": "outdated",
    }


def test_a_fragment_is_no_page_of_its_own_once_a_page_includes_it(docs: Path) -> None:
    (docs / "imports").mkdir()
    (docs / "imports" / "part.rst").write_text("Shared sentence about modules.\n")
    (docs / "page.rst").write_text("Page\n====\n\n.. include:: imports/part.rst\n")
    corpus = ingest(docs.parent)
    holders = {chunk.path for chunk in corpus.chunks if "Shared sentence" in chunk.text}
    assert holders == {"page.rst"}
    assert reasons(corpus)["imports/part.rst"] == "a part of other pages, such as page.rst"


def test_the_fingerprint_follows_files_and_settings(docs: Path) -> None:
    def current(settings: ReadSettings = DEFAULTS) -> str:
        sources = sources_of(docs.parent)
        opened = open_sources(sources, workspace_root=docs.parent, cache_dir=docs / "c")
        return fingerprint(opened, sources, settings)

    first = current()
    assert first == current()
    assert first != current(ReadSettings(target=100))
    (docs / "good.md").write_text("# Good\n\nThe limit is 9 days.\n")
    second = current()
    assert second != first
    (docs / "new.md").write_text("# New\n\nText.\n")
    assert current() not in (first, second)


def test_chunks_carry_cluster_language_and_address_of_the_source(docs: Path) -> None:
    extra = 'cluster = "meridian"\nlanguage = "pt"\nbase_url = "https://docs.example/"'
    corpus = ingest(docs.parent, extra=extra)
    [chunk] = corpus.chunks
    assert (chunk.cluster, chunk.language) == ("meridian", "pt")
    assert chunk.url == "https://docs.example/good.md#good"
