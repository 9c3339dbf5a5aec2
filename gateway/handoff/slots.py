"""How many connections an endpoint takes from this process, and who waits for one: in the order in which they came.

One of them is kept for short uses, such as the renewal of a lease: those may not wait for a transfer of many hours.
"""

import threading
from collections import deque
from dataclasses import dataclass, field

from transports.errors import Unreachable

PATIENCE = 30.0  # seconds that somebody waits for a connection, before he lets go of what he holds and comes again
FEWEST = 2  # one for work, one for what keeps it


@dataclass(slots=True)
class Slots:
    """At most `limit` connections at a time, at least `FEWEST`; for any number of threads."""

    limit: int
    patience: float = PATIENCE
    _used: int = 0
    _waiting: deque[object] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, *, short: bool = False) -> None:
        """Waits for a connection's turn. `short` is for whoever gives it back at once, and may use the last one.

        Raises Unreachable where none became free in time: others may be waiting for what the caller holds.
        """
        me = object()
        with self._changed:
            if not short:
                self._waiting.append(me)
            try:
                if not self._changed.wait_for(lambda: self._may(me, short=short), self.patience):
                    raise Unreachable(
                        "connect",
                        detail=f"all {self.limit} connections that max_connections allows were in use for {self.patience:g} s",
                    )
                self._used += 1
            finally:
                if not short:
                    self._waiting.remove(me)
                self._changed.notify_all()

    def give_back(self) -> None:
        """A connection was closed."""
        with self._changed:
            self._used -= 1
            self._changed.notify_all()

    @property
    def scarce(self) -> bool:
        """Whether somebody waits, or would have to: whoever is idle should close his connection."""
        return bool(self._waiting) or self._used >= self.limit - 1

    def _may(self, me: object, *, short: bool) -> bool:
        if short:
            return self._used < self.limit
        return self._waiting[0] is me and self._used < self.limit - 1
