"""Where the tests keep ledgers, and how each kind is opened."""

import traceback
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.open import open_ledger
from protocol.ledger import Entry, LedgerState
from protocol.names import ItemId

KINDS = ("memory", "sqlite", "journal", "postgresql")
LASTING = KINDS[1:]
SQL = ("sqlite", "postgresql")
TEAM = "the team"


@dataclass(frozen=True)
class Place:
    """An empty place for a ledger. What is opened twice is the same, but in memory."""

    kind: str
    url: str

    @property
    def folder(self) -> Path:
        """Where a journal is."""
        return Path(self.url.removeprefix("journal://"))

    def open(self, consumer: str = TEAM) -> Ledger:
        """The ledger of a consumer group."""
        return open_ledger(self.url, consumer)


def place_for(kind: str, folder: Path, database: str = "") -> Place:
    """The place of this kind in a folder, or the database's URL."""
    urls = {
        "memory": "memory:",
        "sqlite": f"sqlite://{folder}/ledger.db",
        "journal": f"journal://{folder}/ledger",
        "postgresql": database,
    }
    return Place(kind, urls[kind])


def entry(number: int = 1, owner: str = "host-1-aaaaaa", generation: int = 1, group: str = "orders_") -> Entry:
    """A `started` entry."""
    return Entry(LedgerState.STARTED, generation, ItemId(group, number), owner, generation, "2026-11-30T10:00:00.000000Z")


def shown_secrets(error: BaseException, secret: str) -> list[str]:
    """Where a secret, or its encoded form, is shown: by the error, by what caused it, or by their traceback."""
    shown = traceback.format_exception(error)
    return [line for line in shown if secret in line or quote(secret, safe="") in line]
