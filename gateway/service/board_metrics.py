"""The board as metrics, at the moment they are asked for: drops, routes, alarms.

Groups are names that strangers choose, and each makes series that a server of metrics keeps for months. So of a drop the
groups of routes are shown, and of others so many; what is beyond is summed up as the group "other".
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from gateway.service.board import Board, DropView, Picture, RouteState
from protocol.snapshot import ItemView, Snapshot
from protocol.states import State

GROUPS = 200  # of one drop, beside those of its routes
OTHER = "other"
STATES = (*(state.word for state in State), "none")  # "none": payloads are there, and no token


@dataclass(slots=True)
class _Counted:
    """What was counted in one snapshot: items and the oldest one's time, by group and state."""

    snapshot: Snapshot
    groups: frozenset[str]
    items: dict[tuple[str, str], int]
    oldest: dict[tuple[str, str], float]


@dataclass(slots=True)
class BoardMetrics:
    """A collector, for one thread at a time. `alarms` gives those that are on, each with its `kind`."""

    board: Board
    alarms: Callable[[], Sequence[object]] | None = None
    _counted: dict[str, _Counted] = field(default_factory=dict)
    _kinds: set[str] = field(default_factory=set)

    def collect(self) -> Iterator[Metric]:
        """Everything, from one picture of the board."""
        picture = self.board.picture()
        yield from self._drops(picture)
        yield from _routes(picture)
        if self.alarms is not None:
            yield self._alarms(self.alarms())

    def _drops(self, picture: Picture) -> Iterator[Metric]:
        items = GaugeMetricFamily("dropgate_drop_items", "Items in a drop.", labels=("drop", "group", "state"))
        ages = GaugeMetricFamily(
            "dropgate_oldest_item_age_seconds",
            "Age of the oldest item when the drop was last looked at, by the server's clock.",
            labels=("drop", "group", "state"),
        )
        up = GaugeMetricFamily("dropgate_drop_up", "Whether the last look at a drop succeeded.", labels=("drop",))
        took = GaugeMetricFamily("dropgate_drop_look_seconds", "How long the last look at a drop took.", labels=("drop",))
        free = GaugeMetricFamily("dropgate_free_bytes", "What may still be written in a drop.", labels=("drop",))
        offset = GaugeMetricFamily(
            "dropgate_clock_offset_seconds", "The clock of a drop's server less that of this host.", labels=("drop",)
        )
        for view in picture.drops:
            if view.looked_at or view.trouble:
                up.add_metric((view.name,), 0.0 if view.trouble else 1.0)
            if view.looked_at:
                took.add_metric((view.name,), view.took)
            if view.free_space is not None:
                free.add_metric((view.name,), view.free_space)
            if view.clock_offset is not None:
                offset.add_metric((view.name,), view.clock_offset)
            if view.snapshot is None:
                continue
            counted = self._count(view, view.snapshot, picture)
            for group in sorted(counted.groups):
                for state in STATES:
                    items.add_metric((view.name, group, state), counted.items.get((group, state), 0))
                    oldest = counted.oldest.get((group, state))
                    if oldest is not None and view.server_time is not None:
                        ages.add_metric((view.name, group, state), max(0.0, view.server_time - oldest))
        for gone in self._counted.keys() - {view.name for view in picture.drops}:
            del self._counted[gone]
        yield from (items, ages, up, took, free, offset)

    def _count(self, view: DropView, snapshot: Snapshot, picture: Picture) -> _Counted:
        configured = {
            group
            for route in picture.routes
            for group in route.groups
            if view.name == route.source or view.name in route.destinations
        }
        before = self._counted.get(view.name)
        if before is not None and before.snapshot is snapshot and configured <= before.groups:
            return before  # nobody has looked since
        present = set(snapshot.groups())
        # Who was shown stays: a flood of new names cannot push others out.
        shown = ((before.groups if before is not None else frozenset()) & present) - configured - {OTHER}
        shown |= set(sorted(present - configured - shown)[: max(0, GROUPS - len(shown))])
        known = frozenset(shown | configured)
        counted = _Counted(snapshot, known if present <= known else known | {OTHER}, defaultdict(int), {})
        for item in snapshot.items.values():
            group = item.item.group if item.item.group in known else OTHER
            place = (group, item.state.word if item.state is not None else "none")
            counted.items[place] += 1
            if (modified := last_change(item)) is not None:
                counted.oldest[place] = min(counted.oldest.get(place, modified), modified)
        self._counted[view.name] = counted
        return counted

    def _alarms(self, alarms: Sequence[object]) -> Metric:
        family = GaugeMetricFamily("dropgate_alarms", "Alarms that are on.", labels=("kind",))
        counts: defaultdict[str, int] = defaultdict(int)
        for alarm in alarms:
            counts[str(getattr(alarm, "kind", "unknown"))] += 1
        self._kinds |= counts.keys()
        for kind in sorted(self._kinds):  # one that is over goes to 0, and does not vanish
            family.add_metric((kind,), counts[kind])
        return family


def last_change(item: ItemView) -> float | None:
    """When anything of an item was last written, by the server's clock, in seconds since the epoch; a rename is no writing."""
    return max((listed.modified for _, listed in item.files if listed.modified is not None), default=None)


def _routes(picture: Picture) -> Iterator[Metric]:
    states = GaugeMetricFamily("dropgate_route_state", "1 for the state that a route is in.", labels=("route", "state"))
    moving = GaugeMetricFamily("dropgate_moving_items", "Items that are on their way just now.", labels=("route",))
    away = GaugeMetricFamily(
        "dropgate_destination_up", "Whether a destination of a route answers.", labels=("route", "destination")
    )
    for route in picture.routes:
        moving.add_metric((route.title,), len(route.moving))
        for state in RouteState:
            states.add_metric((route.title, state.value), float(route.state is state))
        for destination in route.destinations:
            away.add_metric((route.title, destination), float(destination not in route.away))
    yield from (states, moving, away)
