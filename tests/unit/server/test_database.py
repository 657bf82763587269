from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from hpcllm.server.database import REVISION, migration_config, open_engine, revision_of
from hpcllm.server.store import Store
from hpcllm.server.tables import Base


def test_the_newest_migration_is_the_one_that_is_expected(store: Store) -> None:
    with store.engine.connect() as connection:
        scripts = ScriptDirectory.from_config(migration_config(connection))
    assert scripts.get_current_head() == REVISION == revision_of(store.engine)


def test_the_migrations_make_the_tables_that_the_code_knows(store: Store) -> None:
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_every_migration_can_be_taken_back(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with engine.begin() as connection:
        command.upgrade(migration_config(connection), "head")
    with engine.begin() as connection:
        command.downgrade(migration_config(connection), "base")
    assert inspect(engine).get_table_names() == ["alembic_version"]
    engine.dispose()


def test_sqlite_is_set_up_for_many_readers_and_crashes(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "x.db")
    with engine.connect() as connection:
        found = [
            connection.scalar(text(f"PRAGMA {name}"))
            for name in ("journal_mode", "foreign_keys", "integrity_check")
        ]
    engine.dispose()
    assert found == ["wal", 1, "ok"]
