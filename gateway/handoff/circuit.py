"""One endpoint that is away, tried by one of its users at a time, and ever more rarely: nobody hammers a dead server."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gateway.handoff.clock import Backoff, Clock
from transports.errors import Unreachable

T = TypeVar("T")


@dataclass(slots=True)
class Circuit:
    """Shared by every connection to one endpoint. It opens when connecting fails, and closes when it succeeds."""

    clock: Clock
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.5, largest=60.0))
    _failures: int = 0
    _closed_until: float = 0.0
    _last: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def connect(self, open_connection: Callable[[], T]) -> T:
        """What `open_connection` gives. Raises what it raises, and Unreachable at once while the endpoint is left alone."""
        with self._lock:
            left = self._closed_until - self.clock.monotonic()
            if left > 0:
                raise Unreachable(
                    "connect", "", f"left alone for {left:.1f} s more, after {self._failures} tries: {self._last}"
                )
            if self._failures:
                # One tries, the others wait for what he finds.
                return self._try(open_connection)
        try:
            return open_connection()
        except Unreachable as error:
            with self._lock:
                self._note(error)
            raise

    def _try(self, open_connection: Callable[[], T]) -> T:
        try:
            connection = open_connection()
        except Unreachable as error:
            self._note(error)
            raise
        self._failures = 0
        return connection

    def _note(self, error: Unreachable) -> None:
        self._failures += 1
        self._last = error.detail or str(error)
        self._closed_until = self.clock.monotonic() + self.backoff.delay(self._failures, self.clock)
