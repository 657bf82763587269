"""Open a database, bring its tables up to date and hand out sessions.

Role: under the store; all that depends on the kind of database is here. SQLite runs with a
write-ahead log, so that reading does not wait for writing and a killed process loses nothing that
was committed.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.orm import Session

from hpcllm.errors import ConfigError, StoreError, import_extra

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection, Engine

logger = logging.getLogger(__name__)

REVISION = "0001"
"""Newest revision of the tables; a test compares it with the migrations."""
MIGRATIONS = Path(__file__).parent / "migrations"
BUSY_TIMEOUT_S = 10.0
"""Seconds that a SQLite writer waits for another one."""
_WRITES = "hpcllm_writes"


def open_engine(database: Path | str) -> Engine:
    """Open a database with the newest tables; see :meth:`hpcllm.server.store.Store.open`."""
    url = _url(database)
    engine = _engine(url)
    try:
        with _guarded(engine), _only_one(url):
            _upgrade(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """Give a session for reading.

    Raises:
        StoreError: the database fails.
    """
    with _guarded(engine), Session(engine) as session:
        yield session


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """Give a session that is committed at the end, or rolled back where an error is raised.

    Raises:
        StoreError: the database fails.
        IntegrityError: what was written collides with what is there.
    """
    writer = engine.execution_options(**{_WRITES: True})
    with _guarded(engine), Session(writer) as session, session.begin():
        yield session


@contextmanager
def _guarded(engine: Engine) -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as exc:
        place = engine.url.render_as_string(hide_password=True)
        raise StoreError(
            f"the database {place} failed: {exc.orig}. Check that its folder can be written to, "
            "has free space and is not on a damaged disk"
        ) from exc


def _url(database: Path | str) -> URL:
    if isinstance(database, Path) or "://" not in database:
        return URL.create("sqlite", database=str(Path(database).expanduser().resolve()))
    try:
        return make_url(database)
    except ArgumentError as exc:
        raise ConfigError(
            "the database is no SQLAlchemy URL; expected a file, or something such as "
            "postgresql+psycopg://user@host/name"
        ) from exc


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        if url.drivername == "postgresql+psycopg":
            import_extra("psycopg", "postgres")
        try:
            return create_engine(url, pool_pre_ping=True)
        except (NoSuchModuleError, ModuleNotFoundError) as exc:
            raise ConfigError(
                f"databases of the kind {url.drivername!r} cannot be used ({exc}): take a SQLite "
                "file or postgresql+psycopg://…"
            ) from exc
    folder = Path(url.database or "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _create_private(Path(url.database or ""))
    except OSError as exc:
        raise StoreError(
            f"the database {url.database} cannot be made: {exc.strerror}; choose another place "
            "with database in [server] of hpcllm.toml"
        ) from exc
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _create_private(path: Path) -> None:
    """Make an empty file that only its owner may read: it will hold what users asked."""
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions at moments of its own
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes its lock at once: a reader that becomes a writer could not wait for another.
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _only_one(url: URL) -> AbstractContextManager[Any]:
    """Keep other processes from migrating the same SQLite file meanwhile."""
    if url.get_backend_name() != "sqlite" or not url.database:
        return nullcontext()
    from filelock import FileLock

    return FileLock(f"{url.database}.lock", timeout=60)


def revision_of(engine: Engine) -> str | None:
    """Return the revision of a database's tables, or None where it has none yet."""
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(engine: Engine) -> None:
    found = revision_of(engine)
    if found == REVISION:
        return
    from alembic import command
    from alembic.util import CommandError

    logger.info("bringing the database from %s to revision %s", found or "nothing", REVISION)
    with engine.execution_options(**{_WRITES: True}).begin() as connection:
        try:
            command.upgrade(migration_config(connection), "head")
        except CommandError as exc:
            raise StoreError(
                f"the database {engine.url.render_as_string()} has revision {found!r} and this "
                f"version knows none later than {REVISION!r}: install the newer hpcllm again, or "
                "choose another database in [server] of hpcllm.toml"
            ) from exc


def migration_config(connection: Connection) -> Any:
    """Return Alembic's configuration for a connection (the migrations come with the package)."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
