"""The state of the service at a glance, in memory: what the page, the metrics and the alarms look at.

Routes and observers write here, each about itself; readers take a picture, which nothing changes any more. The board is
what was last seen. The truth is in the drops.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from protocol.snapshot import Snapshot


class RouteState(Enum):
    """How a route stands."""

    STARTING = "starting"
    RUNNING = "running"
    AWAY = "away"  # an endpoint does not answer; it is tried again by itself
    PAUSED = "paused"  # outside its time windows
    FAILED = "failed"  # needs a person: a refused login, an unfit drop
    STOPPED = "stopped"


_ENDED = (RouteState.STOPPED, RouteState.FAILED)


@dataclass(frozen=True, slots=True)
class Moving:
    """An item that is on its way just now. `total` is None where its size is not known; `since` is ISO 8601 in UTC."""

    item: str
    owner: str
    since: str
    attempt: int
    destination: str = ""
    done: int = 0  # bytes, of this run
    total: int | None = None


@dataclass(frozen=True, slots=True)
class RouteView:
    """One route. `source` and `destinations` are drop names; `trouble` says why it is not running, or what went wrong last."""

    title: str
    source: str
    destinations: tuple[str, ...]
    groups: tuple[str, ...]
    state: RouteState = RouteState.STARTING
    since: str = ""  # of the state, ISO 8601 in UTC
    trouble: str = ""
    away: tuple[str, ...] = ()  # destinations that do not answer just now
    moving: tuple[Moving, ...] = ()
    ordering: str = ""  # "shuffle", "fifo" or "strict": only a strict route waits for a missing number


@dataclass(frozen=True, slots=True)
class DropView:
    """One drop as it was last seen. `clock_offset` is the server's clock less ours, in seconds; `free_space` is in bytes.

    `looked_at` is when the listing began, ISO 8601 in UTC, "" before the first; `server_time` is the server's clock at that
    moment, in seconds since the epoch, as files are stamped by it. `trouble` is why the last look failed, "" if it did not.
    """

    name: str
    place: str  # its URL, without a secret
    snapshot: Snapshot | None = None
    looked_at: str = ""
    server_time: float | None = None
    took: float = 0.0  # seconds
    clock_offset: float | None = None
    free_space: int | None = None
    trouble: str = ""
    away_since: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """The board at one moment. Its snapshots are shared, and not to be changed."""

    started: str
    routes: tuple[RouteView, ...]
    drops: tuple[DropView, ...]
    troubles: tuple[tuple[str, str], ...] = ()  # of parts of the service, such as ("journal", "disk full"), by name

    def drop(self, name: str) -> DropView | None:
        """One drop by its name."""
        return next((view for view in self.drops if view.name == name), None)


@dataclass(slots=True)
class Board:
    """What is known now. For any number of threads. `utc` gives the time as ISO 8601, `monotonic` in seconds."""

    utc: Callable[[], str]
    started: str = ""
    monotonic: Callable[[], float] = time.monotonic
    _routes: dict[str, RouteView] = field(default_factory=dict)
    _moving: dict[tuple[str, str], Moving] = field(default_factory=dict)  # by route and owner's claim
    _drops: dict[str, DropView] = field(default_factory=dict)
    _troubles: dict[str, str] = field(default_factory=dict)
    _beats: dict[tuple[str, str], float] = field(default_factory=dict)  # by route and worker
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def picture(self) -> Picture:
        """Everything, as it is now."""
        with self._lock:
            moving: dict[str, list[Moving]] = {}
            for (title, _), one in sorted(self._moving.items()):
                moving.setdefault(title, []).append(one)
            routes = tuple(replace(view, moving=tuple(moving.get(view.title, ()))) for view in self._routes.values())
            return Picture(self.started, routes, tuple(self._drops.values()), tuple(sorted(self._troubles.items())))

    def set_trouble(self, part: str, text: str) -> None:
        """What is wrong with a part of the service that is no route and no drop; "" once nothing is."""
        with self._lock:
            if text:
                self._troubles[part] = text
            else:
                self._troubles.pop(part, None)

    def answers(self, timeout: float) -> bool:
        """Whether the board can be used within `timeout` seconds: nobody holds it for ever."""
        if not self._lock.acquire(timeout=timeout):
            return False
        self._lock.release()
        return True

    # Of routes.

    def add_route(self, view: RouteView) -> None:
        """A route that begins, or begins anew with other settings."""
        with self._lock:
            self._routes[view.title] = replace(view, since=view.since or self.utc())
            self._forget_beats(view.title)
            self._beats[view.title, ""] = self.monotonic()  # whoever never beats is noticed as well

    def remove_route(self, title: str) -> None:
        """A route that is no longer configured."""
        with self._lock:
            self._routes.pop(title, None)
            self._forget_beats(title)
            for place in [place for place in self._moving if place[0] == title]:
                del self._moving[place]

    def set_state(self, title: str, state: RouteState, trouble: str = "") -> None:
        """How a route stands from now on."""
        with self._lock:
            view = self._routes.get(title)
            if view is not None and (view.state, view.trouble) != (state, trouble):
                if view.state in _ENDED:
                    self._forget_beats(title)
                    self._beats[title, ""] = self.monotonic()
                since = view.since if view.state is state else self.utc()
                self._routes[title] = replace(view, state=state, since=since, trouble=trouble)

    def set_away(self, title: str, away: tuple[str, ...]) -> None:
        """Which destinations of a route do not answer just now."""
        with self._lock:
            view = self._routes.get(title)
            if view is not None and view.away != away:
                self._routes[title] = replace(view, away=away)

    def set_moving(self, title: str, item: str, moving: Moving | None) -> None:
        """What a worker has in hand; None once it has put it down."""
        with self._lock:
            if moving is None:
                self._moving.pop((title, item), None)
            else:
                self._moving[title, item] = moving

    def beat(self, title: str, worker: str = "") -> None:
        """A thread of a route is alive. Each calls it whenever it comes round, where there are several by a name of its own.

        A name that has beaten once is waited for until the route ends, so give a new thread the name of the one it follows.
        """
        with self._lock:
            if title in self._routes:
                if worker:
                    self._beats.pop((title, ""), None)  # from here on each speaks for itself
                self._beats[title, worker] = self.monotonic()

    def stalled(self, older_than: float) -> tuple[str, ...]:
        """Routes of which a thread has not beaten for more than `older_than` seconds, though it should be at work.

        One that is STOPPED or FAILED has no threads any more, which is told by its state.
        """
        with self._lock:
            limit = self.monotonic() - older_than
            late = {title for (title, _), beaten in self._beats.items() if beaten < limit}
            return tuple(view.title for view in self._routes.values() if view.title in late and view.state not in _ENDED)

    def _forget_beats(self, title: str) -> None:
        for place in [place for place in self._beats if place[0] == title]:
            del self._beats[place]

    # Of drops.

    def set_drop(self, view: DropView) -> None:
        """A drop as an observer has just seen it."""
        with self._lock:
            self._drops[view.name] = view

    def remove_drop(self, name: str) -> None:
        """A drop that no route uses any more."""
        with self._lock:
            self._drops.pop(name, None)
