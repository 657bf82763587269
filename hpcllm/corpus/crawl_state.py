"""What a crawl has done so far, on disk after every page.

Role: the SQLite file and the folder of bodies behind one website. A kill at any moment loses at
most the page in progress. A page's body is put in place before its row is written.

A *run* is one pass over the site. Pages that a finished run did not meet are gone from the site.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS pages (
    url TEXT PRIMARY KEY, path TEXT NOT NULL, file TEXT NOT NULL, type TEXT NOT NULL,
    etag TEXT NOT NULL, modified TEXT NOT NULL, sha256 TEXT NOT NULL, links TEXT NOT NULL,
    canonical TEXT NOT NULL, kept INTEGER NOT NULL, run INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS queue (
    place INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE, depth INTEGER NOT NULL,
    referrer TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS problems (url TEXT PRIMARY KEY, referrer TEXT NOT NULL,
    reason TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS pages_path ON pages (path);
CREATE INDEX IF NOT EXISTS pages_run ON pages (run);
CREATE INDEX IF NOT EXISTS queue_done ON queue (done, place);
"""

STATE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a site as it was last fetched.

    Attributes:
        url: canonical address.
        path: name for citations.
        file: name of the body below the folder of bodies.
        type: content type.
        etag: the server's name of this version, or empty.
        modified: ``Last-Modified``, or empty.
        sha256: hash of the body.
        links: addresses that it links to.
        canonical: address that it calls its own, or empty.
        kept: whether it may be read (not marked ``noindex``).
    """

    url: str
    path: str
    file: str
    type: str
    etag: str = ""
    modified: str = ""
    sha256: str = ""
    links: tuple[str, ...] = ()
    canonical: str = ""
    kept: bool = True


@dataclass(slots=True)
class CrawlState:
    """State of the crawl of one site.

    Attributes:
        folder: where it lies; made where it is missing.
    """

    folder: Path
    _db: sqlite3.Connection = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.bodies.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.folder / "state.sqlite", isolation_level=None)
            self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + SCHEMA)
        except (OSError, sqlite3.Error) as exc:
            raise IngestError(
                f"the state of the crawl in {self.folder} cannot be opened ({exc}); remove that "
                "folder to crawl the site anew"
            ) from exc

    @property
    def bodies(self) -> Path:
        """Folder of the pages' bodies."""
        return self.folder / "pages"

    def get(self, key: str) -> str:
        """Return a noted value, or an empty string."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else ""

    def note(self, key: str, value: str) -> None:
        """Note a value."""
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @property
    def run(self) -> int:
        """Number of the run in progress or last finished, 0 before the first."""
        return int(self.get("run") or 0)

    def begin(self, settings: str) -> None:
        """Begin a new run."""
        self._db.execute("BEGIN")
        self._db.execute("DELETE FROM queue")
        self._db.execute("DELETE FROM problems")
        for key, value in (("run", str(self.run + 1)), ("settings", settings), ("finished", "")):
            self.note(key, value)
        self._db.execute("COMMIT")

    def is_running(self, settings: str) -> bool:
        """Say whether a run with these settings was begun and not finished."""
        same = self.get("settings") == settings
        return self.run > 0 and same and not self.get("finished")

    def age_s(self, settings: str) -> float:
        """Return the seconds since a run with these settings was finished; infinite if never."""
        if self.get("settings") != settings or not self.get("finished"):
            return float("inf")
        return time.time() - float(self.get("finished"))

    def finish(self) -> list[str]:
        """End the run: drop pages that it did not meet, and return their addresses."""
        gone = self._db.execute("SELECT url, file FROM pages WHERE run < ?", (self.run,)).fetchall()
        for url, _ in gone:
            self.drop(url)
        self.note("finished", repr(time.time()))
        return [url for url, _ in gone]

    def enqueue(self, urls: Iterable[str], depth: int, referrer: str) -> None:
        """Add addresses that this run has not met yet."""
        self._db.executemany(
            "INSERT OR IGNORE INTO queue (url, depth, referrer) VALUES (?, ?, ?)",
            ((url, depth, referrer) for url in urls),
        )

    def next(self) -> tuple[str, int, str] | None:
        """Return the next address with depth and referrer, or None at the end."""
        row = self._db.execute(
            "SELECT url, depth, referrer FROM queue WHERE done = 0 ORDER BY place LIMIT 1"
        ).fetchone()
        return None if row is None else (str(row[0]), int(row[1]), str(row[2]))

    def done(self, url: str) -> None:
        """Note that an address needs no more work in this run."""
        self._db.execute("UPDATE queue SET done = 1 WHERE url = ?", (url,))

    def reopen(self, urls: Iterable[str]) -> None:
        """Note that addresses are to be tried again in this run."""
        self._db.executemany("UPDATE queue SET done = 0 WHERE url = ?", ((url,) for url in urls))

    def page(self, url: str) -> Page | None:
        """Return a page as last fetched."""
        found = self._pages("WHERE url = ?", (url,))
        return found[0] if found else None

    def owner(self, path: str) -> str:
        """Return the address of the page that has a name, or an empty string."""
        row = self._db.execute("SELECT url FROM pages WHERE path = ?", (path,)).fetchone()
        return str(row[0]) if row else ""

    def pages(self) -> list[Page]:
        """Return all pages of this site, sorted by path."""
        return self._pages("ORDER BY path, url", ())

    def count(self) -> int:
        """Return the pages that this run has met."""
        row = self._db.execute("SELECT count(*) FROM pages WHERE run = ?", (self.run,)).fetchone()
        return int(row[0])

    def _pages(self, clause: str, values: tuple[str, ...]) -> list[Page]:
        rows = self._db.execute(
            "SELECT url, path, file, type, etag, modified, sha256, links, canonical, kept "
            f"FROM pages {clause}",
            values,
        ).fetchall()
        return [_page_of(row) for row in rows]

    def store(self, page: Page, body: bytes | None) -> None:
        """Keep a page of this run.

        Args:
            page: the page.
            body: its content, or None where the one at hand still holds.
        """
        if body is not None:
            target = self.bodies / page.file
            temporary = target.with_name(f"{page.file}.part")
            temporary.write_bytes(body)
            os.replace(temporary, target)
        values = (page.url, page.path, page.file, page.type, page.etag, page.modified, page.sha256,
                  json.dumps(page.links), page.canonical, int(page.kept), self.run)  # fmt: skip
        marks = ", ".join("?" * len(values))
        self._db.execute(f"INSERT OR REPLACE INTO pages VALUES ({marks})", values)

    def keep(self, url: str) -> None:
        """Note that a page at hand belongs to this run too."""
        self._db.execute("UPDATE pages SET run = ? WHERE url = ?", (self.run, url))

    def drop(self, url: str) -> None:
        """Forget a page."""
        for page in self._pages("WHERE url = ?", (url,)):
            self._db.execute("DELETE FROM pages WHERE url = ?", (url,))
            (self.bodies / page.file).unlink(missing_ok=True)

    def problem(self, url: str, referrer: str, reason: str) -> None:
        """Note why an address gave no page."""
        values = (url, referrer, reason)
        self._db.execute("INSERT OR REPLACE INTO problems VALUES (?, ?, ?)", values)

    def problems(self) -> list[tuple[str, str, str]]:
        """Return (address, referrer, reason) of all addresses that gave no page."""
        rows = self._db.execute("SELECT url, referrer, reason FROM problems ORDER BY url")
        return [(str(a), str(b), str(c)) for a, b, c in rows.fetchall()]

    def begin_step(self) -> None:
        """Begin what is written together."""
        self._db.execute("BEGIN")

    def end_step(self) -> None:
        """Write it."""
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _page_of(row: tuple[Any, ...]) -> Page:
    *texts, links, canonical, kept = row
    url, path, file, kind, etag, modified, sha256 = map(str, texts)
    found = tuple(json.loads(links))
    return Page(url, path, file, kind, etag, modified, sha256, found, canonical, bool(kept))


def body_name(url: str, suffix: str) -> str:
    """Return the name of the file that holds a page's body."""
    return hashlib.sha256(url.encode("utf-8", "replace")).hexdigest()[:24] + suffix
