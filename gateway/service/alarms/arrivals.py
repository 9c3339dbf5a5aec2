"""When items of a group arrived, as far as anybody needs to know: the last few, kept across restarts.

An item has arrived once it is ready, or in any later state. When, its token's modification time says, which a rename keeps;
by the server's clock, and so corrected by what the two clocks differ. An item that was not there at the look before arrived
after that look, whatever its time says: a copy may keep the time of its original, and a replay does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from protocol.names import FileKind
from protocol.snapshot import ItemView, Snapshot
from protocol.states import State

_ARRIVED = frozenset({State.READY, State.CLAIMED, State.DONE, State.AFTER, State.ERROR})
# Which of its files is the token: the first of these that there is.
_TOKENS = {FileKind.MANIFEST: 3, FileKind.CHECKSUM: 2, FileKind.PAYLOAD: 1}
SPARE = 64  # so many more than are needed are kept, so that an item that is seen again is known


@dataclass(slots=True)
class Arrivals:
    """Of one group of one drop. Times are in seconds since the epoch, by this host's clock."""

    highest: int | None = None
    looked: float | None = None  # when the last look began
    times: dict[int, float] = field(default_factory=dict)
    _passed: set[int] = field(default_factory=set)  # there, and not among the last: not kept, and not looked at again

    def see(self, snapshot: Snapshot, group: str, looked: float, offset: float, keep: int) -> None:
        """Takes in a look that began at `looked`. `offset` is the server's clock less ours; `keep` is how many are needed."""
        views = [view for item, view in snapshot.items.items() if item.group == group and view.state in _ARRIVED]
        for view in views:
            number = view.item.number
            if (
                number not in self.times
                and number not in self._passed
                and (time := self._time(view, looked, offset)) is not None
            ):
                self.times[number] = time
        self.highest = max((view.item.number for view in views), default=self.highest)
        self.looked = looked
        if len(self.times) > keep + SPARE:
            latest = sorted(self.times.items(), key=lambda pair: (pair[1], pair[0]))[-(keep + SPARE) :]
            self.times = dict(latest)
        self._passed = {view.item.number for view in views} - self.times.keys()

    def _time(self, view: ItemView, looked: float, offset: float) -> float | None:
        is_new = self.highest is None or view.item.number > self.highest
        stamped = token_time(view)
        if stamped is None:
            return looked if is_new else None
        time = min(stamped - offset, looked)
        return max(time, self.looked) if is_new and self.looked is not None else time

    def count_since(self, begin: float) -> int:
        """How many arrived at `begin` or later, as far as they are kept."""
        return sum(time >= begin for time in self.times.values())

    def as_record(self) -> dict[str, object]:
        """For JSON."""
        times = {str(number): time for number, time in self.times.items()}
        return {"highest": self.highest, "looked": self.looked, "times": times}


def arrivals_from(record: Mapping[str, Any]) -> Arrivals:
    """What `as_record` made. Raises ValueError, TypeError or KeyError for anything else."""
    highest, looked = record["highest"], record["looked"]
    return Arrivals(
        None if highest is None else int(highest),
        None if looked is None else float(looked),
        {int(number): float(time) for number, time in record["times"].items()},
    )


def token_time(view: ItemView) -> float | None:
    """The modification time of an item's token, by the server's clock; None where no listing told it."""
    found: tuple[int, float] | None = None
    for name, listed in view.files:
        rank = _TOKENS.get(name.kind)
        if name.state is view.state and rank is not None and listed.modified is not None:
            found = max(found or (rank, listed.modified), (rank, listed.modified))
    return None if found is None else found[1]
