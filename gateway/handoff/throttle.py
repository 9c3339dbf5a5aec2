"""A limit on the bytes a second of a route, shared by all its workers."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.handoff.clock import Clock

_BURST = 0.5  # seconds: so much may pass at once after a pause


@dataclass(slots=True)
class Throttle:
    """Lets `rate` bytes a second pass, evenly; for any number of threads, in the order in which they came."""

    rate: float
    clock: Clock
    _free_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, count: int, nap: Callable[[float], None]) -> None:
        """Waits until `count` bytes may have passed; `nap` waits so many seconds, and may raise to end the waiting."""
        with self._lock:
            now = self.clock.monotonic()
            self._free_at = max(self._free_at, now - _BURST) + count / self.rate
            until = self._free_at
        while (left := until - self.clock.monotonic()) > 0:
            nap(min(left, _BURST))
