"""Looks at the drops now and then, and writes what it sees on the board: for the page, the metrics and the alarms.

Each endpoint, and each local folder, has a thread of its own, so that a dead one holds up itself and nothing else. Looking
costs a listing, so it may take a twentieth of the time: a look of 2 seconds is followed by 40 seconds of rest. Nothing is
changed but that the server's clock and free space are asked for now and then, which makes a scratch file and removes it.
"""

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from gateway.drop import Drop
from gateway.handoff.clock import Clock
from gateway.handoff.connection import Patience
from gateway.handoff.driver import Driver
from gateway.service.board import Board, DropView
from protocol.procedures.look import snapshot
from transports.errors import ConnectionFailed, OutcomeUnknown, TransportError

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

MEASURE_EVERY = 60.0  # seconds between two questions for the server's clock and its free space
SHARE = 20  # a look is followed by so many times its length of rest
LONGEST_REST = 60.0  # seconds between two looks at a drop that cannot be seen
_ENOUGH = Patience(attempts=2)  # a connection that was idle may be gone; more is for the next look

_Place = tuple[str, str, int | None, str]


@dataclass(slots=True)
class _Watched:
    """One drop: what is known of it, and when to look next, in seconds of the monotonic clock."""

    name: str
    drop: Drop
    view: DropView
    due: float = 0.0
    failures: int = 0
    measured_at: float | None = None
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _driver: Driver | None = None

    def driver(self) -> Driver:
        """A connected driver. Raises transport errors."""
        if self._driver is None:
            self._driver = self._stack.enter_context(self.drop.driver(patience=_ENOUGH, short=True))
        return self._driver

    def disconnect(self) -> None:
        """Ends the connection. Raises nothing."""
        self._driver = None
        self._stack.close()

    def is_same(self, drop: Drop) -> bool:
        """Whether a look at the other one would be the same."""
        return (self.drop.endpoint, self.drop.rules, self.drop.slots) == (drop.endpoint, drop.rules, drop.slots)


class _Eye:
    """Looks at the drops of one endpoint, one after the other, in a thread of its own."""

    def __init__(self, board: Board, clock: Clock, interval: float) -> None:
        self._board = board
        self._clock = clock
        self._interval = interval
        self._watched: dict[str, _Watched] = {}
        self._gone: list[_Watched] = []
        self._wake = threading.Condition()
        self._closed = False
        # As a daemon it cannot keep a process that somebody wants gone: it may wait for a server that says nothing.
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._thread.start()

    def watch(self, drops: Mapping[str, Drop]) -> None:
        """These drops from here on. What is the same goes on undisturbed."""
        with self._wake:
            for name in [name for name, one in self._watched.items() if not _stays(one, drops.get(name))]:
                self._gone.append(self._watched.pop(name))
            for name, drop in drops.items():
                if name not in self._watched:
                    view = DropView(name, str(drop))
                    self._watched[name] = _Watched(name, drop, view)
                    self._board.set_drop(view)
            self._wake.notify()

    def close(self) -> None:
        """Asks the thread to end."""
        with self._wake:
            self._closed = True
            self._gone.extend(self._watched.values())
            self._watched.clear()
            self._wake.notify()

    def join(self, timeout: float) -> None:
        """Waits for the end of the thread, for `timeout` seconds at most."""
        self._thread.join(timeout)

    def _run(self) -> None:
        rested_at = self._clock.monotonic()
        while (one := self._next(rested_at)) is not None:
            began = self._clock.monotonic()
            view = self._look(one)
            now = self._clock.monotonic()
            if view.trouble:
                one.failures += 1
                # Waiting for a server is no load on it, and the other drops of the endpoint need not wait as well.
                pause = min(LONGEST_REST, self._interval * 2.0 ** min(one.failures - 1, 30))
                one.due = now + pause * self._clock.chance.uniform(0.5, 1.0)
            else:
                one.failures = 0
                one.due = began + self._interval
                rested_at = now + SHARE * (now - began)
            if one.drop.slots is not None or view.trouble:
                one.disconnect()
            self._show(one, view)

    def _next(self, rested_at: float) -> _Watched | None:
        """The drop whose turn it is, once it is; None once this is closed."""
        while True:
            with self._wake:
                gone, self._gone = self._gone, []
                if not gone:
                    if self._closed:
                        return None
                    one = min(self._watched.values(), key=lambda each: each.due, default=None)
                    left = max(rested_at, one.due) - self._clock.monotonic() if one is not None else None
                    if one is not None and left is not None and left <= 0:
                        return one
                    self._wake.wait(left)
            for each in gone:  # outside the lock: a server may take its time for a farewell
                each.disconnect()

    def _show(self, one: _Watched, view: DropView) -> None:
        with self._wake:
            one.view = view
            if self._watched.get(one.name) is one:  # or else it was taken away, or replaced, while it was looked at
                self._board.set_drop(view)

    def _look(self, one: _Watched) -> DropView:
        """What is to be seen of a drop now. Raises nothing."""
        view = one.view
        at, began = self._clock.utc(), self._clock.monotonic()
        try:
            driver = one.driver()
            if one.measured_at is None or began - one.measured_at >= MEASURE_EVERY:
                view = self._measured(driver, view)
                one.measured_at = began
                at, began = self._clock.utc(), self._clock.monotonic()
            seen = driver.run(snapshot(one.drop.rules))
        except Exception as error:  # noqa: BLE001 - one drop's trouble, of whatever kind, is shown, and ends no thread
            if not isinstance(error, TransportError):
                log.error("not looked at", drop=one.name, error=f"{type(error).__name__}: {error}")
            one.measured_at = None  # another server may answer next
            return replace(one.view, trouble=str(error) or type(error).__name__, away_since=one.view.away_since or at)
        return replace(
            view,
            snapshot=seen,
            looked_at=at,
            server_time=None if view.clock_offset is None else _epoch(at) + view.clock_offset,
            took=self._clock.monotonic() - began,
            trouble="",
            away_since="",
        )

    def _measured(self, driver: Driver, view: DropView) -> DropView:
        """The server's clock and free space, as far as this account may know them."""
        transport = driver.connection.use()
        offset, free = view.clock_offset, view.free_space
        try:
            before = _epoch(self._clock.utc())
            theirs = transport.server_time()
            after = _epoch(self._clock.utc())
            # Times are cut off at the server's resolution: in the middle it is as much too early.
            offset = theirs + transport.capabilities.time_resolution / 2 - (before + after) / 2
        except (ConnectionFailed, OutcomeUnknown):
            raise
        except TransportError:
            pass  # a full disk, or an account that may only read: what was known stays
        try:
            free = transport.free_space()
        except (ConnectionFailed, OutcomeUnknown):
            raise
        except TransportError:
            free = None
        return replace(view, clock_offset=offset, free_space=free)


@dataclass(slots=True)
class Observers:
    """Everything that is looked at. `interval` is the shortest time between two looks at one drop, in seconds."""

    board: Board
    clock: Clock
    interval: float
    _eyes: dict[_Place, _Eye] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def watch(self, drops: Mapping[str, Drop]) -> None:
        """Looks at these drops from here on, by their names in the configuration, and no longer at others.

        What is unchanged since the last call goes on undisturbed. Where an endpoint takes only so many connections, none is
        kept between two looks. Connects in the background; raises nothing.
        """
        places: dict[_Place, dict[str, Drop]] = {}
        for name, drop in drops.items():
            places.setdefault(_place(drop), {})[name] = drop
        for place in self._eyes.keys() - places.keys():
            self._eyes.pop(place).close()
        for name in self._names - drops.keys():
            self.board.remove_drop(name)
        for place, here in places.items():
            if place not in self._eyes:
                self._eyes[place] = _Eye(self.board, self.clock, self.interval)
            self._eyes[place].watch(here)
        self._names = set(drops)

    def close(self, timeout: float = 5.0) -> None:
        """Ends every look, for which it waits `timeout` seconds at most; whoever waits for a dead server is left behind."""
        deadline = self.clock.monotonic() + timeout
        for eye in self._eyes.values():
            eye.close()
        for eye in self._eyes.values():
            eye.join(max(0.0, deadline - self.clock.monotonic()))
        self._eyes.clear()


def _place(drop: Drop) -> _Place:
    location = drop.endpoint.location
    # A local folder may be a mount, and hang as any server does.
    host = location.host or (location.protocol if location.scheme == "fsspec" else location.path)
    return location.scheme, host, location.port, location.user


def _stays(one: _Watched, drop: Drop | None) -> bool:
    return drop is not None and one.is_same(drop)


def _epoch(utc: str) -> float:
    return datetime.fromisoformat(utc).timestamp()
