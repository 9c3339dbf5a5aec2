"""What all views of the page stand on, in one value."""

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field

from gateway.service.board import DropView, Picture, RouteView
from gateway.service.web.context import Context
from gateway.service.web.history import History
from gateway.service.web.live import Pulse
from gateway.service.web.markup import Element, h
from gateway.service.web.pieces import link
from gateway.service.web.places import Places
from gateway.service.web.rows import Table, Tables
from gateway.service.web.small_files import SmallFiles
from gateway.service.web.words import counted, epoch
from protocol.states import State

_MOST_PENDING = 1000


@dataclass(slots=True)
class Site:
    """The page's own memory beside the context. For any number of threads."""

    context: Context
    history: History = field(default_factory=History)
    tables: Tables = field(default_factory=Tables)
    places: Places = field(init=False)
    files: SmallFiles = field(init=False)
    pulse: Pulse = field(init=False)
    _arrivals: int = 0
    _pending: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.places = Places(self.context.drops, self.context.ledger, self.context.clock.monotonic)
        self.files = SmallFiles(self.places, self._arrived, self.context.clock.monotonic)
        self.pulse = Pulse(self._fingerprint)

    @property
    def now(self) -> float:
        """Seconds since the epoch, by this host's clock."""
        return epoch(self.context.clock.utc()) or 0.0

    def table(self, view: DropView) -> Table:
        """A drop's rows as it was last seen."""
        return self.tables.of(view, self.places.grammar(view.name))

    def pressed(self, drop: str, title: str, what: str) -> None:
        """Notes that a button was pressed, until the drop has been looked at again."""
        with self._lock:
            if len(self._pending) >= _MOST_PENDING:
                self._pending.clear()
            self._pending[drop, title] = (what, self.context.clock.utc())
            self._arrivals += 1

    def pending(self, view: DropView, title: str) -> str:
        """What a button has done to an item that the last look does not show yet; "" where there is nothing."""
        with self._lock:
            what, at = self._pending.get((view.name, title), ("", ""))
            if what and (epoch(view.looked_at) or 0.0) > (epoch(at) or 0.0):
                del self._pending[view.name, title]
                return ""
            return what

    def _arrived(self) -> None:
        self._arrivals += 1

    def _fingerprint(self) -> Hashable:
        picture = self.context.board.picture()
        drops = tuple((d.name, d.looked_at, id(d.snapshot), d.trouble, d.away_since, d.free_space) for d in picture.drops)
        alarms = tuple((alarm.id, alarm.text) for alarm in self.context.alarms.current())
        return picture.routes, picture.troubles, drops, alarms, self.history.count, self._arrivals, int(self.now // 60)


def waiting(site: Site, picture: Picture, route: RouteView) -> Table:
    """The table of a route's source."""
    view = picture.drop(route.source)
    return Table() if view is None else site.table(view)


def errors_of(site: Site, picture: Picture) -> int:
    """How many error images there are, in all drops."""
    return sum(site.table(view).count()[State.ERROR.word] for view in picture.drops)


def frame(site: Site, picture: Picture) -> dict[str, dict[str, Element]]:
    """What stands around every view: the way to the error images with their number, and to each drop."""
    site.tables.keep([view.name for view in picture.drops])
    errors = errors_of(site, picture)
    number = h("span", {"class": "count"}, f"{errors:,}") if errors else None
    return {
        "nav": {
            "errors": h("a", {"href": "/errors"}, "Errors", h("span", {"class": "unseen"}, ": ") if errors else None, number),
        },
        "places": {view.name: h("li", {}, link(f"/drops/{view.name}", view.name)) for view in picture.drops},
        "title": {"title": h("span", {}, f"({counted(errors, 'error')}) " if errors else "")},
    }
