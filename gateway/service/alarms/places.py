"""Rules about endpoints and routes: who does not answer, whose clock is off, where space runs out, what needs a person."""

from collections import defaultdict
from urllib.parse import urlsplit

from gateway.service.alarms import words
from gateway.service.alarms.alarm import Alarm
from gateway.service.alarms.limits import Limits
from gateway.service.alarms.memory import Memory
from gateway.service.board import DropView, Picture, RouteState, RouteView

_SLACK = 0.1  # of a limit: what has fired is on until it is so far on the good side


def dead_endpoints(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """Endpoints that have not answered for `away_age`: one alarm for all that is there, or, where some of it answers, for each
    drop that does not."""
    since = _silent_since(picture, memory, now)
    if not limits.away_age:
        return []
    found = []
    for endpoint, views in _by_endpoint(picture).items():
        away = [view for view in views if view.name in since]
        groups = {endpoint: away} if len(away) == len(views) else {view.name: [view] for view in away}
        for about, silent in groups.items():
            first = min(since[view.name] for view in silent)
            if now - first >= limits.away_age:
                found.append(_silent(picture, about, silent, first, now))
    return found


def _silent_since(picture: Picture, memory: Memory, now: float) -> dict[str, float]:
    """Since when drops are away, also where that began before a restart of ours."""
    found = {}
    for view in picture.drops:
        if view.trouble and view.away_since:
            held = memory.held_since(f"away:{view.name}", now, view.name)
            found[view.name] = min(held, words.moment(view.away_since).timestamp())
        elif view.looked_at:
            memory.ended(f"away:{view.name}")
    return found


def _silent(picture: Picture, about: str, views: list[DropView], since: float, now: float) -> Alarm:
    names = tuple(sorted(view.name for view in views))
    held = sorted(route.title for route in picture.routes if {route.source, *route.destinations} & set(names))
    routes = f" Held up: {words.some(map(repr, held))}." if held else ""
    return Alarm(
        id=f"away:{about}",
        kind="away",
        about=about,
        title=f"{about} has not been reached for {words.long(now - since)}",
        text=f"Drop {words.some(names)}: {views[0].trouble}. It is tried again by itself, and nothing is lost meanwhile."
        f"{routes} Look whether the server runs and can be reached from here.",
        since=words.clock_text(since),
        severity="critical",
        drops=names,
    )


def held_routes(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """Routes that need a person, at once; and routes and destinations that are away though no drop of theirs is known to be."""
    found = []
    troubled = {view.name for view in picture.drops if view.trouble}
    for route in picture.routes:
        if route.state is RouteState.FAILED:
            found.append(_failed(route, now))
        if not limits.away_age:
            continue
        away = {name: f"{route.title}: {name}" for name in route.away}
        if route.state is RouteState.AWAY:
            away[route.source] = route.title
        for name in (route.source, *route.destinations):
            condition = f"route away:{route.title}:{name}"
            if name not in away:
                if route.state is not RouteState.STARTING:
                    memory.ended(condition)
                continue
            since = memory.held_since(condition, now)
            # What is known of the drops themselves says it better.
            told = troubled & ({name} if name != route.source else {route.source, *route.destinations})
            if not told and now - since >= limits.away_age:
                found.append(_away(route, name, away[name], now, since))
    return found


def _failed(route: RouteView, now: float) -> Alarm:
    return Alarm(
        id=f"failed:{route.title}",
        kind="failed",
        about=route.title,
        title=f"{route.title}: stands still, and needs a person",
        text=f"{route.trouble or 'It failed'}. It is not tried again by itself, since that could lock an account. "
        f"Mend the cause; then reload or restart dropgate.",
        since=words.clock_text(now),
        severity="critical",
        routes=(route.title,),
    )


def _away(route: RouteView, drop: str, about: str, now: float, since: float) -> Alarm:
    what = f"destination {drop!r} does not answer it" if drop != route.source else "it cannot work"
    return Alarm(
        id=f"away:{route.title}:{drop}",
        kind="away",
        about=about,
        title=f"{route.title}: {what}, for {words.long(now - since)}",
        text=f"{route.trouble or 'No reason is known'}. It is tried again by itself, and nothing is lost meanwhile.",
        since=words.clock_text(since),
        severity="critical",
        routes=(route.title,),
    )


def clock_offsets(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """Servers whose clock is off from this host's by more than `clock_offset`."""
    if not limits.clock_offset:
        return []
    found = []
    for endpoint, views in _by_endpoint(picture).items():
        known = [view.clock_offset for view in views if view.clock_offset is not None and not view.trouble]
        offset = max(known, key=abs, default=0.0)
        name = f"clock:{endpoint}"
        limit = limits.clock_offset * (1 - _SLACK) if name in memory.firing else limits.clock_offset
        if abs(offset) > limit:
            found.append(
                Alarm(
                    id=name,
                    kind="clock",
                    about=endpoint,
                    title=f"{endpoint}: its clock is {words.long(abs(offset))} {'ahead' if offset > 0 else 'behind'}",
                    text="The server's clock and this host's differ. The hand-off compares no clocks and goes on; ages, "
                    "expectations and what people read from times are off. Look whether both keep their time (NTP).",
                    since=words.clock_text(now),
                    drops=tuple(sorted(view.name for view in views)),
                )
            )
    return found


def little_space(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """Drops on a volume with less than `free_mib` left; critical with less than a tenth of that."""
    found = []
    for view in picture.drops:
        name = f"space:{view.name}"
        limit = limits.free_space * (1 + _SLACK) if name in memory.firing else limits.free_space
        if view.free_space is None or view.trouble or view.free_space >= limit:
            continue
        is_critical = view.free_space < limits.free_space / 10
        found.append(
            Alarm(
                id=name,
                kind="space",
                about=view.name,
                title=f"{view.name}: {words.storage(view.free_space)} left",
                text=f"Less than {words.storage(limits.free_space)} is free where the drop is. What does not fit is not "
                f"published, and waits. Archive after images (after_max_age, after_keep), or make room.",
                since=words.clock_text(now),
                severity="critical" if is_critical else "warning",
                level=int(is_critical),
                drops=(view.name,),
            )
        )
    return found


def parts_in_trouble(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """Parts of the service that cannot do their work, such as a journal on a full disk."""
    del memory, limits
    return [
        Alarm(
            id=f"service:{part}",
            kind="service",
            about=part,
            title=f"{part}: {trouble}",
            text=f"The {part} of this gateway cannot do its work: {trouble}. Items are carried on without it.",
            since=words.clock_text(now),
        )
        for part, trouble in picture.troubles
        if trouble
    ]


def _by_endpoint(picture: Picture) -> dict[str, list[DropView]]:
    """Drops by what answers for them: a server, or the folder itself where it is one of this host."""
    found: defaultdict[str, list[DropView]] = defaultdict(list)
    for view in picture.drops:
        parts = urlsplit(view.place)
        host = parts.netloc.rpartition("@")[2]
        found[f"{parts.scheme}://{host}" if host else view.name].append(view)
    return dict(found)
