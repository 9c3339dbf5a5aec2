"""The book of alarms: which are on, so that each fires once, and clears itself once it is over.

    not in the book   found                                        -> in the book: FIRED
    in the book       found, at a higher level than was told       -> WORSE
    in the book       found, else                                  -> its text is brought up to date, and nothing is told
    in the book       not found, in `LOOKS` different looks and    -> out of the book: CLEARED
                      for `settle` seconds
    in the book       not found, and it could not be judged        -> stays

What flaps around a limit is therefore one alarm. A look counts once, however often it is judged.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.handoff.clock import Clock
from gateway.service.alarms.alarm import Alarm, alarm_from

LOOKS = 2
SETTLE = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Changes:
    """What one round changed: alarms that began, that rose a level, and that are over."""

    fired: tuple[Alarm, ...] = ()
    worse: tuple[Alarm, ...] = ()
    cleared: tuple[Alarm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.fired or self.worse or self.cleared)


@dataclass(slots=True)
class _Line:
    alarm: Alarm  # its level is the highest that was told
    absent_since: float | None = None  # monotonic seconds
    looks: set[str] = field(default_factory=set)  # that did not find it


@dataclass(slots=True)
class Book:
    """Which alarms are on. For any number of threads."""

    clock: Clock
    settle: float = SETTLE
    _lines: dict[str, _Line] = field(default_factory=dict)
    _rounds: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def update(self, found: Collection[Alarm], look: Callable[[Alarm], str | None] | None = None) -> Changes:
        """Takes in what was found this round.

        `look` names the look by which an alarm that is on was not found, or is None where it could not be judged this round;
        without it every round is a look. Of several alarms of one id the last counts.
        """
        with self._lock:
            self._rounds += 1
            by_id = {alarm.id: alarm for alarm in found}
            fired = tuple(alarm for alarm in by_id.values() if alarm.id not in self._lines)
            worse = tuple(alarm for alarm in map(self._again, by_id.values()) if alarm is not None)
            for alarm in fired:
                self._lines[alarm.id] = _Line(alarm)
            absent = [line for name, line in self._lines.items() if name not in by_id]
            cleared = tuple(line.alarm for line in absent if self._is_over(line, look))
            for alarm in cleared:
                del self._lines[alarm.id]
            return Changes(fired, worse, cleared)

    def _again(self, alarm: Alarm) -> Alarm | None:
        """An alarm that was found, as it is now, if it is on and has become worse."""
        line = self._lines.get(alarm.id)
        if line is None:
            return None
        line.absent_since = None
        line.looks.clear()
        told = line.alarm.level
        line.alarm = replace(alarm, since=line.alarm.since, level=max(alarm.level, told))
        return line.alarm if alarm.level > told else None

    def _is_over(self, line: _Line, look: Callable[[Alarm], str | None] | None) -> bool:
        seen_by = str(self._rounds) if look is None else look(line.alarm)
        if seen_by is None:
            return False
        now = self.clock.monotonic()
        if line.absent_since is None:
            line.absent_since = now
        if len(line.looks) < LOOKS:
            line.looks.add(seen_by)
        return len(line.looks) >= LOOKS and now - line.absent_since >= self.settle

    def current(self) -> tuple[Alarm, ...]:
        """What is on: the critical first, then the oldest."""
        with self._lock:
            alarms = [line.alarm for line in self._lines.values()]
        return tuple(sorted(alarms, key=lambda alarm: (alarm.severity != "critical", alarm.since, alarm.id)))

    def records(self) -> list[dict[str, object]]:
        """What is on, for a file."""
        return [alarm.as_record() for alarm in self.current()]

    def restore(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Takes up what an earlier process had on. Raises ValueError for what no book has written."""
        alarms = [alarm_from(record) for record in records]
        with self._lock:
            self._lines = {alarm.id: _Line(alarm) for alarm in alarms}
