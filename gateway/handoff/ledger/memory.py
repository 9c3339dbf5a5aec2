"""A ledger in this process: for a single run, for tests, and for a library user who needs no memory beyond it."""

import threading
from collections import deque
from collections.abc import Iterator

from gateway.handoff.ledger.base import Event, Ledger, is_wanted
from gateway.handoff.ledger.index import Index
from protocol.ledger import Entry
from protocol.names import ItemId

KEPT_EVENTS = 10_000  # the newest; a service may run for years


class MemoryLedger(Ledger):
    """Ends with the process. Workers of one process share it by sharing the object; two objects know nothing of each other.

    After a restart every item that is ready runs as if for the first time: a duplicate delivery, or a run that was cut, is
    not noticed. It keeps one entry for each key it has met.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index = Index()
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)

    def __str__(self) -> str:
        return "the ledger in memory"

    def _swap(self, key: str, before: Entry | None, after: Entry) -> bool:
        with self._lock:
            if self._index.get(key) != before:
                return False
            self._index.put(key, after)
            self._events.append(Event(after.at, key, after))
            return True

    def read(self, key: str) -> Entry | None:
        with self._lock:
            return self._index.get(key)

    def unarchived(self) -> list[tuple[str, Entry]]:
        with self._lock:
            return self._index.unarchived()

    def history(self, item: ItemId | None = None, key: str | None = None, since: str | None = None) -> Iterator[Event]:
        with self._lock:
            events = list(self._events)
        return (event for event in events if is_wanted(event, item, key, since))

    def highest_settled(self, group: str) -> int | None:
        with self._lock:
            return self._index.highest_settled(group)

    def close(self) -> None:
        pass  # it ends with the last that holds it
