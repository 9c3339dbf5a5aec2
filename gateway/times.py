"""Spans, days, times of day, time windows and rates, as a configuration writes them. What cannot be read is a ValueError."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

_SPAN = re.compile(r"(\d+)\s*(s|m|min|h|d)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|KiB|MiB|GiB)/s", re.ASCII)
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00", re.ASCII)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SETS = {"weekdays": _DAYS[:5], "weekend": _DAYS[5:], "daily": _DAYS}
_WEEK = 7 * 24 * 60  # minutes


def span(text: str) -> float:
    """Seconds of "90s", "15m", "2h", "1d"."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no span of time; write 90s, 15m, 2h or 1d")
    return int(found[1]) * float(_SECONDS[found[2]])


def rate(text: str) -> float:
    """Bytes a second of "2 MiB/s", "500 kB/s"."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"{text!r} is no rate; write 500 kB/s or 2 MiB/s")
    return float(found[1]) * _BYTES[found[2]]


def days(texts: list[str]) -> frozenset[int]:
    """Days of the week, Monday being 0, of "mon", "mon-fri", "weekdays" and so on."""
    named: set[int] = set()
    for text in texts:
        first, dash, last = text.lower().partition("-")
        if text.lower() in _SETS:
            named.update(map(_DAYS.index, _SETS[text.lower()]))
        elif first in _DAYS and (not dash or last in _DAYS):
            begin, end = _DAYS.index(first), _DAYS.index(last or first)
            named.update(day % 7 for day in range(begin, (end if end >= begin else end + 7) + 1))
        else:
            raise ValueError(f"{text!r} is no day; write {', '.join((*_DAYS, 'mon-fri', *_SETS))}")
    return frozenset(named)


def clock_time(text: str) -> time:
    """A time of day, "06:00"."""
    if not _TIME.fullmatch(text) or text == "24:00":
        raise ValueError(f"{text!r} is no time of day; write 06:00")
    return time.fromisoformat(text)


def known_zone(name: str) -> str:
    """The name of an IANA time zone, checked."""
    if name not in available_timezones():
        raise ValueError(f"{name!r} is no time zone that this host knows; write one such as Europe/Berlin")
    return name


def at_wall_clock(day: date, at: time, zone: ZoneInfo | None, *, later: bool) -> datetime:
    """The moment, in UTC, at which the clock on the wall shows a time of a day; without a zone, by this host's own clock.

    When the clock is put back some times exist twice: the `later` or the earlier one is given. When it is put forward some do
    not exist: the later one is so many minutes after the change as the time is after its beginning, the earlier one as many
    before it as are left to its end.
    """
    moments = [datetime.combine(day, at, zone).replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
    return max(moments) if later else min(moments)


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the week by the clock on the wall, in minutes of the day; one that ends before it begins goes over midnight."""

    days: frozenset[int]
    begin: int
    end: int

    def holds(self, minute: int) -> bool:
        """Whether a minute of the week, Monday 00:00 being 0, is in it."""
        length = self.end - self.begin if self.end > self.begin else self.end - self.begin + 1440
        return any((minute - (day * 1440 + self.begin)) % _WEEK < length for day in self.days)


def parse_window(text: str) -> Window:
    """ "22:00-06:00" on every day, or "mon-fri 08:00-12:00": from the first minute to the one before the last."""
    *named, hours = text.split() or [""]
    begin, dash, end = hours.partition("-")
    if len(named) > 1 or not dash or not _TIME.fullmatch(begin) or not _TIME.fullmatch(end) or begin in ("24:00", end):
        raise ValueError(f"{text!r} is no time window; write 22:00-06:00 or mon-fri 08:00-12:00")
    return Window(days(named or ["daily"]), _minutes(begin), _minutes(end))


def _minutes(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


def is_open(windows: tuple[Window, ...], now: datetime) -> bool:
    """Whether a moment, in the zone that the windows are meant in, is in one of them; without any it always is."""
    minute = now.weekday() * 1440 + now.hour * 60 + now.minute
    return not windows or any(window.holds(minute) for window in windows)


def next_opening(windows: tuple[Window, ...], now: datetime) -> datetime:
    """The moment itself, if it is in a window; else the next full minute that is, by the clock of the moment's own zone."""
    if is_open(windows, now):
        return now
    # In UTC, which no change of the clock leaps over or repeats.
    moment = now.astimezone(UTC).replace(second=0, microsecond=0)
    while True:
        moment += timedelta(minutes=1)
        if is_open(windows, there := moment.astimezone(now.tzinfo)):
            return there
