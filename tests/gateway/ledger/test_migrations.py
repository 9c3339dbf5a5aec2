"""How a database comes to have the ledger's tables: from nothing, from an older dropgate, and by several at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Engine, TypeDecorator, inspect, make_url, text
from sqlalchemy.types import TypeEngine

from gateway.errors import ConfigurationError
from gateway.handoff.ledger.engines import Database, postgresql_database, sqlite_database
from gateway.handoff.ledger.migrations import REVISIONS, VERSION_TABLE, migrate
from gateway.handoff.ledger.tables import ENTRIES, EVENTS, METADATA, digest_of, values_of
from protocol.ledger import LedgerState
from tests.gateway.ledger.crowd import crowd
from tests.gateway.ledger.places import TEAM, Place, entry


def database_of(place: Place) -> Database:
    """The database, with none of the ledger's tables made."""
    if place.kind == "sqlite":
        return sqlite_database(Path(place.url.removeprefix("sqlite://")))
    return postgresql_database(make_url(place.url))


@pytest.fixture
def database(sql: Place) -> Iterator[Database]:
    """An empty database."""
    database = database_of(sql)
    yield database
    database.writes.dispose()


@pytest.fixture
def engine(database: Database) -> Engine:
    """Its transactions."""
    return database.writes


def columns(engine: Engine, table: str) -> dict[str, tuple[str, bool]]:
    """The columns of a table: the family of the type, and whether it may be null."""
    return {found["name"]: (family(found["type"]), found["nullable"]) for found in inspect(engine).get_columns(table)}


def family(kind: TypeEngine[Any]) -> str:
    """What Python has for the values as they are stored."""
    stored = kind.impl_instance if isinstance(kind, TypeDecorator) else kind
    return str(stored.python_type.__name__)


def versions(engine: Engine) -> list[int]:
    """What the version table says."""
    with engine.connect() as connection:
        return list(connection.execute(text(f"SELECT version FROM {VERSION_TABLE}")).scalars())  # noqa: S608 - a constant


def test_an_empty_database_gets_the_tables_that_the_ledger_uses(database: Database, engine: Engine) -> None:
    migrate(database)
    assert set(inspect(engine).get_table_names()) == {*METADATA.tables, VERSION_TABLE}
    for name, table in METADATA.tables.items():
        expected = {column.name: (family(column.type), column.nullable) for column in table.columns}
        found = columns(engine, name)
        # SQLite calls no primary key of its own "not null".
        assert {**found, "id": ("int", False)} == {**expected, "id": ("int", False)}
    assert versions(engine) == [len(REVISIONS)]


def test_tables_that_are_there_are_left_as_they_are(database: Database, engine: Engine) -> None:
    migrate(database)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO dropgate_schema VALUES (1)"))  # would be tidied, if it were gone through again
    migrate(database)
    assert sorted(versions(engine)) == [1, len(REVISIONS)]


@pytest.mark.parametrize("revision", range(1, len(REVISIONS)))
def test_what_an_older_dropgate_has_recorded_stays(sql: Place, database: Database, engine: Engine, revision: int) -> None:
    migrate(database, revision)
    done = replace(entry(7), state=LedgerState.DONE, result="C:\\temp")
    with engine.begin() as connection:
        row = {"consumer": TEAM, "key": "k", "key_digest": digest_of("k"), **values_of(done)}
        if revision < 4:
            del row["replayed"]
        connection.execute(ENTRIES.insert().values(row))
        if revision >= 2:
            del row["key_digest"]
            connection.execute(EVENTS.insert().values(row).inline())
    with closing(sql.open()) as ledger:
        assert versions(engine) == [len(REVISIONS)]
        assert ledger.read("k") == done
        assert [event.entry for event in ledger.history()] == [done], "as far as is known, it begins here"
        assert ledger.compare_and_set("k", done, replace(done, state=LedgerState.ARCHIVED))


@pytest.mark.parametrize("revision", range(len(REVISIONS)))
def test_several_that_open_it_at_once_bring_it_up_to_date_once(
    sql: Place, database: Database, engine: Engine, revision: int
) -> None:
    if revision:
        migrate(database, revision)
    start = Barrier(4)

    def open_one(_: int) -> None:
        start.wait()
        sql.open().close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(open_one, range(4)))
    assert versions(engine) == [len(REVISIONS)]


def test_processes_that_open_an_empty_database_at_once_all_get_on(sql: Place) -> None:
    with crowd("win", sql.url, ["a", "b", "c"], 3) as processes:
        won = [number for process in processes for number in process.result()]
    assert sorted(won) == [0, 1, 2]


def test_a_revision_that_fails_leaves_what_was_there(
    database: Database, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(database, 1)
    broken = (*REVISIONS[:1], ("CREATE TABLE half_made (x BIGINT)", "CREATE TABLE half_made (x BIGINT)"))
    monkeypatch.setattr("gateway.handoff.ledger.migrations.REVISIONS", broken)
    with pytest.raises(Exception, match="half_made"):
        migrate(database, 2)
    assert "half_made" not in inspect(engine).get_table_names()
    assert versions(engine) == [1]


def test_tables_of_a_later_dropgate_are_refused_and_left_alone(sql: Place, database: Database, engine: Engine) -> None:
    migrate(database)
    with engine.begin() as connection:
        connection.execute(text("UPDATE dropgate_schema SET version = 99"))
    with pytest.raises(ConfigurationError, match=r"revision 99.*needs the later dropgate"):
        sql.open()
    assert versions(engine) == [99]
