"""The contract of every ledger: one entry a key, changed by compare-and-set, and every change kept (PROTOCOL section 8).

A `Ledger` belongs to one *consumer group*: all workers that share the work open the same ledger under the same name, and
nobody else uses that name. It may be used by any number of threads. After a fork, at which no call is under way, both sides
go on with it, each for itself.

What was recorded has reached stable storage by the time a call returns, where a ledger has one: a `started` that a power
cut could take back would let a handler run again without being told.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gateway.handoff.ledger.errors import TransactionsUnsupported
from protocol.ledger import Entry, LedgerState
from protocol.names import ItemId

if TYPE_CHECKING:
    from sqlalchemy import Connection  # importing it takes longer than all the rest, and three commands of four need none

LONGEST_RESULT = 4000  # characters; a handler's last words, not its log


@dataclass(frozen=True, slots=True)
class Event:
    """One change: the entry that a key was given, and when, as ISO 8601 in UTC by the clock of the host that wrote it."""

    at: str
    key: str
    entry: Entry


def is_settled(entry: Entry) -> bool:
    """Whether an item's processing has come to its end, be it an error image."""
    return entry.state is not LedgerState.STARTED or entry.given_up


def clipped(entry: Entry) -> Entry:
    """The entry as a ledger keeps it: a longer `result` loses its end."""
    if len(entry.result) <= LONGEST_RESULT:
        return entry
    return replace(entry, result=entry.result[: LONGEST_RESULT - 3] + "...")


def is_wanted(event: Event, item: ItemId | None, key: str | None, since: str | None) -> bool:
    """Whether an event is one of those that `Ledger.history` is asked for."""
    return (
        (item is None or event.entry.item == item)
        and (key is None or event.key == key)
        and (since is None or event.at >= since)
    )


class Ledger(ABC):
    """What one consumer group knows of its keys.

    Every method raises LedgerUnavailable once the ledger could not be used for as long as it is patient.
    """

    def compare_and_set(self, key: str, before: Entry | None, after: Entry) -> bool:
        """True once the entry of a key was `before` (None: there was none) and is `after` now; False where it was another.

        Of several that set out from one `before` exactly one gets True, in whatever process and on whatever host. A reply
        that is lost on the way is found out here: the entry being `after` means that it was ours, as no two workers write
        the same. After LedgerUnavailable it was made, or it was not, or will be still: the next one that succeeds decides.
        """
        return self._swap(key, None if before is None else clipped(before), clipped(after))

    @abstractmethod
    def _swap(self, key: str, before: Entry | None, after: Entry) -> bool:
        """`compare_and_set` of entries that are as they are kept."""

    @abstractmethod
    def read(self, key: str) -> Entry | None:
        """The entry of a key; None: there is none. What any worker's compare-and-set has returned True for is seen."""

    @abstractmethod
    def unarchived(self) -> list[tuple[str, Entry]]:
        """The keys whose entry is `done` and not yet `archived`, in no order."""

    @abstractmethod
    def history(self, item: ItemId | None = None, key: str | None = None, since: str | None = None) -> Iterator[Event]:
        """Every change that was written and is kept, oldest first; those of an item, of a key, or at `since` and later.

        `since` is compared as text with the events' times: "2026-11-30" is that day and later. The order is that in which
        the changes were made; the times come from the hosts' own clocks.
        """

    @abstractmethod
    def highest_settled(self, group: str) -> int | None:
        """The highest number of a group whose item is done, archived or given up; None: no item of it is."""

    def transaction(self, key: str, started: Entry, result: str = "") -> "AbstractContextManager[Connection]":
        """A database transaction for a handler's effect, which commits together with `done`.

        The handler works on the connection that `with` gives, and neither commits nor rolls back. Leaving the block
        records `done` with `result` by compare-and-set against `started`, and commits. Whatever fails before, and an
        exception out of the block, leaves neither the effect nor `done`.

        Raises LedgerMoved (another worker has the key now), LedgerUnavailable (neither was recorded; or, if the very
        commit was cut and cannot be looked up, both or neither), TransactionsUnsupported (this ledger is no database).
        """
        del key, started, result
        raise TransactionsUnsupported(
            f"{self} is no database: a handler whose effect shall commit with its entry needs an sqlite: or postgresql: ledger"
        )

    @abstractmethod
    def close(self) -> None:
        """Gives back files and connections. Does nothing a second time; nothing that was recorded is lost without it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
