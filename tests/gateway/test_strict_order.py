"""Strict order (PROTOCOL section 7): one at a time, in order, and what holds it up."""

import dataclasses

import pytest

from gateway.handoff.clock import Clock
from gateway.handoff.ordering import OnError, OnGap, Strictness, StrictOrder, Turn
from protocol.rules import Rules
from protocol.snapshot import Listed, Snapshot, take_snapshot

RULES = Rules()


@dataclasses.dataclass
class Hours:
    now: float = 0.0


def drop(*items: str) -> Snapshot:
    """Items as "1 ready", "2 claimed", in a drop of the prefix layout."""
    paths = []
    for text in items:
        number, state = text.split()
        base = f"orders_{int(number):010}"
        mark = {"before": "B_", "ready": "", "claimed": "C_o_", "done": "D_", "after": "A_", "error": "E_"}[state]
        paths += [f"{'' if state in ('claimed', 'done') else mark}{base}.csv", f"{mark}{base}.manifest.json"]
    return take_snapshot([Listed(path, size=1) for path in paths], RULES)


def order(hours: Hours | None = None, **strictness: object) -> StrictOrder:
    clock = Clock(monotonic=lambda: (hours or Hours()).now)
    return StrictOrder(RULES, clock, "orders_", dataclasses.replace(Strictness(gap_timeout=60), **strictness))  # type: ignore[arg-type] # by name


def number(turn: Turn) -> int | None:
    return None if turn.token is None else turn.token.item.number


def test_the_lowest_ready_item_has_its_turn() -> None:
    assert number(order().next(drop("3 ready", "1 after", "2 ready"), None)) == 2
    assert number(order().next(drop("1 after"), None)) is None
    assert number(order().next(drop(), None)) is None


@pytest.mark.parametrize("state", ["claimed", "before"])
def test_nothing_passes_an_item_that_is_under_way_or_coming(state: str) -> None:
    turn = order().next(drop(f"1 {state}", "2 ready"), None)
    assert number(turn) is None
    assert "0000000001" in turn.waits_for


def test_what_is_done_but_not_put_away_holds_nothing_up() -> None:
    assert number(order().next(drop("1 done", "2 ready"), None)) == 2


def test_a_gap_is_waited_for_and_then_told_of_once() -> None:
    hours = Hours()
    strict = order(hours)
    seen = drop("1 after", "3 ready")
    assert strict.next(seen, None) == Turn(None, "orders_0000000002 is missing")
    hours.now = 61
    told = strict.next(seen, None)
    assert number(told) is None
    assert "has not come" in told.told
    assert strict.next(seen, None).told == ""
    assert number(strict.next(drop("1 after", "2 ready", "3 ready"), None)) == 2


def test_a_gap_is_skipped_where_that_was_asked_for() -> None:
    hours = Hours()
    strict = order(hours, on_gap=OnGap.SKIP)
    seen = drop("1 after", "4 ready")
    assert number(strict.next(seen, None)) is None
    hours.now = 61
    assert number(strict.next(seen, None)) == 4  # both were missed from the start


def test_a_gap_behind_archived_items_is_known_from_the_ledger() -> None:
    assert number(order().next(drop("7 ready"), 5)) is None
    assert number(order().next(drop("6 ready"), 5)) == 6
    assert number(order().next(drop("7 ready"), None)) == 7  # nothing is known: the lowest that is there is the first


def test_a_number_that_comes_late_is_taken_though_later_ones_are_settled() -> None:
    assert number(order().next(drop("2 ready", "5 after"), 5)) == 2


def test_an_error_image_stops_its_group_or_is_passed() -> None:
    seen = drop("1 error", "2 ready")
    stopped = order().next(seen, None)
    assert number(stopped) is None
    assert "error image" in stopped.told
    assert number(order(on_error=OnError.PASS).next(seen, None)) == 2


def test_other_groups_do_not_matter() -> None:
    others = [Listed("notes_0000000001.csv", size=1), Listed("notes_0000000001.manifest.json", size=1)]
    seen = take_snapshot([*others, Listed("orders_0000000002.csv"), Listed("orders_0000000002.manifest.json")], RULES)
    assert number(order().next(seen, None)) == 2
