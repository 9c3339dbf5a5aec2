"""What each rule takes for wrong, and what not: tables of pictures of the board."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.service.alarms.contents import before_files, error_images, gaps, ready_items
from gateway.service.alarms.limits import Limits
from gateway.service.alarms.memory import Memory, memory_from
from gateway.service.alarms.places import clock_offsets, dead_endpoints, held_routes, little_space, parts_in_trouble
from gateway.service.board import DropView, Picture, RouteState
from protocol.snapshot import Snapshot
from tests.service.alarm_tools import DAY, HOUR, MINUTE, NOON, drop_view, iso, item, picture, route_view, snapshot_of

LIMITS = Limits(
    before_age=HOUR,
    ready_age=15 * MINUTE,
    errors=1,
    gap_age=15 * MINUTE,
    away_age=2 * MINUTE,
    clock_offset=MINUTE,
    free_space=512 * 2**20,
)
OFF = Limits(before_age=0, ready_age=0, errors=0, gap_age=0, away_age=0, clock_offset=0, free_space=0)


class Looks:
    """One rule, shown one picture after the other."""

    def __init__(self, rule: Callable[..., Any], limits: Limits = LIMITS) -> None:
        self.rule, self.limits, self.memory = rule, limits, Memory()

    def ids(self, picture: Picture, now: float) -> list[str]:
        found = [alarm.id for alarm in self.rule(picture, self.memory, self.limits, now)]
        self.memory.forget(now, lambda name: picture.drop(name) is not None)
        self.memory.firing = frozenset(found)
        return found

    def restart(self, now: float) -> None:
        """Only what the file keeps is left."""
        firing = self.memory.firing
        self.memory = memory_from(self.memory.as_record(), now)
        self.memory.firing = firing


# Before files.


@pytest.mark.parametrize(
    ("age", "stale"), [(0, False), (HOUR - 1, False), (HOUR, True), (3 * DAY, True)], ids=["new", "young", "old", "days"]
)
def test_a_before_file_is_stale_by_the_servers_clock(age: float, stale: bool) -> None:
    looks = Looks(before_files)
    # The server's clock is a day ahead of ours, and so are its files.
    there = snapshot_of(item(1, "B_", at=NOON + DAY - age))
    looks.ids(picture(drop_view(there, server_time=NOON + DAY)), NOON)
    later = picture(drop_view(there, NOON + MINUTE, server_time=NOON + DAY))
    assert looks.ids(later, NOON + MINUTE) == (["before:outbox:orders_"] if stale else [])


def test_a_before_file_that_grows_is_not_stale_though_its_time_is_old() -> None:
    looks = Looks(before_files)
    grown = snapshot_of(item(1, "B_", at=NOON - 2 * HOUR))
    for minute in range(10):
        now = NOON + minute * MINUTE
        grown = snapshot_of(item(1, "B_", at=NOON - 2 * HOUR, size=10 + minute))
        assert looks.ids(picture(drop_view(grown, now)), now) == []
    end = NOON + 10 * MINUTE
    assert looks.ids(picture(drop_view(grown, end)), end + MINUTE) == ["before:outbox:orders_"]


def test_where_the_servers_clock_is_not_known_it_counts_how_long_the_file_was_watched() -> None:
    looks = Looks(before_files)
    there = snapshot_of(item(1, "B_", at=NOON - 3 * DAY))
    assert looks.ids(picture(drop_view(there, server_time=None)), NOON) == []
    assert looks.ids(picture(drop_view(there, server_time=None)), NOON + HOUR - 1) == []
    assert looks.ids(picture(drop_view(there, server_time=None)), NOON + HOUR) == ["before:outbox:orders_"]


@pytest.mark.parametrize("server_time", [NOON, None])
def test_a_stale_before_file_is_stale_after_a_restart(server_time: float | None) -> None:
    looks = Looks(before_files)
    there = picture(drop_view(snapshot_of(item(1, "B_", at=NOON - DAY)), server_time=server_time))
    looks.ids(there, NOON)
    assert looks.ids(there, NOON + HOUR)
    looks.restart(NOON + HOUR + MINUTE)
    assert looks.ids(there, NOON + HOUR + MINUTE)


def test_each_group_has_its_own_alarm_about_before_files() -> None:
    looks = Looks(before_files)
    there = snapshot_of(item(1, "B_", at=0.0), item(1, "B_", group="bills_", at=0.0), item(2, "B_", at=NOON))
    looks.ids(picture(drop_view(there)), NOON)
    assert looks.ids(picture(drop_view(there)), NOON + MINUTE) == ["before:outbox:bills_", "before:outbox:orders_"]


# Ready items.

READY = ["ready:outbox:orders_"]


@pytest.mark.parametrize(
    ("age", "routes", "wanted"),
    [
        (14 * MINUTE, (route_view(),), []),
        (15 * MINUTE, (route_view(),), READY),
        (15 * MINUTE, (route_view(source="elsewhere", destinations=("outbox",)),), READY),
        (15 * MINUTE, (route_view(groups=("bills_",)),), READY),
        (15 * MINUTE, (route_view(source="elsewhere"),), []),
        (15 * MINUTE, (), []),
        (15 * MINUTE, (route_view(state=RouteState.AWAY),), READY),
        (15 * MINUTE, (route_view(state=RouteState.PAUSED),), []),
    ],
    ids=["young", "old", "at the destination", "of another group", "of no route", "no route", "away", "paused"],
)
def test_a_ready_item_that_nobody_takes(age: float, routes: Any, wanted: list[str]) -> None:
    view = drop_view(snapshot_of(item(1, at=NOON + DAY - age)), server_time=NOON + DAY)
    assert Looks(ready_items).ids(picture(view, routes=routes), NOON) == wanted


@pytest.mark.parametrize("mark", ["B_", "C_worker-1_", "D_", "A_", "E_"])
def test_an_item_in_another_state_is_not_ready(mark: str) -> None:
    view = drop_view(snapshot_of(item(1, mark, at=0.0)))
    assert Looks(ready_items).ids(picture(view, routes=(route_view(),)), NOON) == []


def test_an_item_that_became_ready_while_we_looked_is_as_old_as_that_whatever_its_time_says() -> None:
    """A replay, and a copy that keeps the time of its original."""
    looks, routes = Looks(ready_items), (route_view(),)
    looks.ids(picture(drop_view(snapshot_of(item(1, "A_", at=NOON - DAY))), routes=routes), NOON)
    replayed = snapshot_of(item(1, at=NOON - DAY))
    for minute, wanted in ((1, []), (14, []), (16, READY)):
        now = NOON + minute * MINUTE
        assert looks.ids(picture(drop_view(replayed, now), routes=routes), now) == wanted


def test_an_item_that_is_taken_and_given_back_is_not_one_that_nobody_takes() -> None:
    looks, routes = Looks(ready_items), (route_view(),)
    for minute in range(60):
        now = NOON + minute * MINUTE
        mark = "C_worker-1_" if minute % 10 == 0 else ""
        assert looks.ids(picture(drop_view(snapshot_of(item(1, mark, at=NOON)), now), routes=routes), now) == []


def test_when_its_time_window_opens_a_route_has_time_to_take_what_waits() -> None:
    looks = Looks(ready_items)
    there = snapshot_of(item(1, at=NOON - 10 * HOUR))
    paused, running = route_view(state=RouteState.PAUSED), route_view()
    assert looks.ids(picture(drop_view(there), routes=(paused,)), NOON) == []
    looks.restart(NOON)
    for minute, wanted in ((1, []), (15, []), (16, READY)):
        now = NOON + minute * MINUTE
        assert looks.ids(picture(drop_view(there, now), routes=(running,)), now) == wanted
        looks.restart(now)


def test_a_ready_item_that_was_old_is_old_after_a_restart_also_before_the_servers_clock_is_known() -> None:
    looks, routes = Looks(ready_items), (route_view(),)
    there = snapshot_of(item(1, at=NOON - HOUR))
    assert looks.ids(picture(drop_view(there, server_time=None), routes=routes), NOON) == []
    later = NOON + 5
    assert looks.ids(picture(drop_view(there, later), routes=routes), later) == READY


# Error images.


@pytest.mark.parametrize(
    ("count", "limit", "level"),
    [(0, 1, None), (1, 1, 0), (2, 1, 1), (3, 1, 1), (4, 1, 2), (100, 1, 6), (4, 5, None), (5, 5, 0), (9, 5, 0), (10, 5, 1)],
)
def test_error_images_are_told_from_the_limit_on_and_again_whenever_they_double(
    count: int, limit: int, level: int | None
) -> None:
    view = drop_view(snapshot_of(*(item(number, "E_") for number in range(count))))
    limits = Limits(**{name: getattr(LIMITS, name) for name in Limits.__slots__} | {"errors": limit})
    found = error_images(picture(view), Memory(), limits, NOON)
    assert [alarm.level for alarm in found] == ([] if level is None else [level])


def test_items_are_named_as_people_write_them() -> None:
    view = drop_view(snapshot_of(*(item(number, "E_") for number in range(1, 6)), item(6)))
    errors = error_images(picture(view), Memory(), LIMITS, NOON)
    assert errors[0].text.startswith("Failed for good: orders_0000000005, orders_0000000004, orders_0000000003 and 2 more.")
    ready = ready_items(picture(view, routes=(route_view(),)), Memory(), LIMITS, NOON + HOUR)
    assert ready[0].text.startswith("orders_0000000006 has been ready for 1 h.")


def test_of_a_flood_of_groups_only_so_many_have_alarms() -> None:
    view = drop_view(snapshot_of(*(item(1, "E_", group=f"g{number}_") for number in range(500))))
    assert len(error_images(picture(view), Memory(), LIMITS, NOON)) == 50


# Gaps.


def with_gap() -> Snapshot:
    return snapshot_of(item(1, "A_"), item(2, "A_"), item(5), item(6), item(9))


@pytest.mark.parametrize(
    ("route", "wanted"),
    [
        (route_view(ordering="strict"), ["gap:outbox:orders_"]),
        (route_view(ordering="fifo"), []),
        (route_view(ordering=""), []),
        (route_view(ordering="strict", groups=("bills_",)), []),
        (route_view(ordering="strict", source="elsewhere", destinations=("outbox",)), []),
    ],
    ids=["strict", "fifo", "not said", "another group", "the destination"],
)
def test_a_number_that_a_strict_route_waits_for(route: Any, wanted: list[str]) -> None:
    looks = Looks(gaps)
    for seconds in (0, 14 * MINUTE, 15 * MINUTE - 1):
        assert looks.ids(picture(drop_view(with_gap(), NOON + seconds), routes=(route,)), NOON + seconds) == []
    end = NOON + 15 * MINUTE
    assert looks.ids(picture(drop_view(with_gap(), end), routes=(route,)), end) == wanted


def test_a_gap_is_as_old_after_a_restart_as_before() -> None:
    looks, routes = Looks(gaps), (route_view(ordering="strict"),)
    looks.ids(picture(drop_view(with_gap()), routes=routes), NOON)
    looks.restart(NOON + HOUR)
    assert looks.ids(picture(drop_view(with_gap(), NOON + HOUR), routes=routes), NOON + HOUR) == ["gap:outbox:orders_"]


def test_a_number_that_came_or_is_being_written_is_missing_no_more() -> None:
    looks, routes = Looks(gaps), (route_view(ordering="strict"),)
    filled = snapshot_of(item(2, "A_"), item(3, "B_"), item(4), item(5))
    looks.ids(picture(drop_view(with_gap()), routes=routes), NOON)
    assert looks.ids(picture(drop_view(filled, NOON + HOUR), routes=routes), NOON + HOUR) == []


# Endpoints and routes.


def away(name: str = "outbox", since: float = NOON - 5 * MINUTE, place: str = "sftp://files.example/out") -> DropView:
    return drop_view(None, NOON, name, place=place, trouble="Connection refused", away_since=iso(since))


def fine(name: str, place: str = "sftp://files.example/out") -> DropView:
    return drop_view(snapshot_of(), NOON, name, place=place)


@pytest.mark.parametrize(
    ("drops", "wanted"),
    [
        ((away(since=NOON - 1 * MINUTE),), []),
        ((away(since=NOON - 2 * MINUTE),), ["away:sftp://files.example"]),
        ((away("a"), away("b")), ["away:sftp://files.example"]),
        ((away("a"), fine("b")), ["away:a"]),
        ((away("a"), away("b", place="smb://nas.example/x")), ["away:sftp://files.example", "away:smb://nas.example"]),
        ((away(place="sftp://files.example:2222/out"), fine("b")), ["away:sftp://files.example:2222"]),
        ((away("a", place="file:///srv/a"), fine("b", "file:///srv/b")), ["away:a"]),
        ((fine("a"), drop_view(None, looked_at="", name="b")), []),
    ],
    ids=["just now", "long", "one server", "one folder", "two servers", "two ports", "local folders", "not looked at yet"],
)
def test_endpoints_that_do_not_answer(drops: tuple[DropView, ...], wanted: list[str]) -> None:
    assert Looks(dead_endpoints).ids(picture(*drops), NOON) == wanted


def test_an_endpoint_that_answers_now_and_then_is_away_since_it_last_did() -> None:
    looks = Looks(dead_endpoints)
    for minute in range(30):
        now = NOON + minute * MINUTE
        view = away(since=now) if minute % 2 else drop_view(snapshot_of(), now)
        assert looks.ids(picture(view), now) == []


def test_a_dead_endpoint_is_dead_after_a_restart_though_our_watch_began_anew() -> None:
    looks = Looks(dead_endpoints)
    assert looks.ids(picture(away()), NOON) == ["away:sftp://files.example"]
    looks.restart(NOON + 1)
    assert looks.ids(picture(away(since=NOON + 1)), NOON + 130) == ["away:sftp://files.example"]
    looks.restart(NOON + 131)
    assert looks.ids(picture(away(since=NOON + 132)), NOON + 132) == ["away:sftp://files.example"]


@pytest.mark.parametrize(
    ("route", "drops", "wanted"),
    [
        (route_view(state=RouteState.FAILED, trouble="login refused"), (), ["failed:outbox -> inbox"]),
        (route_view(state=RouteState.RUNNING), (), []),
        (route_view(state=RouteState.STOPPED), (), []),
        (route_view(state=RouteState.AWAY), (), ["away:outbox -> inbox:outbox"]),
        (route_view(state=RouteState.AWAY), (away("outbox"),), []),
        (route_view(state=RouteState.AWAY), (away("inbox"),), []),
        (route_view(state=RouteState.AWAY), (away("elsewhere"),), ["away:outbox -> inbox:outbox"]),
        (route_view(away=("inbox",)), (), ["away:outbox -> inbox:inbox"]),
        (route_view(away=("inbox",)), (away("inbox"),), []),
        (route_view(away=("inbox",)), (away("outbox"),), ["away:outbox -> inbox:inbox"]),
    ],
    ids=["failed", "fine", "stopped", "away", "source", "destination", "other", "one away", "known", "not that one"],
)
def test_routes_that_stand_still(route: Any, drops: tuple[DropView, ...], wanted: list[str]) -> None:
    looks = Looks(held_routes)
    at_once = looks.ids(picture(*drops, routes=(route,)), NOON)
    assert at_once == [name for name in wanted if name.startswith("failed")]
    looks.ids(picture(*drops, routes=(route,)), NOON + MINUTE)
    assert looks.ids(picture(*drops, routes=(route,)), NOON + 2 * MINUTE) == wanted


@pytest.mark.parametrize(
    ("offset", "fires", "stays"),
    [(None, False, False), (50, False, False), (-50, False, False), (55, False, True), (60, False, True), (61, True, True)],
)
def test_a_clock_that_is_off_has_to_come_well_below_the_limit(offset: float | None, fires: bool, stays: bool) -> None:
    name = ["clock:sftp://files.example"]
    looks = Looks(clock_offsets)
    assert looks.ids(picture(drop_view(snapshot_of(), clock_offset=offset)), NOON) == (name if fires else [])
    assert looks.ids(picture(drop_view(snapshot_of(), clock_offset=-3600)), NOON) == name
    assert looks.ids(picture(drop_view(snapshot_of(), clock_offset=offset)), NOON) == (name if stays else [])


@pytest.mark.parametrize(
    ("mib", "fires", "stays"),
    [(None, False, False), (600, False, False), (550, False, True), (512, False, True), (511, True, True)],
)
def test_space_has_to_come_well_above_the_limit(mib: int | None, fires: bool, stays: bool) -> None:
    looks = Looks(little_space)
    view = drop_view(snapshot_of(), free_space=None if mib is None else mib * 2**20)
    assert looks.ids(picture(view), NOON) == (["space:outbox"] if fires else [])
    assert looks.ids(picture(drop_view(snapshot_of(), free_space=1)), NOON) == ["space:outbox"]
    assert looks.ids(picture(view), NOON) == (["space:outbox"] if stays else [])


def test_almost_no_space_is_critical() -> None:
    found = [
        little_space(picture(drop_view(snapshot_of(), free_space=mib * 2**20)), Memory(), LIMITS, NOON)[0] for mib in (500, 51)
    ]
    assert [(one.severity, one.level) for one in found] == [("warning", 0), ("critical", 1)]


def test_a_part_of_the_service_in_trouble_is_an_alarm() -> None:
    shown = picture(troubles=(("journal", "No space left on device"), ("metrics", "")))
    assert Looks(parts_in_trouble).ids(shown, NOON) == ["service:journal"]


EVERYTHING = picture(
    drop_view(snapshot_of(item(1, "A_"), item(3), item(4, "E_"), item(9, "B_", at=0.0)), free_space=1, clock_offset=9e6),
    away("inbox", place="smb://nas.example/in"),
    routes=(route_view(ordering="strict", away=("inbox",)),),
)
RULES = [before_files, ready_items, error_images, gaps, dead_endpoints, clock_offsets, little_space]


@pytest.mark.parametrize("rule", [*RULES, held_routes], ids=lambda rule: rule.__name__)
def test_a_limit_of_nothing_switches_a_rule_off(rule: Callable[..., Any]) -> None:
    looks = Looks(rule, OFF)
    assert [looks.ids(EVERYTHING, NOON + n * DAY) for n in range(3)] == [[], [], []]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_an_alarm_says_what_is_known_and_what_to_do(rule: Callable[..., Any]) -> None:
    memory = Memory()
    rule(EVERYTHING, memory, LIMITS, NOON)
    found = rule(EVERYTHING, memory, LIMITS, NOON + HOUR)
    assert len(found) == 1
    assert found[0].about in found[0].title
    assert len(found[0].text) > 60
    assert "\n" not in found[0].title


@pytest.mark.parametrize(
    "rule", [before_files, ready_items, error_images, gaps, clock_offsets, little_space], ids=lambda rule: rule.__name__
)
def test_of_a_drop_that_is_away_nothing_is_said_but_that(rule: Callable[..., Any]) -> None:
    looks = Looks(rule)
    shown = picture(
        drop_view(EVERYTHING.drops[0].snapshot, trouble="Connection refused", free_space=1, clock_offset=9e6),
        drop_view(None, name="new", looked_at="", server_time=None, clock_offset=None),
        routes=EVERYTHING.routes,
    )
    assert [looks.ids(shown, NOON + n * HOUR) for n in range(3)] == [[], [], []]
