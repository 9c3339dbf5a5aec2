"""What the rules remember from one round to the next; the part that has to outlive a restart can be kept in a file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.service.alarms.arrivals import Arrivals, arrivals_from
from protocol.names import ItemId

MOST_WATCHES = 2000
_FORGOTTEN = 120.0  # seconds without being seen


@dataclass(slots=True)
class Watch:
    """A condition: since when it holds, and when it was last seen to; in seconds since the epoch, by this host's clock."""

    first: float
    last: float
    drop: str = ""  # whose look tells of it


@dataclass(slots=True)
class Still:
    """A file that may be growing: its size, and since when it has been seen at that size."""

    size: int | None
    since: float


@dataclass(slots=True)
class ReadyItems:
    """The ready items of one drop, each with the time since when it is ready, and when the last look began."""

    looked: str = ""
    is_timed: bool = False  # a look knew the server's clock
    is_judged: bool = False  # this process has looked
    since: dict[ItemId, float] = field(default_factory=dict)


@dataclass(slots=True)
class Memory:
    """For one thread. Times are in seconds since the epoch, by this host's clock."""

    firing: frozenset[str] = frozenset()  # ids of the alarms that are on
    watches: dict[str, Watch] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)  # routes that were outside their time windows
    opened: dict[str, float] = field(default_factory=dict)  # when such a route began again
    known: dict[str, float] = field(default_factory=dict)  # since when each expectation is known
    arrivals: dict[tuple[str, str], Arrivals] = field(default_factory=dict)  # by drop and group
    # Not kept: told anew by the first look after a restart.
    still: dict[tuple[str, str], Still] = field(default_factory=dict)  # by drop and path
    seen: set[str] = field(default_factory=set)  # drops whose before files were looked at before
    ready: dict[str, ReadyItems] = field(default_factory=dict)  # by drop

    def held_since(self, condition: str, now: float, drop: str = "") -> float:
        """Since when a condition holds that was found to hold now. `drop` is the one whose look tells of it."""
        watch = self.watches.get(condition)
        if watch is None:
            if len(self.watches) >= MOST_WATCHES:
                return now
            watch = self.watches[condition] = Watch(now, now, drop)
        watch.last = now
        return watch.first

    def ended(self, condition: str) -> None:
        """A condition that is known not to hold."""
        self.watches.pop(condition, None)

    def forget(self, now: float, can_be_judged: Callable[[str], bool]) -> None:
        """Drops what has not held for a while, though it could be judged: by `can_be_judged` of the drop it is about."""
        for condition, watch in list(self.watches.items()):
            if watch.drop and not can_be_judged(watch.drop):
                watch.last = now
            elif now - watch.last > _FORGOTTEN:
                del self.watches[condition]

    def as_record(self) -> dict[str, object]:
        """What has to outlive a restart, for JSON."""
        return {
            "watches": {name: {"first": watch.first, "drop": watch.drop} for name, watch in self.watches.items()},
            "paused": sorted(self.paused),
            "opened": self.opened,
            "known": self.known,
            "arrivals": [
                {"drop": drop, "group": group, **arrivals.as_record()} for (drop, group), arrivals in self.arrivals.items()
            ],
        }


def memory_from(record: Mapping[str, Any], now: float) -> Memory:
    """What `as_record` made, taken up at `now`. Raises ValueError, TypeError, KeyError or AttributeError for anything else."""
    return Memory(
        watches={str(name): Watch(float(watch["first"]), now, str(watch["drop"])) for name, watch in record["watches"].items()},
        paused=set(map(str, record["paused"])),
        opened={str(name): float(time) for name, time in record["opened"].items()},
        known={str(name): float(time) for name, time in record["known"].items()},
        arrivals={(str(one["drop"]), str(one["group"])): arrivals_from(one) for one in record["arrivals"]},
    )
