from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from hpcllm.errors import ModelError, StoreError
from hpcllm.index.build import build_generation
from hpcllm.index.embedders.base import Progress, Vectors
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.generation import Generation, current_name, list_generations
from hpcllm.index.text import embedding_text
from tests.unit.index.conftest import Build
from tests.unit.index.helpers import page

Open = Callable[[], Generation]


class Recorder(HashEmbedder):
    """Notes what it is asked to embed."""

    def __init__(self, dimension: int = 256) -> None:
        super().__init__(dimension)
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        self.seen += texts
        return super().embed(texts, progress=progress)


class Broken(HashEmbedder):
    def embed(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        raise ModelError("out of memory")


A, B, C = page("a.md", ["one", "two"]), page("b.md", ["three"]), page("c.md", ["four"])


def test_the_first_build_embeds_everything(build: Build, index_dir: Path) -> None:
    report = build(A, B)
    assert (report.documents, report.chunks, report.embedded) == (2, 3, 3)
    assert (report.reused, report.removed, report.folded, report.unchanged) == (0, 0, 0, False)
    assert current_name(index_dir) == report.generation


def test_an_unchanged_corpus_writes_nothing(build: Build, index_dir: Path) -> None:
    first = build(A, B)
    files = {path: path.stat().st_mtime_ns for path in index_dir.rglob("gen-*/*")}
    recorder = Recorder()
    second = build(A, B, embedder=recorder)
    assert second.unchanged
    assert second.generation == first.generation
    assert (second.embedded, second.reused, second.chunks) == (0, 3, 3)
    assert recorder.seen == []
    assert {path: path.stat().st_mtime_ns for path in index_dir.rglob("gen-*/*")} == files


def test_only_what_is_new_is_embedded_and_what_is_gone_leaves(build: Build, opened: Open) -> None:
    build(A, B)
    recorder = Recorder()
    report = build(A, C, embedder=recorder)
    assert recorder.seen == [embedding_text(C[1][0])]
    assert (report.embedded, report.reused, report.removed) == (1, 2, 1)
    assert opened().chunk(B[1][0].id) is None
    assert opened().document("docs", "b.md") is None


def test_reused_vectors_are_those_of_their_texts(build: Build, opened: Open) -> None:
    build(A, B, C)
    build(C, A)
    generation = opened()
    for row, chunk in generation.store.chunks_at(range(3)).items():
        expected = HashEmbedder().embed([embedding_text(chunk)])[0]
        assert np.array_equal(generation.dense.vectors(np.array([row]))[0], expected)


def test_a_page_that_moved_is_not_embedded_again(build: Build) -> None:
    build(A)
    moved = page("new/a.md", ["one", "two"], title="a.md")
    report = build(moved)
    assert (report.embedded, report.reused, report.removed) == (0, 2, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"notice": "Old."},
        {"status": "outdated"},
        {"url": "https://x.example"},
        {"metadata": {"a": "b"}},
    ],
)
def test_a_change_of_metadata_alone_is_taken_over(
    build: Build, opened: Open, change: dict[str, object]
) -> None:
    build(A)
    changed = replace(A[0], **change)
    report = build((changed, A[1]))
    assert not report.unchanged
    assert report.embedded == 0
    assert opened().document("docs", "a.md") == changed


def test_another_embedder_embeds_everything_anew(build: Build, opened: Open) -> None:
    build(A)
    assert build(A, embedder=HashEmbedder(64)).embedded == 2
    assert opened().manifest.dimension == 64


def test_a_rebuild_on_demand_reuses_nothing(build: Build) -> None:
    build(A)
    report = build(A, reuse=False)
    assert (report.unchanged, report.embedded, report.reused) == (False, 2, 0)


def test_progress_counts_what_is_embedded(build: Build) -> None:
    build(A)
    calls: list[tuple[int, int | None]] = []
    build(A, B, C, progress=lambda advance, total: calls.append((advance, total)))
    assert calls[0] == (0, 2)
    assert sum(advance for advance, _ in calls) == 2


def test_an_index_past_the_exact_limit_is_searched_by_lists(build: Build, opened: Open) -> None:
    pages = [page(f"{i}.md", [f"topic{i} text"]) for i in range(60)]
    build(*pages, exact_limit=50)
    assert opened().manifest.dense["kind"] == "ivf"
    assert build(*pages[:-1], exact_limit=50).reused == 59


def test_nothing_to_index_is_an_error_and_keeps_what_was(build: Build, index_dir: Path) -> None:
    name = build(A).generation
    with pytest.raises(StoreError, match=r"nothing to index: 0 documents .* sources.toml"):
        build()
    assert current_name(index_dir) == name


def test_chunks_must_fit_together(build: Build, index_dir: Path) -> None:
    document, chunks = A
    with pytest.raises(ValueError, match="chunk ids must be unique"):
        build((document, [chunks[0], chunks[0]]))
    with pytest.raises(ValueError, match="is not among the documents"):
        build_generation(index_dir, chunks, [B[0]], HashEmbedder())
    with pytest.raises(ValueError, match="unique by source and path"):
        build_generation(index_dir, chunks, [document, document], HashEmbedder())


def test_a_failure_while_embedding_keeps_what_was(build: Build, index_dir: Path) -> None:
    name = build(A).generation
    with pytest.raises(ModelError, match="out of memory"):
        build(A, B, embedder=Broken())
    assert current_name(index_dir) == name
    assert list_generations(index_dir) == [name]


@pytest.mark.parametrize("step", ["write_vectors", "write_store", "write_lexical", "sync_tree"])
def test_a_full_disk_keeps_what_was_and_leaves_no_rest(
    build: Build, index_dir: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    name = build(A).generation

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"hpcllm.index.build.{step}", full)
    with pytest.raises(StoreError, match=r"No space left on device; .* Free some space"):
        build(A, B)
    assert current_name(index_dir) == name
    assert list_generations(index_dir) == [name]
    assert [path.name for path in index_dir.glob("building-*")] == []


def test_what_a_killed_build_left_is_removed_by_the_next(build: Build, index_dir: Path) -> None:
    build(A)
    for name in ("building-gen-1", "discarded-gen-0"):
        (index_dir / name / "lexical").mkdir(parents=True)
        (index_dir / name / "rows.npy").write_bytes(b"half")
    build(A, B)
    assert list(index_dir.glob("building-*")) == []
    assert list(index_dir.glob("discarded-*")) == []


def test_a_damaged_index_is_built_anew(build: Build, index_dir: Path, opened: Open) -> None:
    broken = build(A).generation
    (index_dir / broken / "rows.npy").write_bytes(b"junk")
    report = build(A)
    assert not report.unchanged
    assert report.embedded == 2
    assert opened().name == report.generation != broken


def test_the_older_generation_becomes_current_where_it_equals_the_corpus(
    build: Build, index_dir: Path
) -> None:
    first = build(A).generation
    second = build(A, B).generation
    (index_dir / second / "rows.npy").write_bytes(b"junk")
    report = build(A)
    assert report.unchanged
    assert report.generation == first == current_name(index_dir)


def test_a_second_build_waits_and_then_says_who_holds_the_lock(
    build: Build, index_dir: Path
) -> None:
    build(A)
    with (
        FileLock(index_dir / "build.lock"),
        pytest.raises(StoreError, match=r"another build has held .*build.lock for 0.05 s"),
    ):
        build(A, B, lock_timeout_s=0.05)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(build: Build, index_dir: Path) -> None:
    index_dir.mkdir()
    index_dir.chmod(0o500)
    with pytest.raises(StoreError, match="cannot be written: Permission denied"):
        build(A)


def test_a_file_in_the_place_of_the_folder_is_named(build: Build, index_dir: Path) -> None:
    index_dir.write_text("x")
    with pytest.raises(StoreError, match=r"index cannot be written: File exists"):
        build(A)
