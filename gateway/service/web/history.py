"""What happened lately, in memory and bounded: the last hour by minute, the latest transitions, why items failed.

It is filled by listening, and after a start by reading the journal once.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import quantiles

from gateway.service.transitions import Transition, What
from gateway.service.web.words import epoch

MINUTES = 60
_MOST_SAMPLES = 512  # durations kept of one minute of one route
_MOST_LATEST = 1000
_MOST_REASONS = 4000
_MOST_ROUTES = 1000  # of transitions; a journal may hold those of routes that are gone


@dataclass(slots=True)
class Minute:
    """One minute of one route. `seconds` are durations from creation to after image, a bounded choice of them."""

    forwarded: int = 0
    failed: int = 0
    bytes: int = 0
    timed: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(self, transition: Transition) -> None:
        """Counts one transition."""
        if transition.what is What.FAILED:
            self.failed += 1
        elif transition.what is What.FORWARDED:
            self.forwarded += 1
            self.bytes += transition.bytes or 0
            if transition.seconds is not None:
                if len(self.seconds) < _MOST_SAMPLES:
                    self.seconds.append(transition.seconds)
                else:
                    self.seconds[self.timed % _MOST_SAMPLES] = transition.seconds
                self.timed += 1


@dataclass(frozen=True, slots=True)
class Point:
    """One minute as a chart shows it. `start` is in seconds since the epoch; durations are None where nothing was timed."""

    start: float
    forwarded: int
    failed: int
    bytes: int
    median: float | None
    slowest: float | None  # 19 of 20 were quicker


class History:
    """For any number of threads; listening takes no longer than a few dictionary look-ups."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minutes: dict[int, dict[str, Minute]] = {}
        self._latest: deque[tuple[int, Transition]] = deque(maxlen=_MOST_LATEST)
        self._reasons: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._count = 0

    @property
    def count(self) -> int:
        """How many transitions were told so far: it changes with each."""
        return self._count

    def listen(self, transition: Transition) -> None:
        """A listener of the hub."""
        with self._lock:
            self._tally(transition)
            self._append(transition)

    def load(self, transitions: Iterable[Transition]) -> None:
        """Takes what the journal holds from before, oldest first; what was listened to meanwhile is not taken twice."""
        read = list(deque(transitions, maxlen=100_000))
        with self._lock:
            heard = [transition for _, transition in self._latest]
            known = set(heard)
            fresh = [transition for transition in read if transition not in known]
            for transition in fresh:
                self._tally(transition)
            # In the order in which they happened, the newest last.
            self._latest.clear()
            for transition in (*fresh, *heard):
                self._append(transition)

    def _tally(self, transition: Transition) -> None:
        moment = epoch(transition.at)
        if moment is None:
            return
        minute = int(moment // 60)
        if transition.what in (What.FORWARDED, What.FAILED):
            routes = self._minutes.setdefault(minute, {})
            if transition.route in routes or len(routes) < _MOST_ROUTES:
                routes.setdefault(transition.route, Minute()).add(transition)
            for old in [known for known in self._minutes if known <= minute - 2 * MINUTES]:
                del self._minutes[old]
        if transition.what is What.FAILED:
            self._reasons[transition.drop, transition.item] = transition.text
            self._reasons.move_to_end((transition.drop, transition.item))
            if len(self._reasons) > _MOST_REASONS:
                self._reasons.popitem(last=False)

    def _append(self, transition: Transition) -> None:
        self._count += 1
        self._latest.append((self._count, transition))

    def since(self, count: int) -> list[Transition] | None:
        """What was told after the first `count`; None where that is longer ago than is remembered."""
        with self._lock:
            if count < self._count - len(self._latest):
                return None
            return [transition for number, transition in self._latest if number > count]

    def latest(self, most: int) -> list[tuple[int, Transition]]:
        """The newest transitions with their numbers, the newest first."""
        with self._lock:
            return list(self._latest)[: -most - 1 : -1]

    def reason(self, drop: str, item: str) -> str:
        """Why an item failed, as it was told; "" where that is not remembered."""
        with self._lock:
            return self._reasons.get((drop, item), "")

    def points(self, now: float, route: str | None = None) -> list[Point]:
        """The last hour by minute, oldest first; of one route, or of all together."""
        last = int(now // 60)
        with self._lock:
            return [_point(minute, self._minutes.get(minute, {}), route) for minute in range(last - MINUTES + 1, last + 1)]


def _point(minute: int, routes: dict[str, Minute], route: str | None) -> Point:
    chosen = [counted for title, counted in routes.items() if route in (None, title)]
    seconds = sorted(value for counted in chosen for value in counted.seconds)
    median, slowest = _quantiles(seconds)
    return Point(
        minute * 60.0,
        sum(counted.forwarded for counted in chosen),
        sum(counted.failed for counted in chosen),
        sum(counted.bytes for counted in chosen),
        median,
        slowest,
    )


def _quantiles(seconds: list[float]) -> tuple[float | None, float | None]:
    if not seconds:
        return None, None
    if len(seconds) == 1:
        return seconds[0], seconds[0]
    cuts = quantiles(seconds, n=20, method="inclusive")
    return cuts[9], cuts[18]


def gaps_between(points: list[Point]) -> list[list[Point]]:
    """Runs of neighbouring minutes in which something was timed."""
    runs: list[list[Point]] = []
    for before, point in pairwise([None, *points]):
        if point is None or point.median is None:
            continue
        if before is None or before.median is None or not runs:
            runs.append([])
        runs[-1].append(point)
    return runs
