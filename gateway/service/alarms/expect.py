"""Expectations: what should have come into a group by a time of day, or within each span of time.

    by      a period ends at `by` on each of the days `on`, and begins at the last `after` (midnight, unless given) before it.
            Fewer than `items` since its beginning, once it has ended: an alarm, one for each period, until they have come
            or the next period has ended.
    every   fewer than `items` within the last `every`: an alarm, one for each silence, until enough has come.

Times of day are by the clock on the wall in `timezone`. On a day when the clock is changed, a time that does not exist is so
many minutes after the change, and of a time that exists twice the later one ends a period and the earlier one begins it: a
change of the clock makes no alarm.

A period is judged by a look that began after its end, and only if it began after the expectation was first known.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from gateway.service.alarms import words
from gateway.service.alarms.alarm import Alarm
from gateway.service.alarms.arrivals import Arrivals
from gateway.service.alarms.limits import Limits
from gateway.service.alarms.memory import Memory
from gateway.service.board import DropView, Picture
from gateway.service_sections import ExpectSettings
from gateway.times import at_wall_clock, clock_time, days, span

_UNWATCHED = 300.0  # seconds after which a drop that is on no board is not looked at


@dataclass(frozen=True, slots=True)
class Period:
    """From when to when items count, and how it is named; in seconds since the epoch."""

    begin: float
    end: float
    name: str


def last_period(expect: ExpectSettings, moment: float) -> Period | None:
    """The last period of an expectation that had ended at a moment; none where no day of it has."""
    if expect.every is not None:
        return Period(moment - span(expect.every), moment, "")
    due, after = clock_time(expect.by or "00:00"), clock_time(expect.after or "00:00")
    zone = ZoneInfo(expect.timezone) if expect.timezone else None
    today = datetime.fromtimestamp(moment, UTC).astimezone(zone).date()
    wanted = days(expect.on)
    for back in range(-1, 9):
        day = today - timedelta(days=back)
        end = at_wall_clock(day, due, zone, later=True)
        if day.weekday() in wanted and end.timestamp() <= moment:
            begin = at_wall_clock(_begins_on(day, due, after), after, zone, later=False)
            return Period(begin.timestamp(), end.timestamp(), f"@{day.isoformat()}")
    return None


def _begins_on(day: date, due: time, after: time) -> date:
    return day if after < due else day - timedelta(days=1)


def key_of(expect: ExpectSettings) -> str:
    """What an expectation is known by. One with other settings is another one."""
    when = f"every {expect.every}" if expect.every is not None else f"by {expect.by} on {','.join(expect.on)}"
    rest = "".join(f" {word} {value}" for word, value in (("after", expect.after), ("in", expect.timezone)) if value)
    return f"{expect.drop}:{expect.group}:{expect.items} {when}{rest}"


def expectations(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """What should have come and has not."""
    memory.known = {key: memory.known.get(key, now) for key in map(key_of, limits.expectations)}
    needed: dict[tuple[str, str], int] = {}
    for expect in limits.expectations:
        place = (expect.drop, expect.group)
        needed[place] = max(expect.items, needed.get(place, 0))
    memory.arrivals = {place: memory.arrivals.get(place, Arrivals()) for place in needed}
    found = []
    for (drop, group), arrivals in memory.arrivals.items():
        view = picture.drop(drop)
        unseen = f"unwatched:{drop}"
        if view is None:
            if now - memory.held_since(unseen, now) >= _UNWATCHED:
                found.append(_unwatched(drop, group, now))
            continue
        memory.ended(unseen)
        if view.snapshot is None or view.trouble or not view.looked_at:
            continue
        looked = words.moment(view.looked_at).timestamp()
        if looked != arrivals.looked:
            arrivals.see(view.snapshot, group, looked, view.clock_offset or 0.0, needed[drop, group])
        for expect in limits.expectations:
            if (expect.drop, expect.group) == (drop, group):
                found += _judged(expect, arrivals, view, memory.known[key_of(expect)], min(looked, now), now)
    return found


def _unwatched(drop: str, group: str, now: float) -> Alarm:
    """An expectation that is never judged must not look like one that is met."""
    about = f"{drop}/{group}" if group else drop
    return Alarm(
        id=f"expect:{drop}:{group}:unwatched",
        kind="expect",
        about=about,
        title=f"{about}: something is expected, and the drop is not looked at",
        text=f"[[expect]] names the drop {drop}, which no route uses, so nothing is known of it. Give it a route, or take the "
        f"expectation out of the configuration.",
        since=words.clock_text(now),
        drops=(drop,),
    )


def _judged(expect: ExpectSettings, arrivals: Arrivals, view: DropView, known: float, looked: float, now: float) -> list[Alarm]:
    period = last_period(expect, looked)
    if period is None or period.begin < known:
        return []
    came = arrivals.count_since(period.begin)
    if came >= expect.items:
        return []
    about = f"{expect.drop}/{expect.group}" if expect.group else expect.drop
    wanted = words.many(expect.items, "item")
    if expect.every is not None:
        title = f"{about}: {came or 'nothing'} within {words.long(span(expect.every))}, expected {wanted}"
    else:
        title = f"{about}: {came or 'nothing'} by {expect.by}, expected {wanted}"
    last = max(arrivals.times.values(), default=None)
    known_last = "none has been seen so far" if last is None else f"the last one came at {words.clock_text(last)}"
    return [
        Alarm(
            id=f"expect:{key_of(expect)}{period.name}",
            kind="expect",
            about=about,
            title=title,
            text=f"Expected {wanted} of {expect.group!r} in drop {view.name} since {words.clock_text(period.begin)}; "
            f"{came or 'none'} came; {known_last}. Ask the producer, or look whether it can reach the drop.",
            since=words.clock_text(period.end if expect.by is not None else now),
            drops=(view.name,),
        )
    ]
