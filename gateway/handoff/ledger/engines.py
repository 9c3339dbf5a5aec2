"""Connections to the two databases: how each is opened, how long it waits, and which of its failures may pass.

This is the one place that tells SQLite and PostgreSQL apart.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from gateway.errors import ConfigurationError

WAIT = 30  # seconds that one statement waits for another worker's lock

# Found out within a minute when the other host is gone without a word: on our side, and by the server on its own, which
# else keeps a dead worker's locks for hours.
_POSTGRESQL = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
    "application_name": "dropgate",
    "options": f"-c lock_timeout={WAIT}s -c tcp_keepalives_idle=15 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=4",
    # A pooler in front of the server may give each transaction another connection, where prepared statements are missing.
    "prepare_threshold": None,
}


@dataclass(frozen=True, slots=True)
class Database:
    """`writes` gives transactions that may change something, `reads` single statements. Both use the same connections.

    `name` and `advice` are for errors: where it is, without a password, and what a person may look at.
    """

    writes: Engine
    reads: Engine
    name: str
    advice: str


def sqlite_database(path: Path) -> Database:
    """A file. Every change is on the disk when its transaction has ended."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": WAIT, "isolation_level": None},  # transactions are begun below, not by the driver
        max_overflow=-1,
        hide_parameters=True,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    reads = engine.execution_options(dropgate_reads=True)
    return Database(engine, reads, f"sqlite://{path}", "see whether its folder can be written to and has space")


def _prepare_sqlite(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
    del record
    # With a write-ahead log readers and the writer do not wait for each other. FULL: NORMAL may lose the last transactions
    # with the power, and a `started` that is lost lets a handler run again without being told.
    try:
        # The first switch fails at once where another process is at it; whoever opens the ledger tries again.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and then writes fails at once if somebody has written between: it takes the lock first.
    reads = connection.get_execution_options().get("dropgate_reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def postgresql_database(url: URL) -> Database:
    """A server, reached by psycopg. How durable a commit is, is for the server to say (`synchronous_commit`)."""
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args=_POSTGRESQL,
        isolation_level="READ COMMITTED",
        max_overflow=-1,
        hide_parameters=True,
    )
    event.listen(engine, "connect", _check_postgresql)
    shown = URL.create("postgresql", url.username, None, url.host, url.port, url.database).render_as_string()
    advice = "see whether the server runs, can be reached from here, and lets this account create and use tables"
    return Database(engine, engine.execution_options(isolation_level="AUTOCOMMIT"), shown, advice)


def _check_postgresql(connection: Any, record: ConnectionPoolEntry) -> None:
    del record
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise ConfigurationError(f"the ledger's database has the encoding {encoding}, and names need UTF8: create another one")


def is_lock_wait(error: DBAPIError) -> bool:
    """Whether it failed because another worker holds a lock."""
    if isinstance(error.orig, sqlite3.Error):
        # The low byte is the class of an extended code.
        return error.orig.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(error.orig, "sqlstate", None) in ("55P03", "40P01")  # lock not available, deadlock


def reason_of(error: SQLAlchemyError) -> str:
    """The driver's own words, in one line. Without the statement and its values."""
    words = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    if isinstance(error, DBAPIError) and (told := getattr(error.orig, "diag", None)) and told.message_primary:
        words = told.message_primary  # the rest repeats the statement
    return "; ".join(line.strip() for line in words.splitlines() if line.strip())


def may_pass(error: DBAPIError) -> bool:
    """Whether the same may succeed a little later: the server restarts, or another worker holds a lock."""
    if isinstance(error.orig, sqlite3.Error):
        return is_lock_wait(error)  # the rest is a disk that is full, a file that is none of ours, a missing right
    return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
