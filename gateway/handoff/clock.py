"""Time and chance, handed in: the engine calls no clock, no sleep and no random of its own."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime


def _utc() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _suspended() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Clock:
    """`monotonic` and `sleep` in seconds, `utc` as ISO 8601; `chance` for jitter and for shuffling.

    `suspended` is a second monotonic clock, in seconds, that goes on while the machine is suspended: one's own lease is
    judged by it.
    """

    monotonic: Callable[[], float] = time.monotonic
    utc: Callable[[], str] = _utc
    sleep: Callable[[float], None] = time.sleep
    suspended: Callable[[], float] = _suspended
    chance: random.Random = field(default_factory=random.Random)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that grow, with full jitter: a crowd that failed together does not come back together."""

    base: float = 0.05  # seconds
    largest: float = 5.0  # seconds

    def delay(self, attempt: int, clock: Clock) -> float:
        """Seconds to wait before attempt number `attempt` + 1."""
        return clock.chance.uniform(0, min(self.largest, self.base * 2.0 ** min(attempt, 30)))
