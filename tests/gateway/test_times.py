"""Spans, rates, days, times of day and time windows: what a configuration writes is what is meant, on every day of the year."""

import time as system_time
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.times import (
    Window,
    at_wall_clock,
    clock_time,
    days,
    is_open,
    known_zone,
    next_opening,
    parse_window,
    rate,
    span,
)

BERLIN = ZoneInfo("Europe/Berlin")  # puts its clock forward at 02:00 on 2026-03-29, and back at 03:00 on 2026-10-25
MON, TUE, WED, THU, FRI, SAT, SUN = range(7)
NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONDAY = datetime(2026, 11, 30, tzinfo=BERLIN)


@pytest.fixture
def host_in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This host's own clock is that of Berlin."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        system_time.tzset()
        yield
    system_time.tzset()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("15 min", 900), ("2h", 7200), (" 1d ", 86400), ("0s", 0), ("07m", 420)],
)
def test_a_span_is_so_many_seconds(text: str, seconds: float) -> None:
    assert span(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "m", "-1m", "1.5h", "1h30m", "1 w", "15M", "\u0661\u0665m", "15m\n1s"])
def test_what_is_no_span_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s, 15m, 2h or 1d"):
        span(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("2 MiB/s", 2 * 2**20), ("500 kB/s", 500_000), ("1.5GB/s", 1.5e9), ("1 B/s", 1), ("0.5 KiB/s", 512)],
)
def test_a_rate_is_so_many_bytes_a_second(text: str, amount: float) -> None:
    assert rate(text) == amount


@pytest.mark.parametrize("text", ["", "2 MiB", "2 Mib/s", "0 kB/s", "-1 kB/s", "fast", "1e3 kB/s", "2 MiB/h", ".5 kB/s"])
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write 500 kB/s or 2 MiB/s"):
        rate(text)


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["daily"], {MON, TUE, WED, THU, FRI, SAT, SUN}),
        (["weekdays"], {MON, TUE, WED, THU, FRI}),
        (["weekend"], {SAT, SUN}),
        (["mon", "Wed"], {MON, WED}),
        (["fri-mon"], {FRI, SAT, SUN, MON}),
        (["tue-tue"], {TUE}),
        (["weekend", "mon-tue"], {SAT, SUN, MON, TUE}),
        ([], set()),
    ],
)
def test_days_are_named_one_by_one_by_range_and_by_set(texts: list[str], wanted: set[int]) -> None:
    assert days(texts) == wanted


@pytest.mark.parametrize("text", ["", "monday", "mon-", "-mon", "mon-fri-sun", "weekdays-sun", "mo"])
def test_what_is_no_day_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(ValueError, match="is no day; write mon, tue"):
        days([text])


@settings(deadline=None)
@given(st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_a_range_of_days_goes_on_over_the_week_end(first: str, last: str) -> None:
    found = days([f"{first}-{last}"])
    begin, end = NAMES.index(first), NAMES.index(last)
    assert {begin, end} <= found
    assert len(found) == (end - begin) % 7 + 1


@pytest.mark.parametrize("text", ["06:00", "00:00", "23:59"])
def test_a_time_of_day_is_read_as_it_is_written(text: str) -> None:
    assert clock_time(text).strftime("%H:%M") == text


@pytest.mark.parametrize("text", ["24:00", "6:00", "06:60", "06", "06:00:00", "0600", "noon", "\uff10\uff16:00"])
def test_what_is_no_time_of_day_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write 06:00"):
        clock_time(text)


@pytest.mark.parametrize("name", ["Europe/Nowhere", "", "../etc/passwd", "CEST+1"])
def test_a_zone_that_this_host_does_not_know_is_refused(name: str) -> None:
    assert known_zone("Europe/Berlin") == "Europe/Berlin"
    with pytest.raises(ValueError, match="no time zone"):
        known_zone(name)


@pytest.mark.parametrize(
    "text", ["", "08:00", "8:00-12:00", "08:00-08:00", "24:00-01:00", "mon 08:00", "mon tue 08:00-09:00", "08:00 - 12:00", "-"]
)
def test_what_is_no_window_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_window(text)


@pytest.mark.parametrize(
    ("text", "day", "at", "open_"),
    [
        ("08:00-12:00", MON, "07:59", False),
        ("08:00-12:00", MON, "08:00", True),
        ("08:00-12:00", MON, "11:59", True),
        ("08:00-12:00", MON, "12:00", False),
        ("18:00-24:00", SUN, "23:59", True),
        ("18:00-24:00", MON, "00:00", False),
        ("22:00-06:00", MON, "05:59", True),
        ("22:00-06:00", MON, "06:00", False),
        ("22:00-06:00", MON, "22:00", True),
        # The days are those on which a window begins.
        ("sun 22:00-06:00", MON, "05:59", True),
        ("sun 22:00-06:00", SUN, "05:59", False),
        ("mon-fri 22:00-06:00", SAT, "01:00", True),
        ("mon-fri 22:00-06:00", MON, "01:00", False),
        ("weekend 00:00-24:00", FRI, "23:59", False),
        ("weekend 00:00-24:00", SUN, "12:00", True),
    ],
)
def test_a_window_is_open_from_its_first_minute_to_the_one_before_its_last(text: str, day: int, at: str, open_: bool) -> None:
    moment = datetime.combine(MONDAY.date() + timedelta(days=day), time.fromisoformat(at), BERLIN)
    assert is_open((parse_window(text),), moment) is open_


def test_without_windows_it_is_always_open() -> None:
    assert is_open((), MONDAY)
    assert next_opening((), MONDAY) == MONDAY


WINDOWS = st.builds(
    Window,
    st.frozensets(st.integers(0, 6), min_size=1),
    st.integers(0, 1439),
    st.integers(1, 1440),
).filter(lambda window: window.begin != window.end)
MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(BERLIN))  # noqa: DTZ001 - the strategy wants naive bounds, and adds the zone


@settings(deadline=None)
@given(WINDOWS, st.integers(0, 7 * 1440 - 1))
def test_a_window_holds_for_its_length_on_each_of_its_days(window: Window, offset: int) -> None:
    length = (window.end - window.begin) % 1440
    minutes = {(day * 1440 + window.begin + n) % (7 * 1440) for day in window.days for n in range(length or 1440)}
    assert window.holds(offset) is (offset in minutes)


@settings(max_examples=30, deadline=None)
@given(st.lists(WINDOWS, min_size=1, max_size=3).map(tuple), MOMENTS)
def test_the_next_opening_is_the_first_moment_that_is_open(windows: tuple[Window, ...], now: datetime) -> None:
    opening = next_opening(windows, now)
    assert is_open(windows, opening)
    assert opening.astimezone(UTC) >= now.astimezone(UTC)
    if opening != now:
        assert not is_open(windows, now)
        before = (opening.astimezone(UTC) - timedelta(minutes=1)).astimezone(BERLIN)
        assert before < now or not is_open(windows, before)


def test_a_window_that_the_clock_leaps_over_opens_on_the_next_day() -> None:
    windows = (parse_window("02:00-03:00"),)
    evening = datetime(2026, 3, 28, 20, 0, tzinfo=BERLIN)
    assert next_opening(windows, evening) == datetime(2026, 3, 30, 2, 0, tzinfo=BERLIN)


def test_a_window_of_an_hour_that_comes_twice_opens_twice() -> None:
    windows = (parse_window("02:00-02:30"),)
    between = datetime(2026, 10, 25, 2, 45, tzinfo=BERLIN, fold=0)
    opening = next_opening(windows, between)
    assert opening.astimezone(UTC) == datetime(2026, 10, 25, 1, 0, tzinfo=UTC)


CHANGES = [
    # A time that does not exist, and one that exists twice.
    (date(2026, 3, 29), "02:30", "2026-03-29T00:30Z", "2026-03-29T01:30Z"),
    (date(2026, 10, 25), "02:30", "2026-10-25T00:30Z", "2026-10-25T01:30Z"),
    # Days on which nothing is special, and the hours beside the changes.
    (date(2026, 3, 28), "02:30", "2026-03-28T01:30Z", "2026-03-28T01:30Z"),
    (date(2026, 3, 29), "06:00", "2026-03-29T04:00Z", "2026-03-29T04:00Z"),
    (date(2026, 10, 25), "06:00", "2026-10-25T05:00Z", "2026-10-25T05:00Z"),
]


@pytest.mark.parametrize(("day", "at", "earlier", "later"), CHANGES)
def test_a_time_of_day_is_a_moment_also_on_days_when_the_clock_is_changed(day: date, at: str, earlier: str, later: str) -> None:
    assert at_wall_clock(day, clock_time(at), BERLIN, later=False) == datetime.fromisoformat(earlier)
    assert at_wall_clock(day, clock_time(at), BERLIN, later=True) == datetime.fromisoformat(later)


@pytest.mark.usefixtures("host_in_berlin")
@pytest.mark.parametrize(("day", "at", "earlier", "later"), CHANGES)
def test_without_a_zone_the_hosts_own_clock_is_meant(day: date, at: str, earlier: str, later: str) -> None:
    assert at_wall_clock(day, clock_time(at), None, later=False) == datetime.fromisoformat(earlier)
    assert at_wall_clock(day, clock_time(at), None, later=True) == datetime.fromisoformat(later)


@settings(deadline=None)
@given(st.dates(date(2000, 1, 1), date(2037, 12, 31)), st.times().map(lambda t: t.replace(second=0, microsecond=0)))
def test_the_earlier_moment_is_never_after_the_later_one_and_both_are_within_an_hour(day: date, at: time) -> None:
    earlier = at_wall_clock(day, at, BERLIN, later=False)
    later = at_wall_clock(day, at, BERLIN, later=True)
    assert timedelta() <= later - earlier <= timedelta(hours=1)
