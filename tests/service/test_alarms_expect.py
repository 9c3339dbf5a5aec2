"""What should have come: judged once for each period, by the clock on the wall, and neither raised nor lost by a restart."""

import time as system_time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.service.alarms.expect import expectations, last_period
from gateway.service.alarms.limits import limits_of
from gateway.service.alarms.memory import Memory, memory_from
from gateway.service_sections import AlarmsSettings, ExpectSettings
from protocol.snapshot import Listed
from tests.service.alarm_tools import DAY, HOUR, MINUTE, NOON, drop_view, item, picture, snapshot_of

BERLIN = ZoneInfo("Europe/Berlin")


def expect(**more: object) -> ExpectSettings:
    return ExpectSettings.model_validate({"drop": "outbox", "group": "orders_", **more})


BY_SIX = expect(by="06:00", on=["weekdays"], timezone="Europe/Berlin")
OFTEN = expect(every="15m")


def at(text: str) -> float:
    """A moment on the wall in Berlin, "2026-11-30 06:00"."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


class Watched:
    """A drop that is looked at, and what is expected of it. `known` is when dropgate first knew of the expectation."""

    def __init__(self, *wanted: ExpectSettings, known: float = NOON - 30 * DAY, offset: float = 0.0) -> None:
        self.limits = limits_of(AlarmsSettings(), wanted)
        self.memory, self.offset = Memory(), offset
        self.files: list[list[Listed]] = []
        self.look(known)

    def arrive(self, number: int, when: float, mark: str = "") -> None:
        """The item's token was written when the server's clock showed that."""
        self.files.append(item(number, mark, at=when + self.offset))

    def look(self, now: float, *, trouble: str = "") -> list[str]:
        """The alarms of a look at this moment: what each is about, less its settings."""
        view = drop_view(snapshot_of(*self.files), now, clock_offset=self.offset, trouble=trouble)
        return [alarm.id for alarm in expectations(picture(view), self.memory, self.limits, now)]

    def restart(self, now: float) -> None:
        """Only what the file keeps is left."""
        self.memory = memory_from(self.memory.as_record(), now)


# By a time of day.


@pytest.mark.parametrize(
    ("arrived", "looked", "missed"),
    [
        (None, "2026-11-30 05:59", False),
        (None, "2026-11-30 06:00", True),
        ("2026-11-30 05:59", "2026-11-30 06:01", False),
        ("2026-11-30 00:00", "2026-11-30 06:01", False),
        ("2026-11-29 23:59", "2026-11-30 06:01", True),
        ("2026-11-30 09:00", "2026-11-30 08:59", True),
        ("2026-11-30 09:00", "2026-11-30 09:01", False),
        (None, "2026-11-30 23:00", True),
    ],
    ids=["not due", "due", "came", "at midnight", "the day before", "late", "came late", "all day"],
)
def test_one_item_by_six(arrived: str | None, looked: str, missed: bool) -> None:
    drop = Watched(BY_SIX)
    drop.arrive(1, at("2026-11-27 05:00"))
    if arrived is not None and at(arrived) <= at(looked):
        drop.arrive(2, at(arrived))
    assert bool(drop.look(at(looked))) is missed


def test_each_missed_day_is_an_alarm_of_its_own_and_ends_the_one_before() -> None:
    drop = Watched(BY_SIX)
    seen = []
    for hour in range(24 * 7):
        found = drop.look(at("2026-11-30 00:30") + hour * HOUR)
        assert len(found) <= 1
        seen += [one for one in found if one not in seen]
    assert [one.rpartition("@")[2] for one in seen] == [
        "2026-11-27",  # before this week
        *("2026-11-30", "2026-12-01", "2026-12-02", "2026-12-03", "2026-12-04"),
    ]


def test_on_days_that_are_not_named_nothing_is_expected() -> None:
    drop = Watched(expect(by="06:00", on=["sat"], timezone="Europe/Berlin"))
    drop.arrive(1, at("2026-11-28 05:00"))
    for day in range(7):
        assert drop.look(at("2026-11-28 07:00") + day * DAY - HOUR) == []
    assert drop.look(at("2026-12-05 07:00")) != []


def test_after_says_from_when_on_it_counts_also_on_the_evening_before() -> None:
    night = expect(by="06:00", after="22:00", timezone="Europe/Berlin")
    for arrived, missed in (("2026-11-29 21:59", True), ("2026-11-29 22:00", False), ("2026-11-30 01:00", False)):
        drop = Watched(night)
        drop.arrive(1, at(arrived))
        assert bool(drop.look(at("2026-11-30 06:00"))) is missed


def test_so_many_items_as_are_expected() -> None:
    drop = Watched(expect(by="06:00", items=3, timezone="Europe/Berlin"))
    for number in (1, 2):
        drop.arrive(number, at("2026-11-30 05:00"))
    assert drop.look(at("2026-11-30 06:00")) != []
    drop.arrive(3, at("2026-11-30 06:30"))
    assert drop.look(at("2026-11-30 06:31")) == []


@pytest.mark.parametrize("mark", ["", "C_worker-1_", "D_", "A_", "E_"])
def test_an_item_has_arrived_in_every_state_from_ready_on(mark: str) -> None:
    drop = Watched(BY_SIX)
    drop.arrive(1, at("2026-11-30 05:00"), mark)
    assert drop.look(at("2026-11-30 06:00")) == []


def test_an_item_that_is_being_written_has_not_arrived() -> None:
    drop = Watched(BY_SIX)
    drop.arrive(1, at("2026-11-30 05:00"), "B_")
    assert drop.look(at("2026-11-30 06:00")) != []


def test_an_item_of_another_group_is_not_what_was_expected() -> None:
    drop = Watched(BY_SIX)
    drop.files.append(item(1, group="bills_", at=at("2026-11-30 05:00")))
    assert drop.look(at("2026-11-30 06:00")) != []


def test_an_after_image_that_was_archived_has_arrived_all_the_same() -> None:
    drop = Watched(BY_SIX)
    drop.arrive(1, at("2026-11-30 04:00"))
    drop.look(at("2026-11-30 04:01"))
    drop.files.clear()
    drop.restart(at("2026-11-30 05:00"))
    assert drop.look(at("2026-11-30 06:00")) == []


@pytest.mark.parametrize("offset", [-2 * HOUR, 0.0, 2 * HOUR])
def test_a_servers_clock_that_is_off_changes_nothing(offset: float) -> None:
    early, late = Watched(BY_SIX, offset=offset), Watched(BY_SIX, offset=offset)
    early.arrive(1, at("2026-11-30 00:01"))
    late.arrive(1, at("2026-11-29 23:58"))
    assert early.look(at("2026-11-30 06:00")) == []
    assert late.look(at("2026-11-30 06:00")) != []


def test_a_copy_that_keeps_an_old_time_arrived_when_it_came() -> None:
    drop = Watched(BY_SIX)
    drop.look(at("2026-11-30 05:00"))
    drop.arrive(1, at("2026-01-01 00:00"))
    assert drop.look(at("2026-11-30 05:01")) == []
    assert drop.look(at("2026-11-30 06:01")) == []


def test_an_item_without_a_time_arrived_when_it_was_first_seen() -> None:
    drop = Watched(BY_SIX)
    drop.arrive(1, 0.0)
    drop.look(at("2026-11-29 12:00"))
    drop.files.append(item(2, at=None))
    drop.look(at("2026-11-30 05:00"))
    assert drop.look(at("2026-11-30 06:00")) == []
    assert drop.look(at("2026-12-01 06:00")) != []


def test_an_old_item_that_is_seen_again_is_no_new_one() -> None:
    drop = Watched(BY_SIX)
    for number in range(1, 300):
        drop.arrive(number, at("2026-11-27 05:00") + number)
    assert drop.look(at("2026-11-27 06:00")) == []
    assert len(drop.memory.arrivals["outbox", "orders_"].times) < 100
    assert drop.look(at("2026-11-30 06:00")) != []


@pytest.mark.parametrize("came", [True, False])
def test_a_restart_just_before_it_is_due_neither_raises_nor_loses_an_alarm(came: bool) -> None:
    drop = Watched(BY_SIX)
    if came:
        drop.arrive(1, at("2026-11-30 05:58"))
    drop.look(at("2026-11-30 05:58:30"))
    drop.restart(at("2026-11-30 06:01"))
    assert bool(drop.look(at("2026-11-30 06:01"))) is not came


def test_it_is_judged_by_a_look_after_the_end_and_not_by_the_clock_alone() -> None:
    drop = Watched(BY_SIX)
    drop.look(at("2026-11-30 05:00"))
    before = drop_view(snapshot_of(), at("2026-11-30 05:59"))
    late = at("2026-11-30 08:00")
    found = expectations(picture(before), drop.memory, drop.limits, late)
    assert [alarm.id.rpartition("@")[2] for alarm in found] == ["2026-11-27"]
    assert drop.look(late, trouble="Connection refused") == []
    assert [name.rpartition("@")[2] for name in drop.look(late + MINUTE)] == ["2026-11-30"]


@pytest.mark.parametrize(
    ("known", "missed"), [("2026-11-29 12:00", True), ("2026-11-30 00:00", True), ("2026-11-30 00:01", False)]
)
def test_only_a_period_that_began_after_it_was_known_is_judged(known: str, missed: bool) -> None:
    drop = Watched(BY_SIX, known=at(known))
    drop.restart(at("2026-11-30 05:00"))
    assert bool(drop.look(at("2026-11-30 06:00"))) is missed


def test_what_was_changed_is_another_expectation_and_what_is_gone_is_forgotten() -> None:
    drop = Watched(BY_SIX)
    drop.limits = replace(drop.limits, expectations=(BY_SIX.model_copy(update={"by": "07:00"}),))
    assert drop.look(at("2026-11-30 05:00")) == []
    assert drop.look(at("2026-11-30 07:00")) == []
    assert drop.look(at("2026-12-01 07:00")) != []
    drop.limits = replace(drop.limits, expectations=())
    assert drop.look(at("2026-12-01 08:00")) == []
    assert (drop.memory.known, drop.memory.arrivals) == ({}, {})


def test_an_expectation_of_a_drop_that_nobody_looks_at_is_an_alarm_itself() -> None:
    drop = Watched(BY_SIX)
    found = [expectations(picture(), drop.memory, drop.limits, NOON + second) for second in (0, 299, 300)]
    assert [[alarm.id for alarm in one] for one in found] == [[], [], ["expect:outbox:orders_:unwatched"]]
    drop.arrive(1, NOON - HOUR * 8)
    assert drop.look(NOON + 301) == []


# Days when the clock is changed: forward at 02:00 on 2026-03-29, back at 03:00 on 2026-10-25.


@pytest.mark.parametrize(
    ("by", "after", "day", "begin", "end"),
    [
        ("06:00", None, "2026-03-29", "2026-03-28T23:00Z", "2026-03-29T04:00Z"),
        ("06:00", None, "2026-10-25", "2026-10-24T22:00Z", "2026-10-25T05:00Z"),
        ("02:30", None, "2026-03-29", "2026-03-28T23:00Z", "2026-03-29T01:30Z"),  # does not exist
        ("02:30", None, "2026-10-25", "2026-10-24T22:00Z", "2026-10-25T01:30Z"),  # exists twice
        ("06:00", "02:30", "2026-03-29", "2026-03-29T00:30Z", "2026-03-29T04:00Z"),
        ("06:00", "02:30", "2026-10-25", "2026-10-25T00:30Z", "2026-10-25T05:00Z"),
        ("00:00", None, "2026-03-30", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
    ],
)
def test_a_period_on_a_day_when_the_clock_is_changed(by: str, after: str | None, day: str, begin: str, end: str) -> None:
    wanted = expect(by=by, timezone="Europe/Berlin", **({} if after is None else {"after": after}))
    due = datetime.fromisoformat(end)
    period = last_period(wanted, due.timestamp())
    assert period is not None
    assert (period.begin, period.end) == (datetime.fromisoformat(begin).timestamp(), due.timestamp())
    assert period.name == f"@{day}"
    before = last_period(wanted, due.timestamp() - 1)
    assert before is not None
    assert before.name != period.name


@pytest.fixture
def host_in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        system_time.tzset()
        yield
    system_time.tzset()


@pytest.mark.usefixtures("host_in_tokyo")
def test_without_a_zone_the_hosts_own_clock_is_meant() -> None:
    period = last_period(expect(by="06:00"), datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp())
    assert period is not None
    assert datetime.fromtimestamp(period.end, UTC) == datetime(2026, 11, 29, 21, tzinfo=UTC)


TIMES = st.times().map(lambda moment: moment.strftime("%H:%M"))


@settings(deadline=None)
@given(
    by=TIMES,
    after=TIMES | st.none(),
    on=st.lists(st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]), min_size=1),
    moment=st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001 - the strategy wants naive bounds, and adds the zone
)
def test_the_last_period_has_ended_and_no_later_one_has(by: str, after: str | None, on: list[str], moment: datetime) -> None:
    wanted = expect(by=by, on=on, timezone="Europe/Berlin", **({} if after is None else {"after": after}))
    period = last_period(wanted, moment.timestamp())
    assert period is not None
    assert period.begin < period.end <= moment.timestamp()
    assert period.end - period.begin <= 25 * HOUR
    assert moment.timestamp() - period.end <= 7 * DAY + HOUR
    assert last_period(wanted, period.end) == period
    # Each moment up to the present belongs to this one: none has ended in between.
    for part in (0.25, 0.5, 0.75):
        assert last_period(wanted, period.end + part * (moment.timestamp() - period.end)) == period


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.booleans(), min_size=3, max_size=10), st.floats(0, 6 * HOUR - 1), st.sampled_from(["2026-03-23", "2026-10-19"])
)
def test_each_day_without_its_item_is_exactly_one_alarm(came: Sequence[bool], when: float, first: str) -> None:
    """Also over a change of the clock, which is on the last day of each of these weeks."""
    begin = date.fromisoformat(first)
    days = [begin + timedelta(days=number) for number in range(len(came))]
    drop = Watched(expect(by="08:00", timezone="Europe/Berlin"), known=at(f"{first} 00:00") - 1)
    raised: set[str] = set()
    for number, (day, has_come) in enumerate(zip(days, came, strict=True)):
        if has_come:
            drop.arrive(number, at(f"{day} 00:30") + when)
        for clock in ("00:10", "07:59", "08:00", "08:30", "12:00", "23:59"):
            now = at(f"{day} {clock}")
            files = drop.files
            drop.files = [one for one in files if (one[0].modified or 0) <= now]
            raised.update(name.rpartition("@")[2] for name in drop.look(now))
            drop.files = files
            drop.restart(now)
    assert raised == {day.isoformat() for day, has_come in zip(days, came, strict=True) if not has_come}


# Every so often.


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(1, 15 * MINUTE - 10), min_size=5, max_size=30))
def test_items_that_come_often_enough_never_alarm(pauses: Sequence[float]) -> None:
    drop = Watched(OFTEN, known=NOON)
    now = NOON
    for number, pause in enumerate(pauses):
        # Looked at every few minutes, and just before the next one comes.
        for part in (0.3, 0.6, 0.99):
            assert drop.look(now + pause * part) == []
        now += pause
        drop.arrive(number, now)
        assert drop.look(now + 1) == []
        drop.restart(now + 1)


def test_a_silence_is_one_alarm_however_long_it_is() -> None:
    drop = Watched(OFTEN, known=NOON)
    drop.arrive(1, NOON + MINUTE)
    found = [drop.look(NOON + minute * MINUTE) for minute in range(2, 600)]
    assert all(one == [] for one in found[:14])
    assert len(found[15]) == 1
    assert all(one == found[15] for one in found[15:])
    drop.arrive(2, NOON + 600 * MINUTE)
    assert drop.look(NOON + 601 * MINUTE) == []


def test_nothing_is_missed_before_it_was_known_for_as_long() -> None:
    drop = Watched(OFTEN, known=NOON)
    assert drop.look(NOON + 15 * MINUTE - 1) == []
    assert drop.look(NOON + 15 * MINUTE) != []


def test_two_expectations_of_one_group_are_judged_each_by_itself() -> None:
    drop = Watched(OFTEN, BY_SIX, expect(every="2h", items=3))
    for number in (1, 2):
        drop.arrive(number, at("2026-11-30 05:00") + number)
    assert len(drop.look(at("2026-11-30 06:00"))) == 2
    drop.arrive(3, at("2026-11-30 06:01"))
    assert drop.look(at("2026-11-30 06:02")) == []
