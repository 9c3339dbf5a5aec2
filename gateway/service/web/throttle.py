"""Login attempts are slowed, by address and by user, so that guessing takes longer than anybody lives."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

_FREE = 3  # failures that cost nothing: people mistype
_MOST = 10_000  # addresses and users that are remembered
_FORGOTTEN = 3600.0  # seconds after which failures are


@dataclass(frozen=True, slots=True)
class Key:
    """What attempts are counted by. `longest` is how many seconds one may be made to wait.

    For a user that is little: a stranger must not be able to keep somebody out by guessing at his name.
    """

    kind: str
    name: str
    longest: float


def keys(address: str, user: str) -> tuple[Key, Key]:
    """The keys of one attempt."""
    return Key("address", address, 60.0), Key("user", user, 5.0)


@dataclass(slots=True)
class Throttle:
    """For any number of threads. `monotonic` is in seconds."""

    monotonic: Callable[[], float]
    _failures: OrderedDict[Key, tuple[int, float]] = field(default_factory=OrderedDict)  # how many, and when the last
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def attempt(self, tried: tuple[Key, ...]) -> float:
        """0.0 where it may be tried now: it counts as failed until `succeeded`. Else the seconds to wait first."""
        now = self.monotonic()
        with self._lock:
            wait = max(self._wait(key, now) for key in tried)
            if wait > 0:
                return wait
            for key in tried:
                count, last = self._failures.pop(key, (0, now))
                self._failures[key] = (1 if now - last > _FORGOTTEN else count + 1, now)
            while len(self._failures) > _MOST:
                self._failures.popitem(last=False)
        return 0.0

    def _wait(self, key: Key, now: float) -> float:
        count, last = self._failures.get(key, (0, now))
        if count < _FREE:
            return 0.0
        return last + min(2.0 ** min(count - _FREE, 20), key.longest) - now

    def succeeded(self, tried: tuple[Key, ...]) -> None:
        """Forgets the failures."""
        with self._lock:
            for key in tried:
                self._failures.pop(key, None)
