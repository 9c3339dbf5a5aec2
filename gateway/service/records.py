"""What each destination of a route has: one entry a key and destination, beside the ledger of the source (PROTOCOL section 8).

    nothing ──intended──> started ──published──> archived ──asked for again──> started ...

An entry is written before anything is published, with the number that will be used, so that a run after a crash uses the
same. It is `archived` once the item is public there, and then no later run publishes it again, even where the destination's
consumer has processed it and its after image is long gone. Only a replay asks for it again.
"""

from dataclasses import dataclass, replace

from gateway.handoff.clock import Clock
from gateway.handoff.ledger.base import Ledger
from protocol.ledger import Entry, LedgerState
from protocol.names import ItemId


@dataclass(frozen=True, slots=True)
class Intent:
    """What is to be published under which number. `known` says that it was, `asked_again` that it may be although it was.

    Its entry's `replayed` is the replay that has last set it back, as in the ledger of the source; "" for none.
    """

    item: ItemId
    entry: Entry
    known: bool = False
    asked_again: bool = False


@dataclass(frozen=True, slots=True)
class Records:
    """The record of one destination."""

    ledger: Ledger
    clock: Clock

    def read(self, key: str) -> Intent | None:
        """What was recorded of a key. Raises LedgerUnavailable, as all here."""
        entry = self.ledger.read(key)
        return None if entry is None else _intent(entry)

    def intend(self, key: str, item: ItemId, owner: str, hash_: str, *, replayed: str = "") -> Intent:
        """Records that a key is to be published as `item`, unless another number was recorded before: then that one stands.

        With `replayed` what was published before that replay is to be published again, once.
        """
        while True:
            before = self.ledger.read(key)
            if before is not None and replayed in ("", before.replayed):
                return _intent(before)
            generation = 1 if before is None else before.generation + 1
            after = Entry(LedgerState.STARTED, generation, item, owner, 1, self.clock.utc(), hash_, replayed=replayed)
            if self.ledger.compare_and_set(key, before, after):
                return _intent(after)

    def renumber(self, key: str, intent: Intent, item: ItemId) -> Intent:
        """Another number for what was not published under the one that was recorded."""
        after = replace(intent.entry, generation=intent.entry.generation + 1, item=item, at=self.clock.utc())
        if self.ledger.compare_and_set(key, intent.entry, after):
            return _intent(after)
        return self.read(key) or intent

    def published(self, key: str, intent: Intent) -> None:
        """Records that the item is public. Where somebody has recorded something since, his word stands: he has looked."""
        after = replace(intent.entry, state=LedgerState.ARCHIVED, at=self.clock.utc())
        self.ledger.compare_and_set(key, intent.entry, after)


def _intent(entry: Entry) -> Intent:
    known = entry.state is LedgerState.ARCHIVED
    return Intent(entry.item, entry, known, asked_again=not known and entry.replayed != "")
