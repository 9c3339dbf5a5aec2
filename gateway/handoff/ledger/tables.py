"""The tables of an SQL ledger as they are now, and how an entry is written there. `migrations` makes them.

A person may read them, and a key or a result is there as it is: only a backslash, a NUL and half a surrogate pair, which no
database takes all of, stand escaped.
"""

import hashlib
import re
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    Double,
    Identity,
    MetaData,
    RowMapping,
    Table,
    Text,
    UniqueConstraint,
    and_,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

from protocol.ledger import Ended, Entry, LedgerState
from protocol.names import ItemId

_ESCAPED = re.compile("[\\\\\0\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:\\|0|u[0-9a-f]{4})")


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return {"\\": "\\\\", "\0": "\\0"}.get(character) or f"\\u{ord(character):04x}"


def _plain(found: re.Match[str]) -> str:
    escape = found[0][1:]
    return {"\\": "\\", "0": "\0"}.get(escape) or chr(int(escape[1:], 16))


class AnyText(TypeDecorator[str]):
    """Text that comes back exactly as it was, whatever is in it."""

    impl: TypeEngine[Any] | type[TypeEngine[Any]] = Text
    cache_ok: bool | None = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        del dialect
        return None if value is None else _ESCAPED.sub(_escaped, value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        del dialect
        return None if value is None else _ESCAPE.sub(_plain, value)


def _entry_columns() -> tuple[Column[Any], ...]:
    return (
        Column("consumer", AnyText, nullable=False),
        Column("key", AnyText, nullable=False),
        Column("state", AnyText, nullable=False),
        Column("generation", BigInteger, nullable=False),
        Column("item_group", AnyText, nullable=False),
        Column("item_number", BigInteger, nullable=False),
        Column("owner", AnyText, nullable=False),
        Column("attempts", BigInteger, nullable=False),
        Column("at", AnyText, nullable=False),
        Column("hash", AnyText, nullable=False),
        Column("ended", AnyText, nullable=False),
        Column("result", AnyText, nullable=False),
        Column("replayed", AnyText, nullable=False),
    )


METADATA = MetaData()

# An index takes no more than some 2700 bytes in PostgreSQL, and a key may have 4096: its digest stands for it.
ENTRIES = Table("dropgate_entries", METADATA, *_entry_columns(), Column("key_digest", Text, nullable=False))
EVENTS = Table("dropgate_events", METADATA, Column("id", BigInteger, Identity(), primary_key=True), *_entry_columns())

# The service's journal. An item is its group and number, as people write it.
JOURNAL = Table(
    "dropgate_journal",
    METADATA,
    Column("id", BigInteger, Identity(), primary_key=True),
    *(Column(name, AnyText, nullable=False) for name in ("at", "what", "route", "source", "destination")),
    *(Column(name, AnyText, nullable=False) for name in ("item_group", "item", "key")),
    Column("attempt", BigInteger, nullable=False),
    Column("owner", AnyText, nullable=False),
    Column("bytes", BigInteger),
    Column("seconds", Double),
    *(Column(name, AnyText, nullable=False) for name in ("message", "trace", "writer")),
    Column("serial", BigInteger, nullable=False),
    UniqueConstraint("writer", "serial"),
)


def digest_of(key: str) -> str:
    """What a key is found by."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def values_of(entry: Entry) -> dict[str, Any]:
    """An entry as the values of its columns."""
    return {
        "state": entry.state.value,
        "generation": entry.generation,
        "item_group": entry.item.group,
        "item_number": entry.item.number,
        "owner": entry.owner,
        "attempts": entry.attempts,
        "at": entry.at,
        "hash": entry.hash,
        "ended": entry.ended.value,
        "result": entry.result,
        "replayed": entry.replayed,
    }


def entry_of(row: RowMapping) -> Entry:
    """The entry that a row holds."""
    return Entry(
        LedgerState(row["state"]),
        row["generation"],
        ItemId(row["item_group"], row["item_number"]),
        row["owner"],
        row["attempts"],
        row["at"],
        row["hash"],
        Ended(row["ended"]),
        row["result"],
        row["replayed"],
    )


def is_entry(table: Table, entry: Entry) -> ColumnElement[bool]:
    """The condition that a row holds exactly this entry."""
    return and_(*(table.c[name] == value for name, value in values_of(entry).items()))
