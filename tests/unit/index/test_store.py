from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hpcllm.errors import StoreError
from hpcllm.index.store import Store, write_store
from hpcllm.records import Chunk, Document
from tests.unit.index.helpers import corpus, page


@pytest.fixture
def records() -> tuple[list[Document], list[Chunk]]:
    first = page(
        "a 'quoted' ü.md",
        ["one", "two"],
        keywords="k",
        cluster="meridian",
        language="pt",
        status="outdated",
        notice="Old.",
        metadata={"weight": "2", "tag": "ç"},
        url=None,
    )
    document = replace(first[0], revision="r1", warnings=("line 1: odd",))
    return corpus((document, first[1]), page("b.md", ["one"]))


@pytest.fixture
def store(tmp_path: Path, records: tuple[list[Document], list[Chunk]]) -> Store:
    documents, chunks = records
    keys = [b"a" * 16, b"b" * 16, b"c" * 16]
    write_store(
        tmp_path / "s", documents, chunks, rows=[0, 1, 2], stands_in=[None, None, 0],
        vector_keys=keys,
    )  # fmt: skip
    return Store(tmp_path / "s")


def test_records_come_back_equal(store: Store, records: tuple[list[Document], list[Chunk]]) -> None:
    documents, chunks = records
    assert [store.document(d.source, d.path) for d in documents] == documents
    assert [store.chunk(chunk.id) for chunk in chunks] == chunks
    assert store.chunks_at([1, 0]) == {0: chunks[0], 1: chunks[1]}
    assert store.chunks_of("docs", documents[0].path) == chunks[:2]


def test_what_is_unknown_gives_nothing(store: Store) -> None:
    assert store.chunk("0" * 32) is None
    assert store.document("docs", "none.md") is None
    assert store.chunks_at([99]) == {}
    assert store.chunks_at([]) == {}
    assert store.chunks_of("docs", "none.md") == []


def test_folded_chunks_are_found_by_what_stands_for_them_and_have_no_vector(
    store: Store, records: tuple[list[Document], list[Chunk]]
) -> None:
    assert store.folded_into([0, 1]) == {0: [records[1][2]]}
    assert store.vector_rows() == {b"a" * 16: 0, b"b" * 16: 1}
    assert store.ids() == {chunk.id for chunk in records[1]}


def test_threads_share_it(store: Store, records: tuple[list[Document], list[Chunk]]) -> None:
    wrong: list[object] = []

    def read() -> None:
        for _ in range(50):
            for row, chunk in enumerate(records[1]):
                found = store.chunks_at([row]).get(row)
                if found != chunk:
                    wrong.append(found)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_it_cannot_be_written_to(store: Store, tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._connection.execute("DELETE FROM chunks")


@pytest.mark.parametrize("content", [b"", b"x" * 5000], ids=["empty", "junk"])
def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(StoreError, match=r"/s cannot be read .*hpcllm ingest --rebuild"):
        Store(tmp_path / "s")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="/none cannot be read"):
        Store(tmp_path / "none")
