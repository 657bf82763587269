from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcllm.errors import StoreError
from hpcllm.index.generation import (
    Generation,
    current_name,
    list_generations,
    open_current,
    prune,
    recorded_inputs,
    set_current,
)
from hpcllm.index.manifest import FORMAT, MANIFEST_FILE, read_manifest
from tests.unit.index.conftest import Build
from tests.unit.index.helpers import page

Open = Callable[[], Generation]

FILES = [
    "chunks.sqlite",
    "lexical/data.csc.index.npy",
    "lexical/indices.csc.index.npy",
    "lexical/indptr.csc.index.npy",
    "lexical/params.index.json",
    "lexical/vocab.index.json",
    "lock",
    "rows.npy",
    "vectors.faiss",
]


def damage(path: Path) -> None:
    """Change one byte in the middle, or add one to an empty file."""
    data = bytearray(path.read_bytes())
    if data:
        data[len(data) // 2] ^= 0xFF
    else:
        data.append(0)
    path.write_bytes(data)


def test_there_is_no_index_before_the_first_build(index_dir: Path) -> None:
    with pytest.raises(StoreError, match="holds no index yet; build one with: hpcllm ingest"):
        open_current(index_dir)
    assert list_generations(index_dir) == []
    assert current_name(index_dir) is None


def test_the_manifest_says_what_the_generation_holds(build: Build, opened: Open) -> None:
    report = build(
        page("a.md", ["one", "two"], cluster="meridian"), page("b.md", ["um"], language="pt")
    )
    manifest = opened().manifest
    assert manifest.name == report.generation == opened().name
    assert (manifest.documents, manifest.chunks, manifest.vectors) == (2, 3, 3)
    assert (manifest.embedder_id, manifest.dimension) == ("hashing", 256)
    assert manifest.clusters == ("meridian",)
    assert manifest.languages == ("en", "pt")
    assert sorted(manifest.files) == FILES


def test_chunks_and_whole_documents_can_be_read(build: Build, opened: Open) -> None:
    document, chunks = page("a.md", ["one", "two"])
    build((document, chunks))
    assert opened().chunk(chunks[1].id) == chunks[1]
    assert opened().document("docs", "a.md") == document


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["changed", "cut", "missing"])
def test_every_damaged_file_is_found_on_opening_and_named(
    build: Build, index_dir: Path, name: str, how: str
) -> None:
    victim = index_dir / build(page("a.md", ["one", "two"])).generation / name
    if how == "changed":
        damage(victim)
    elif how == "cut" and victim.stat().st_size:
        victim.write_bytes(victim.read_bytes()[:-1])
    else:
        victim.unlink()
    with pytest.raises(StoreError) as caught:
        open_current(index_dir)
    assert victim.name in str(caught.value)
    assert "hpcllm ingest --rebuild" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ("{}", "damaged"),
        ('{"checksum": "", "format": 99}', f"format 99; this version .* reads format {FORMAT}"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(
    build: Build, index_dir: Path, content: str, message: str
) -> None:
    folder = index_dir / build(page("a.md", ["one"])).generation
    (folder / MANIFEST_FILE).write_text(content)
    with pytest.raises(StoreError, match=f"{message}.*hpcllm ingest --rebuild"):
        open_current(index_dir)


def test_a_manifest_changed_by_hand_is_refused(build: Build, index_dir: Path) -> None:
    path = index_dir / build(page("a.md", ["one"])).generation / MANIFEST_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "dimension": 128}))
    with pytest.raises(StoreError, match="checksum does not match"):
        read_manifest(path.parent)


def test_an_older_generation_stands_in_for_a_damaged_one_with_a_warning(
    build: Build, index_dir: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    older = build(page("a.md", ["one"])).generation
    newer = build(page("a.md", ["two"])).generation
    damage(index_dir / newer / "vectors.faiss")
    with caplog.at_level(logging.WARNING):
        assert opened().name == older
    assert "vectors.faiss is damaged" in caplog.text
    assert f"Serving the older generation {older} meanwhile" in caplog.text


def test_with_every_generation_damaged_the_current_one_is_reported(
    build: Build, index_dir: Path
) -> None:
    names = [build(page("a.md", [text])).generation for text in ("one", "two")]
    for name in names:
        damage(index_dir / name / "rows.npy")
    with pytest.raises(StoreError, match=names[1]):
        open_current(index_dir)


def test_a_lost_pointer_falls_back_to_the_newest(
    build: Build, index_dir: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    build(page("a.md", ["one"]))
    newer = build(page("a.md", ["two"])).generation
    (index_dir / "current").unlink()
    assert opened().name == newer
    assert "current is missing" in caplog.text


def test_a_pointer_cannot_lead_out_of_the_index(build: Build, index_dir: Path) -> None:
    name = build(page("a.md", ["one"])).generation
    (index_dir / "current").write_text(f"../{index_dir.name}/{name}\n")
    with open_current(index_dir) as generation:
        assert generation.path == index_dir / name


def test_verify_reads_every_byte(
    build: Build, index_dir: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = build(page("a.md", ["one"])).generation
    monkeypatch.setattr("hpcllm.index.manifest.VERIFIED_BYTES", 0)
    generation = opened()
    generation.verify()
    damage(index_dir / name / "vectors.faiss")
    with pytest.raises(StoreError, match=r"vectors.faiss is damaged: SHA-256"):
        generation.verify()


def test_generations_in_use_and_the_current_one_are_never_removed(
    build: Build, index_dir: Path, opened: Open
) -> None:
    first = build(page("a.md", ["one"]), keep=9).generation
    held = opened()
    second = build(page("a.md", ["two"]), keep=9).generation
    third = build(page("a.md", ["three"]), keep=9).generation
    assert prune(index_dir, keep=1) == [second]
    assert held.chunk(next(iter(held.store.ids()))) is not None
    held.close()
    assert prune(index_dir, keep=1) == [first]
    assert list_generations(index_dir) == [third]


def test_a_current_generation_that_is_not_the_newest_is_kept(build: Build, index_dir: Path) -> None:
    first = build(page("a.md", ["one"]), keep=9).generation
    second = build(page("a.md", ["two"]), keep=9).generation
    set_current(index_dir, first)
    assert prune(index_dir, keep=1) == [second]
    assert list_generations(index_dir) == [first]


def test_inputs_are_remembered_for_the_current_generation_only(
    build: Build, index_dir: Path
) -> None:
    first = build(page("a.md", ["one"]), inputs="abc").generation
    assert recorded_inputs(index_dir) == "abc"
    assert recorded_inputs(index_dir, first) == "abc"
    assert recorded_inputs(index_dir, "gen-other") is None
    build(page("a.md", ["two"]))
    assert recorded_inputs(index_dir) is None
