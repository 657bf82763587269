"""Texts and metadata of one generation in SQLite.

Role: written once by the builder, read by any number of threads afterwards. A chunk's ``row`` is
its position in the vector and word indexes; folded duplicates have rows past those and name the
row that stands for them.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hpcllm.errors import StoreError
from hpcllm.index.manifest import REBUILD
from hpcllm.records import Chunk, Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

STORE_FILE = "chunks.sqlite"

SCOPE_KEY = "scope"
"""Key of a document's metadata: documents that have it are found in searches of that scope only."""

SCHEMA = """
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, source TEXT NOT NULL, path TEXT NOT NULL, title TEXT NOT NULL,
    text TEXT NOT NULL, url TEXT, language TEXT NOT NULL, cluster TEXT, revision TEXT NOT NULL,
    status TEXT NOT NULL, notice TEXT NOT NULL, metadata TEXT NOT NULL, warnings TEXT NOT NULL,
    UNIQUE (source, path)
) STRICT;
CREATE TABLE chunks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    document INTEGER NOT NULL REFERENCES documents, stands_in INTEGER REFERENCES chunks,
    vector_key BLOB NOT NULL, title TEXT NOT NULL, headings TEXT NOT NULL, anchor TEXT NOT NULL,
    text TEXT NOT NULL, position INTEGER NOT NULL, tokens INTEGER NOT NULL, line INTEGER NOT NULL,
    url TEXT, language TEXT NOT NULL, cluster TEXT, status TEXT NOT NULL, notice TEXT NOT NULL,
    keywords TEXT NOT NULL
) STRICT;
"""

INDEXES = """
CREATE INDEX chunks_stands_in ON chunks (stands_in) WHERE stands_in IS NOT NULL;
CREATE INDEX chunks_document ON chunks (document, position);
"""

CHUNK_COLUMNS = (
    "c.id, d.source, d.path, c.title, c.headings, c.anchor, c.text, c.position, c.tokens, c.line, "
    "c.url, c.language, c.cluster, c.status, c.notice, c.keywords"
)
DOCUMENT_COLUMNS = (
    "source, path, title, text, url, language, cluster, revision, status, notice, metadata, "
    "warnings"
)


def write_store(
    path: Path,
    documents: Sequence[Document],
    chunks: Sequence[Chunk],
    *,
    rows: Sequence[int],
    stands_in: Sequence[int | None],
    vector_keys: Sequence[bytes],
) -> None:
    """Write a new database.

    Args:
        path: file to create.
        documents: all documents.
        chunks: all chunks, each of one of the documents.
        rows: row of each chunk.
        stands_in: per chunk the row of the chunk it was folded into, or None.
        vector_keys: per chunk the hash of what was embedded.

    Raises:
        sqlite3.Error: the file cannot be written.
    """
    numbers = {(item.source, item.path): number for number, item in enumerate(documents)}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # The file is new and is synced as a whole before anything points to it.
        connection.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;" + SCHEMA)
        connection.execute("BEGIN")
        connection.executemany(
            f"INSERT INTO documents VALUES ({_marks(13)})",
            ((number, *_document_values(item)) for number, item in enumerate(documents)),
        )
        connection.executemany(
            f"INSERT INTO chunks VALUES ({_marks(18)})",
            (
                (row, item.id, numbers[item.source, item.path], kept, key, *_chunk_values(item))
                for item, row, kept, key in zip(chunks, rows, stands_in, vector_keys, strict=True)
            ),
        )
        connection.execute("COMMIT")
        connection.executescript(INDEXES + "PRAGMA optimize;")


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _document_values(item: Document) -> tuple[Any, ...]:
    return (
        item.source,
        item.path,
        item.title,
        item.text,
        item.url,
        item.language,
        item.cluster,
        item.revision,
        item.status,
        item.notice,
        json.dumps(dict(item.metadata), ensure_ascii=False),
        json.dumps(item.warnings, ensure_ascii=False),
    )


def _chunk_values(item: Chunk) -> tuple[Any, ...]:
    return (
        item.title,
        json.dumps(item.headings, ensure_ascii=False),
        item.anchor,
        item.text,
        item.position,
        item.tokens,
        item.line,
        item.url,
        item.language,
        item.cluster,
        item.status,
        item.notice,
        item.keywords,
    )


class Store:
    """Reads the database of one generation; thread-safe.

    Args:
        path: the database file.

    Raises:
        StoreError: the file cannot be opened or is not the database expected.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
        except sqlite3.Error as exc:
            raise self._damaged(exc) from exc
        self._select("SELECT row, document, stands_in FROM chunks LIMIT 1")

    def chunk(self, chunk_id: str) -> Chunk | None:
        """Return the chunk with this id, folded or not, or None."""
        found = self._chunks("c.id = ?", [chunk_id])
        return found[0][1] if found else None

    def chunks_at(self, rows: Iterable[int]) -> dict[int, Chunk]:
        """Return the chunks in the given rows, by row; unknown rows are left out."""
        wanted = [int(row) for row in rows]
        return dict(self._chunks(f"c.row IN ({_marks(len(wanted))})", wanted)) if wanted else {}

    def folded_into(self, rows: Iterable[int]) -> dict[int, list[Chunk]]:
        """Return by row the chunks folded into it, in order; rows without any are left out."""
        wanted = [int(row) for row in rows]
        found: dict[int, list[Chunk]] = {}
        if wanted:
            condition = f"c.stands_in IN ({_marks(len(wanted))})"
            for values in self._select(
                f"SELECT c.stands_in, {CHUNK_COLUMNS} FROM chunks c JOIN documents d "
                f"ON d.number = c.document WHERE {condition} ORDER BY c.row",
                wanted,
            ):
                found.setdefault(values[0], []).append(_chunk_of(values[1:]))
        return found

    def chunks_of(self, source: str, path: str) -> list[Chunk]:
        """Return all chunks of a document in reading order, empty for an unknown document."""
        found = self._chunks("d.source = ? AND d.path = ? ORDER BY c.position", [source, path])
        return [chunk for _, chunk in found]

    def document(self, source: str, path: str) -> Document | None:
        """Return one document with its full text, or None."""
        found = self._select(
            f"SELECT {DOCUMENT_COLUMNS} FROM documents WHERE source = ? AND path = ?",
            [source, path],
        )
        if not found:
            return None
        values = dict(zip(DOCUMENT_COLUMNS.split(", "), found[0], strict=True))
        values["metadata"] = json.loads(values["metadata"])
        values["warnings"] = tuple(json.loads(values["warnings"]))
        return Document(**values)

    def pages(self) -> list[tuple[str, str]]:
        """Return source and path of every document, in the order of the index."""
        return [
            (source, path)
            for source, path in self._select("SELECT source, path FROM documents ORDER BY number")
        ]

    def vector_rows(self) -> dict[bytes, int]:
        """Return the row of each vector by the hash of what was embedded."""
        return dict(self._select("SELECT vector_key, row FROM chunks WHERE stands_in IS NULL"))

    def documents_apart(self) -> dict[str, list[int]]:
        """Return the numbers of documents by the scope that their metadata sets them apart in."""
        found: dict[str, list[int]] = {}
        for number, metadata in self._select(
            "SELECT number, metadata FROM documents WHERE metadata LIKE '%\"scope\"%'"
        ):
            scope = json.loads(metadata).get(SCOPE_KEY)
            if scope:
                found.setdefault(scope, []).append(number)
        return found

    def tickets(self) -> dict[tuple[str, str], str]:
        """Return the date of each ticket, or an empty text, by source and path."""
        found = self._select(
            "SELECT source, path, metadata FROM documents WHERE metadata LIKE '%\"ticket\"%'"
        )
        read = [(source, path, json.loads(metadata)) for source, path, metadata in found]
        return {
            (source, path): str(metadata.get("date", ""))
            for source, path, metadata in read
            if metadata.get("kind") == "ticket"
        }

    def ids(self) -> set[str]:
        """Return the ids of all chunks."""
        return {values[0] for values in self._select("SELECT id FROM chunks")}

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._connection.close()

    def _chunks(self, condition: str, values: Sequence[Any]) -> list[tuple[int, Chunk]]:
        found = self._select(
            f"SELECT c.row, {CHUNK_COLUMNS} FROM chunks c JOIN documents d "
            f"ON d.number = c.document WHERE {condition}",
            values,
        )
        return [(row[0], _chunk_of(row[1:])) for row in found]

    def _select(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as exc:
            raise self._damaged(exc) from exc

    def _damaged(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"index file {self._path} cannot be read ({error}); {REBUILD}")


def _chunk_of(values: Sequence[Any]) -> Chunk:
    chunk_id, source, path, title, headings, *rest = values
    return Chunk(chunk_id, source, path, title, tuple(json.loads(headings)), *rest)
