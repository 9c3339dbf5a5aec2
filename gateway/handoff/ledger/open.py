"""Where a ledger is kept, told by one URL:

    memory:                                     in this process, and gone with it
    sqlite:///absolute/path/ledger.db           a file, for the workers of one host
    journal:///absolute/path/folder             a folder with an append-only text file, for the workers of one host
    postgresql://user:password@host/database    a server, for workers on any number of hosts

Whatever has a meaning in a URL is written percent-encoded in a user, a password or a path. A password may as well be left
out, and given by PGPASSWORD or ~/.pgpass.
"""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from gateway.errors import ConfigurationError
from gateway.handoff.clock import Clock
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.local_only import prepare_local_folder
from gateway.handoff.ledger.memory import MemoryLedger

if TYPE_CHECKING:
    from gateway.handoff.ledger.engines import Database

LONGEST_CONSUMER = 100  # characters

_RIGHT_ONES = (
    "memory:, sqlite:///absolute/path/ledger.db, journal:///absolute/path/folder, postgresql://user:password@host/database"
)
# Of libpq's. The others are set by us, stand in the URL itself, or read secrets from it.
_POSTGRESQL_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "host", "target_session_attrs", "channel_binding")


def open_ledger(url: str, consumer: str, clock: Clock | None = None) -> Ledger:
    """The ledger of one consumer group. What is missing of it is made: folder, file, tables.

    Raises ConfigurationError for a URL, a name or a place that cannot do, and LedgerUnavailable where it does not answer.
    Neither repeats the URL, which may hold a password.
    """
    if not consumer or len(consumer) > LONGEST_CONSUMER or not consumer.isprintable():
        raise ConfigurationError(f"a consumer group's name has 1 to {LONGEST_CONSUMER} printable characters")
    scheme, colon, _ = url.partition(":")
    match scheme.lower() if colon else "":
        case "memory" if url.partition(":")[2] in ("", "//"):
            return MemoryLedger()
        case "sqlite" | "postgresql":
            from gateway.handoff.ledger.sql import SqlLedger

            return SqlLedger(open_database(url), consumer, clock or Clock())
        case "journal":
            return _open_journal(_local_path(url), consumer, clock or Clock())
    raise _wrong("its scheme is none of these")


def is_database(url: str) -> bool:
    """Whether a ledger's URL is that of a database, which can hold the service's journal as well."""
    return url.partition(":")[0].lower() in ("sqlite", "postgresql")


def open_database(url: str) -> "Database":
    """The database of an sqlite: or postgresql: ledger, not connected to yet; the folder of a file is made.

    Raises ConfigurationError, which does not repeat the URL.
    """
    scheme = url.partition(":")[0].lower()
    if not is_database(url):
        raise ConfigurationError("a database is needed: sqlite:///absolute/path/ledger.db or postgresql://user@host/database")
    return _sqlite(_local_path(url)) if scheme == "sqlite" else _postgresql(_split(url))


def _wrong(why: str) -> ConfigurationError:
    return ConfigurationError(f"not a ledger's URL: {why}. Right ones: {_RIGHT_ONES}")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # Not its cause: that quotes what it could not read, which may be half a password.
        raise _wrong("host or port cannot be read (a '/', '#' or '?' in a password is written %2F, %23, %3F)") from None
    if parts.fragment or "\0" in unquote(url):
        raise _wrong("there is a '#', which is written %23, or a NUL in it")
    return parts


def _local_path(url: str) -> Path:
    parts = _split(url)
    path = Path("/" + unquote(parts.path).strip("/"))
    if parts.netloc or parts.query or not parts.path.startswith("/") or path == Path("/"):
        raise _wrong("a file or folder of this host is named by its absolute path, and nothing else")
    return path


# The drivers are imported where they are used: SQLAlchemy takes longer to import than a short command to run.


def _sqlite(path: Path) -> "Database":
    from gateway.handoff.ledger.engines import sqlite_database

    prepare_local_folder(path.parent)
    return sqlite_database(path)


def _open_journal(path: Path, consumer: str, clock: Clock) -> Ledger:
    from gateway.handoff.ledger.journal import JournalLedger

    prepare_local_folder(path)
    return JournalLedger(path, consumer, clock)


def _postgresql(parts: SplitResult) -> "Database":
    from sqlalchemy import URL

    from gateway.handoff.ledger.engines import postgresql_database

    if importlib.util.find_spec("psycopg") is None:
        raise ConfigurationError("a postgresql: ledger needs the extra: pip install 'dropgate[postgresql]'")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = [name for name in options if name not in _POSTGRESQL_OPTIONS]
    if unknown:
        raise _wrong(f"of libpq's options it may name {', '.join(_POSTGRESQL_OPTIONS)}")
    database = unquote(parts.path).strip("/")
    if "@" in database:
        raise _wrong("a '/' in a password is written %2F")
    if not database or not (parts.hostname or "host" in options):
        raise _wrong("a host and a database are needed")
    url = URL.create(
        "postgresql+psycopg",
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
        parts.hostname,
        parts.port,
        database,
        options,
    )
    return postgresql_database(url)
