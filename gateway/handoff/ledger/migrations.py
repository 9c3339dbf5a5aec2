"""How an SQL ledger's tables came to be, revision by revision, and the bringing up to date of a database that is behind.

A revision, once released, is never changed; a change of the tables is a new one at the end. All that are missing are applied
in one transaction, under a lock, by whichever process opens the ledger first: both databases take DDL back with the rest.

Alembic was looked at. What is hard here (one process of many, an empty database or an old one, both dialects) it leaves to
its user, and a linear list of statements needs nothing else of it.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, inspect, text

from gateway.errors import ConfigurationError
from gateway.handoff.ledger.engines import Database

VERSION_TABLE = "dropgate_schema"

# What the two databases write differently. Text is compared by code point: the order of times must not depend on a locale.
_WORDS = {
    "sqlite": {"text": "TEXT", "identity": "INTEGER PRIMARY KEY AUTOINCREMENT"},
    "postgresql": {"text": 'TEXT COLLATE "C"', "identity": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"},
}

_ENTRY = """
    consumer {text} NOT NULL,
    key {text} NOT NULL,
    state {text} NOT NULL,
    generation BIGINT NOT NULL,
    item_group {text} NOT NULL,
    item_number BIGINT NOT NULL,
    owner {text} NOT NULL,
    attempts BIGINT NOT NULL,
    at {text} NOT NULL,
    hash {text} NOT NULL,
    ended {text} NOT NULL,
    result {text} NOT NULL"""
_ENTRY_NAMES = "consumer, key, state, generation, item_group, item_number, owner, attempts, at, hash, ended, result"
_FIRST_EVENTS = f"INSERT INTO dropgate_events ({_ENTRY_NAMES}) SELECT {_ENTRY_NAMES} FROM dropgate_entries ORDER BY at"  # noqa: S608 - constants

REVISIONS: tuple[Sequence[str], ...] = (
    (  # 1: the current entry of each key
        f"CREATE TABLE dropgate_entries ({_ENTRY}, key_digest {{text}} NOT NULL, PRIMARY KEY (consumer, key_digest))",
        "CREATE INDEX dropgate_entries_by_item ON dropgate_entries (consumer, item_group, item_number)",
        "CREATE INDEX dropgate_entries_by_state ON dropgate_entries (consumer, state)",
    ),
    (  # 2: every change, for people; what is there already is the first that is known
        f"CREATE TABLE dropgate_events (id {{identity}}, {_ENTRY})",
        "CREATE INDEX dropgate_events_by_item ON dropgate_events (consumer, item_group, item_number, id)",
        _FIRST_EVENTS,
    ),
    (  # 3: the service's journal; `writer` and `serial` keep a row that is sent twice from being there twice
        """CREATE TABLE dropgate_journal (id {identity},
    at {text} NOT NULL,
    what {text} NOT NULL,
    route {text} NOT NULL,
    source {text} NOT NULL,
    destination {text} NOT NULL,
    item_group {text} NOT NULL,
    item {text} NOT NULL,
    key {text} NOT NULL,
    attempt BIGINT NOT NULL,
    owner {text} NOT NULL,
    bytes BIGINT,
    seconds DOUBLE PRECISION,
    message {text} NOT NULL,
    trace {text} NOT NULL,
    writer {text} NOT NULL,
    serial BIGINT NOT NULL,
    UNIQUE (writer, serial))""",
        "CREATE INDEX dropgate_journal_by_item ON dropgate_journal (item, id)",
        "CREATE INDEX dropgate_journal_by_time ON dropgate_journal (at)",
    ),
    (  # 4: the replay to which a run belongs
        "ALTER TABLE dropgate_entries ADD COLUMN replayed {text} NOT NULL DEFAULT ''",
        "ALTER TABLE dropgate_events ADD COLUMN replayed {text} NOT NULL DEFAULT ''",
    ),
)

_LOCK = 0x64726F7067617465  # PostgreSQL's advisory locks are numbers; these are the letters "dropgate"


def migrate(database: Database, target: int = len(REVISIONS)) -> None:
    """The database has all tables of revision `target` on return.

    Raises ConfigurationError where a later dropgate has made the tables, and SQLAlchemy's errors.
    """
    with database.reads.connect() as connection:
        if inspect(connection).has_table(VERSION_TABLE) and _version(connection) == target:
            return  # nearly always; and an account that may not create tables must get past here
    dialect = database.writes.dialect.name
    with database.writes.begin() as connection:  # in SQLite, that is a lock by itself
        if dialect == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        connection.execute(text(f"CREATE TABLE IF NOT EXISTS {VERSION_TABLE} (version BIGINT NOT NULL)"))
        version = _version(connection)
        for revision in REVISIONS[version:target]:
            for statement in revision:
                connection.execute(text(statement.format_map(_WORDS[dialect])))
        if version < target:
            connection.execute(text(f"DELETE FROM {VERSION_TABLE}"))  # noqa: S608 - a constant
            connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES (:version)"), {"version": target})  # noqa: S608 - same


def _version(connection: Connection) -> int:
    version: int = connection.execute(text(f"SELECT coalesce(max(version), 0) FROM {VERSION_TABLE}")).scalar_one()  # noqa: S608 - a constant of ours
    if version > len(REVISIONS):
        raise ConfigurationError(
            f"the ledger's tables are of revision {version}, and this dropgate knows {len(REVISIONS)}: "
            "every worker that shares it needs the later dropgate that made them"
        )
    return version
