"""Rules about what lies in a drop: before files that stand still, ready items nobody takes, error images, gaps.

Ages are taken from the server's clock alone, as each view gives it, or from how long something was watched. No two clocks are
compared.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeVar

from gateway.service.alarms import words
from gateway.service.alarms.alarm import Alarm
from gateway.service.alarms.arrivals import token_time
from gateway.service.alarms.limits import MOST_GROUPS, Limits
from gateway.service.alarms.memory import Memory, ReadyItems, Still
from gateway.service.board import DropView, Picture, RouteState
from protocol.names import ItemId
from protocol.snapshot import ItemView, Snapshot
from protocol.states import State

T = TypeVar("T")

_WATCHED = 60.0  # seconds for which a before file has to be seen at one size, where the limit is longer
_MOST_GAPS = 20  # of one group that are watched


def before_files(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """`B_` files that are older than `before_age` and do not grow."""
    seen: dict[tuple[str, str], Still] = {}
    found = []
    for view, snapshot in _looked(picture):
        stale: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        for item in snapshot.items.values():
            for name, listed in item.files:
                if name.state is not State.BEFORE:
                    continue
                place = (view.name, listed.path)
                last = memory.still.get(place)
                since = now
                if view.name not in memory.seen and _before_id(view, item.item.group) in memory.firing:
                    # Seen to stand still before a restart.
                    since = now - max(limits.before_age, _WATCHED)
                still = seen[place] = last if last is not None and last.size == listed.size else Still(listed.size, since)
                watched = now - still.since
                age = watched if view.server_time is None or listed.modified is None else view.server_time - listed.modified
                if age >= limits.before_age and watched >= min(limits.before_age, _WATCHED):
                    stale[item.item.group].append((age, listed.path))
        memory.seen.add(view.name)
        if limits.before_age:
            found += [_before_alarm(view, group, sorted(files, reverse=True), now) for group, files in _bounded(stale)]
    memory.still = seen
    return found


def _before_id(view: DropView, group: str) -> str:
    return f"before:{view.name}:{group}"


def _before_alarm(view: DropView, group: str, files: list[tuple[float, str]], now: float) -> Alarm:
    age, path = files[0]
    return Alarm(
        id=_before_id(view, group),
        kind="before",
        about=_about(view, group),
        title=f"{_about(view, group)}: {words.many(len(files), 'before file')} left, the oldest for {words.long(age)}",
        text=f"{words.some(path for _, path in files)}: not growing, the oldest since {words.long(age)} by the server's clock. "
        f"Its writer was cut, or stands still. If nobody writes to it any more, send the item again, and remove these files: "
        f"`dropgate sweep --delete` or `--quarantine`. ({path} is the oldest.)",
        since=words.clock_text(now),
        drops=(view.name,),
    )


def ready_items(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """Ready items that nobody has taken for `ready_age`, of any group of a drop that a route takes from or brings to."""
    _note_pauses(picture, memory, now)
    used = {name for route in picture.routes for name in (route.source, *route.destinations)}
    memory.ready = {name: items for name, items in memory.ready.items() if picture.drop(name) is not None}
    found = []
    for view, snapshot in _looked(picture):
        ready = snapshot.in_state(State.READY)
        known = memory.ready.setdefault(view.name, ReadyItems())
        _note_ready(known, view, ready, now)
        if view.server_time is None and not known.is_judged:
            # Seen to wait before a restart, and no clock says for how long.
            for one in ready:
                if _ready_id(view, one.item.group) in memory.firing:
                    known.since[one.item] = now - limits.ready_age
        known.is_judged = True
        if view.name not in used or not limits.ready_age:
            continue
        opened = {group: _opened(picture, memory, view.name, group) for group in sorted({one.item.group for one in ready})}
        waiting: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        for one in ready:
            age = now - max(known.since[one.item], opened[one.item.group])
            if age >= limits.ready_age:
                waiting[one.item.group].append((age, _title(one)))
        found += [_ready_alarm(picture, view, group, max(items), len(items), now) for group, items in _bounded(waiting)]
    return found


def _note_ready(memory: ReadyItems, view: DropView, ready: list[ItemView], now: float) -> None:
    """Since when each item is ready. One that was not at the look before became so after it, however old its token is."""
    if memory.looked == view.looked_at and memory.looked:
        return
    looked = words.moment(view.looked_at).timestamp() if view.looked_at else now
    # Until the server's clock is known, a token's time says nothing; then it also speaks for what was there before.
    before = words.moment(memory.looked).timestamp() if memory.is_timed else -math.inf
    since: dict[ItemId, float] = {}
    for one in ready:
        if memory.is_timed and one.item in memory.since:
            since[one.item] = memory.since[one.item]
            continue
        stamped = token_time(one)
        age = 0.0 if stamped is None or view.server_time is None else max(0.0, view.server_time - stamped)
        fresh = max(before, looked - age)
        since[one.item] = min(memory.since.get(one.item, fresh), fresh)
    memory.looked, memory.since = view.looked_at, since
    memory.is_timed = memory.is_timed or (view.server_time is not None and bool(view.looked_at))


def _note_pauses(picture: Picture, memory: Memory, now: float) -> None:
    for route in picture.routes:
        if route.state is RouteState.PAUSED:
            memory.paused.add(route.title)
            memory.opened.pop(route.title, None)
        elif route.title in memory.paused and route.state is not RouteState.STARTING:
            memory.paused.discard(route.title)
            memory.opened[route.title] = now
    there = {route.title for route in picture.routes}
    if there:
        memory.paused &= there
        memory.opened = {title: time for title, time in memory.opened.items() if title in there}


def _opened(picture: Picture, memory: Memory, drop: str, group: str) -> float:
    """From when on items of a group are taken; never, while each route that takes them is outside its time windows."""
    takers = [route for route in picture.routes if route.source == drop and group in route.groups]
    if takers and all(route.title in memory.paused for route in takers):
        return math.inf
    return max((memory.opened.get(route.title, -math.inf) for route in takers), default=-math.inf)


def _ready_id(view: DropView, group: str) -> str:
    return f"ready:{view.name}:{group}"


def _ready_alarm(picture: Picture, view: DropView, group: str, oldest: tuple[float, str], count: int, now: float) -> Alarm:
    age, item = oldest
    takers = [route for route in picture.routes if route.source == view.name and group in route.groups]
    about = _about(view, group)
    if takers:
        said = "; ".join(f"route {r.title!r} is {r.state.value}{': ' + r.trouble if r.trouble else ''}" for r in takers)
        advice = f"This gateway should take it: {said}."
    else:
        advice = "No route of this gateway takes it: look whether its consumer is running, and whether it takes this group."
    return Alarm(
        id=_ready_id(view, group),
        kind="ready",
        about=about,
        title=f"{about}: {words.many(count, 'ready item')} not taken, the oldest for {words.long(age)}",
        text=f"{item} has been ready for {words.long(age)}. {advice}",
        since=words.clock_text(now),
        drops=(view.name,),
    )


def error_images(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """Error images of a group, `errors` or more. Each doubling of their number is a level: it is told, and is no new alarm."""
    del memory
    if not limits.errors:
        return []
    found = []
    for view, snapshot in _looked(picture):
        failed: defaultdict[str, list[str]] = defaultdict(list)
        for one in snapshot.in_state(State.ERROR):
            failed[one.item.group].append(_title(one))
        enough = {group: items for group, items in failed.items() if len(items) >= limits.errors}
        for group, items in _bounded(enough):
            about = _about(view, group)
            found.append(
                Alarm(
                    id=f"errors:{view.name}:{group}",
                    kind="errors",
                    about=about,
                    title=f"{about}: {words.many(len(items), 'error image')}",
                    text=f"Failed for good: {words.some(reversed(items))}. "
                    f"Each has its reason beside it (E_...reason.json). Mend the cause, then replay or discard them.",
                    since=words.clock_text(now),
                    level=(len(items) // limits.errors).bit_length() - 1,
                    drops=(view.name,),
                )
            )
    return found


def gaps(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """Numbers that a strict route waits for, and that have been missing for `gap_age`."""
    if not limits.gap_age:
        return []
    strict = {(route.source, group) for route in picture.routes if route.ordering == "strict" for group in route.groups}
    found = []
    for view, snapshot in _looked(picture):
        for group in sorted(group for drop, group in strict if drop == view.name):
            missing = snapshot.gaps(group)[:_MOST_GAPS]
            since = [memory.held_since(f"gap:{view.name}:{group}{first}", now, view.name) for first, _ in missing]
            old = [(first, last, at) for (first, last), at in zip(missing, since, strict=True) if now - at >= limits.gap_age]
            if not old:
                continue
            about, (first, last, at) = _about(view, group), old[0]
            numbers = f"number {first} is" if first == last else f"numbers {first} to {last} are"
            more = (
                f", and there {'is' if len(old) == 2 else 'are'} {words.many(len(old) - 1, 'gap')} behind it" if old[1:] else ""
            )
            found.append(
                Alarm(
                    id=f"gap:{view.name}:{group}",
                    kind="gap",
                    about=about,
                    title=f"{about}: {numbers} missing for {words.long(now - at)}",
                    text=f"Of {group!r} {numbers} missing{more}, and a route of strict order waits for it. Ask the producer "
                    f'whether it still comes; on_gap = "skip" makes the route go on without it.',
                    since=words.clock_text(at),
                    severity="critical",
                    drops=(view.name,),
                )
            )
    return found


def _looked(picture: Picture) -> Iterator[tuple[DropView, Snapshot]]:
    """Drops that were seen, and whose last look did not fail."""
    for view in picture.drops:
        if view.snapshot is not None and not view.trouble:
            yield view, view.snapshot


def _title(view: ItemView) -> str:
    """An item as people write it: group and number."""
    name, listed = view.files[0]
    last = listed.path.rpartition("/")[2].removesuffix(f".{name.suffix}")
    # No group begins with a capital letter and "_".
    return last.removeprefix(f"{name.state.value}_") if name.state.value else last


def _about(view: DropView, group: str) -> str:
    return f"{view.name}/{group}" if group else view.name


def _bounded(by_group: Mapping[str, T]) -> list[tuple[str, T]]:
    """The first groups by name: a stranger can make any number of them, and what is told of fifty is told."""
    return sorted(by_group.items(), key=lambda pair: pair[0])[:MOST_GROUPS]
