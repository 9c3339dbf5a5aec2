"""The first view: how everything stands, each route as a line, alarms, the last hour, the drops."""

from collections.abc import Sequence

from gateway.service.board import DropView, Moving, Picture, RouteState, RouteView
from gateway.service.transitions import Transition, What
from gateway.service.web import charts
from gateway.service.web.context import Alarm
from gateway.service.web.history import Point
from gateway.service.web.live import Sections
from gateway.service.web.markup import Element, Node, each, h, when
from gateway.service.web.pieces import drop_path, item_path, link, mark, state
from gateway.service.web.rows import STATES
from gateway.service.web.site import Site, errors_of, frame, waiting
from gateway.service.web.words import clipped, counted, size, span

_MOST_MOVING = 6  # of a route
_MOST_RECENT = 12

# How a step is drawn: the shape of the state that it leads to.
SHAPES = {
    What.BEGUN: "claimed",
    What.PUBLISHED: "ready",
    What.KNOWN: "ready",
    What.REFUSED: "warning",
    What.FORWARDED: "after",
    What.ACKNOWLEDGED: "after",
    What.RETURNED: "ready",
    What.WAITING: "before",
    What.FAILED: "error",
    What.LOST: "warning",
    What.UNSETTLED: "warning",
    What.HELD: "warning",
    What.RECEIPT: "done",
    What.REPLAYED: "ready",
    What.DISCARDED: "stopped",
}


def overview(site: Site) -> Sections:
    """All sections of the first page."""
    picture = site.context.board.picture()
    alarms = site.context.alarms.current()
    points = site.history.points(site.now)
    return {
        **frame(site, picture),
        "headline": {"headline": _headline(site, picture, alarms)},
        "alarms": _alarms(alarms) | {f"service {name}": _trouble(name, text) for name, text in picture.troubles},
        "routes": {route.title: _route(site, picture, route) for route in picture.routes},
        **_hour(points),
        "recent": {f"{number}": _recent(one) for number, one in site.history.latest(_MOST_RECENT)},
        "drops": {view.name: _drop(site, view) for view in picture.drops},
    }


def _hour(points: list[Point]) -> dict[str, dict[str, Element]]:
    return {
        "throughput-bars": charts.throughput_bars(points),
        "throughput": charts.throughput_caption(points),
        "latency-lines": charts.latency_lines(points),
        "latency": charts.latency_caption(points),
        "numbers": charts.numbers(points),
    }


def _headline(site: Site, picture: Picture, alarms: Sequence[Alarm]) -> Element:
    failed = sum(route.state is RouteState.FAILED for route in picture.routes)
    away = [view.name for view in picture.drops if view.away_since]
    errors = errors_of(site, picture)
    critical = sum(alarm.severity == "critical" for alarm in alarms)
    troubles = []
    if failed:
        troubles.append(f"{counted(failed, 'route needs', 'routes need')} a person")
    if away:
        troubles.append(f"drop {away[0]} does not answer" if len(away) == 1 else f"{len(away)} drops do not answer")
    if errors:
        troubles.append(counted(errors, "error image"))
    if not troubles and alarms:
        troubles.append(counted(len(alarms), "alarm"))
    kind = "critical" if failed or critical else "warning" if troubles else "well"
    moving = sum(len(route.moving) for route in picture.routes)
    ready = sum(waiting(site, picture, route).count(route.groups)["ready"] for route in picture.routes)
    first = f"{', '.join(troubles)}." if troubles else "No routes yet." if not picture.routes else "All is well."
    first = first[0].upper() + first[1:]
    rest = f"{f'{ready:,} ready' if ready else 'Nothing waits'}, {f'{moving:,} moving' if moving else 'nothing moves'}."
    return h("h1", {"class": f"headline {kind}"}, mark(kind), h("span", {}, first), " ", h("span", {"class": "rest"}, rest))


def _alarms(alarms: Sequence[Alarm]) -> dict[str, Element]:
    """The worst first, and of those the oldest."""
    return {alarm.id: _alarm(alarm) for alarm in sorted(alarms, key=lambda a: (a.severity != "critical", a.since))}


def _trouble(name: str, text: str) -> Element:
    """What a part of the service itself has to say."""
    what = h("p", {"class": "what"}, state("warning"), " ", h("strong", {}, f"The {name} has trouble"))
    return h("li", {"class": "alarm warning"}, what, h("p", {}, clipped(text)))


def _alarm(alarm: Alarm) -> Element:
    kind = "critical" if alarm.severity == "critical" else "warning"
    return h(
        "li",
        {"class": f"alarm {kind}"},
        h("p", {"class": "what"}, state(kind), " ", h("strong", {}, clipped(alarm.title)), " ", _about(alarm.about)),
        h("p", {}, clipped(alarm.text)),
        h("p", {"class": "faint"}, "since ", when(alarm.since), " (", when(alarm.since, "age"), ")"),
    )


def _about(about: str) -> Element | None:
    return h("bdi", {"class": "faint"}, clipped(about, 200)) if about else None


def _route(site: Site, picture: Picture, route: RouteView) -> Element:
    points = site.history.points(site.now, route.title)
    forwarded = sum(point.forwarded for point in points)
    return h(
        "article",
        {"class": f"route {route.state.value}"},
        h(
            "header",
            {},
            h("h3", {}, h("bdi", {}, clipped(route.title, 200))),
            state(route.state.value),
            h("span", {"class": "faint"}, "for ", when(route.since, "age")) if route.since else None,
            h("span", {"class": "hour"}, charts.spark(points), h("span", {}, f"{forwarded:,} in the last hour")),
        ),
        h(
            "div",
            {"class": "track"},
            _source(site, picture, route),
            _line(route),
            each(
                "ul", {"class": "ends", "aria-label": "to"}, [_end(site, picture, route, name) for name in route.destinations]
            ),
        ),
        _moving_list(route) if route.moving else None,
        h("p", {"class": "trouble"}, mark("warning"), " ", h("bdi", {}, clipped(route.trouble))) if route.trouble else None,
    )


def _source(site: Site, picture: Picture, route: RouteView) -> Element:
    counts = waiting(site, picture, route).count(route.groups)
    group = route.groups[0] if len(route.groups) == 1 else ""
    tally = [
        h("li", {"class": "bad" if word == "error" else ""}, _count_link(route.source, word, counts[word], group))
        for word in STATES
        if counts[word] and word not in ("after", "done")
    ]
    groups = ", ".join(route.groups) if route.groups else "every group"
    return h(
        "div",
        {"class": "stop from"},
        link(drop_path(route.source), route.source, "name"),
        h("span", {"class": "faint"}, clipped(groups, 80)),
        each("ul", {"class": "tally"}, tally or [h("li", {"class": "faint"}, "nothing waits")]),
        _away(picture.drop(route.source)),
    )


def _count_link(drop: str, word: str, number: int, group: str) -> Element:
    address = drop_path(drop, f"?state={word.replace(' ', '+')}" + (f"&group={group}" if group else ""))
    return h("a", {"href": address}, state(word, f"{number:,} {word}"))


def _line(route: RouteView) -> Element:
    moving = len(route.moving)
    text = f"{moving:,} moving" if moving else {RouteState.RUNNING: "idle"}.get(route.state, route.state.value)
    return h("div", {"class": f"line {'moves' if moving else 'still'}"}, h("span", {}, text))


def _end(site: Site, picture: Picture, route: RouteView, name: str) -> Element:
    view = picture.drop(name)
    counts = None if view is None else site.table(view).count(route.groups)
    there = None
    if counts is not None:
        ready = counts["ready"]
        text = f"{ready:,} ready" if ready else "nothing waits"
        there = h("a", {"href": drop_path(name, "?state=ready")}, state("ready", text)) if ready else text
    away = name in route.away
    return h(
        "li",
        {"class": "stop away" if away or (view is not None and view.away_since) else "stop"},
        link(drop_path(name), name, "name"),
        h("span", {"class": "faint"}, there) if there is not None else None,
        _away(view) or (state("away", "does not answer") if away else None),
    )


def _away(view: DropView | None) -> Element | None:
    if view is None or not view.away_since:
        return None
    return h("span", {"class": "off"}, state("away", "does not answer"), " for ", when(view.away_since, "age"))


def _moving_list(route: RouteView) -> Element:
    rows: list[Node] = [_moving(route.source, one) for one in route.moving[:_MOST_MOVING]]
    if len(route.moving) > _MOST_MOVING:
        rows.append(h("li", {"class": "faint"}, f"and {len(route.moving) - _MOST_MOVING:,} more"))
    return each("ul", {"class": "moving", "aria-label": "moving just now"}, rows)


def _moving(source: str, one: Moving) -> Element:
    return h(
        "li",
        {},
        link(item_path(source, one.item), one.item, "name"),
        progress(one),
        h("span", {"class": "faint"}, f"to {one.destination}, " if one.destination else "", when(one.since, "age")),
        h("span", {"class": "faint"}, f"attempt {one.attempt}") if one.attempt > 1 else None,
    )


def progress(one: Moving) -> Element:
    """How far an item has come."""
    if not one.total:
        return h("span", {"class": "progress"}, size(one.done) if one.done else "claimed")
    values = {"max": f"{one.total}", "value": f"{min(one.done, one.total)}", "aria-label": f"progress of {one.item}"}
    return h(
        "span",
        {"class": "progress"},
        h("progress", values),
        " ",
        h("span", {}, f"{min(one.done / one.total, 1):.0%} of {size(one.total)}"),
    )


def _recent(one: Transition) -> Element:
    to = f" to {one.destination}" if one.destination else ""
    return h(
        "li",
        {},
        when(one.at),
        " ",
        state(SHAPES.get(one.what, "ready"), one.what.value),
        " ",
        link(item_path(one.drop, one.item), one.item, "name"),
        h("span", {"class": "faint"}, f" of {one.drop}{to}", f", {span(one.seconds)}" if one.seconds is not None else ""),
    )


def _drop(site: Site, view: DropView) -> Element:
    counts = site.table(view).count()
    return h(
        "tr",
        {"role": "row"},
        h(
            "th",
            {"scope": "row", "role": "rowheader"},
            link(drop_path(view.name), view.name, "name"),
            h("div", {"class": "faint place"}, h("bdi", {}, view.place)),
        ),
        h(
            "td",
            {"role": "cell"},
            each(
                "ul",
                {"class": "tally"},
                [
                    h("li", {"class": "bad" if word == "error" else ""}, _count_link(view.name, word, counts[word], ""))
                    for word in STATES
                    if counts[word]
                ]
                or [h("li", {"class": "faint"}, "empty" if view.snapshot is not None else "not seen yet")],
            ),
        ),
        h("td", {"role": "cell"}, *seen(view)),
    )


def seen(view: DropView) -> list[Node]:
    """When a drop was last looked at, and what came of it."""
    parts: list[Node] = ["seen ", when(view.looked_at, "age"), " ago"] if view.looked_at else ["not seen yet"]
    if view.free_space is not None:
        parts.append(h("span", {"class": "faint"}, f", {size(view.free_space)} free"))
    if view.clock_offset is not None and abs(view.clock_offset) >= 1:
        side = "ahead" if view.clock_offset > 0 else "behind"
        parts.append(h("span", {"class": "faint"}, f", its clock is {span(abs(view.clock_offset))} {side}"))
    if view.trouble:
        since: list[Node] = [" for ", when(view.away_since, "age")] if view.away_since else []
        parts.append(h("div", {"class": "off"}, state("away", "does not answer"), *since))
        parts.append(h("div", {"class": "trouble"}, clipped(view.trouble)))
    return parts
