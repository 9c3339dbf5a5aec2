"""Sequence numbers: unique and ascending for any crowd, whoever dies, sleeps or loses a reply, the first number included."""

from typing import Any

import pytest

from protocol.errors import Anomaly, OutcomeUnresolved, SequenceExhausted, StillBusy
from protocol.layout import PrefixLayout
from protocol.names import Grammar, ItemId, Name
from protocol.operations import Claim, Operation, Publish, ReadSmall
from protocol.procedures.take_number import take_numbers
from protocol.rules import Rules
from protocol.states import State
from tests.protocol.counters import GROUP, RULES, counters, handed_out, layouts, take
from tests.protocol.directory import Directory
from tests.protocol.process import Fault, Process, run

# One producer.


@layouts
def test_numbers_begin_at_1_and_ascend(rules: Rules) -> None:
    there = Directory(rules)
    assert [take(there) for _ in range(3)] == [1, 2, 3]
    assert counters(there) == [4]
    assert there.ls() == ["S_orders_0000000004.next", "S_orders_origin"]


@layouts
@pytest.mark.parametrize("state", State)
def test_numbers_begin_after_the_highest_in_use_in_any_state(rules: Rules, state: State) -> None:
    there = Directory(rules)
    there.folders.add("processing/o")
    there.put(rules.layout.path(Name(ItemId(GROUP, 7), "csv", state, "o" if state is State.CLAIMED else "")))
    there.put(rules.layout.path(Name(ItemId(GROUP, 3), "csv")))
    there.put(rules.layout.path(Name(ItemId("other_", 900), "csv")))
    there.put(rules.layout.path(Name(ItemId("sub_orders_", 901), "csv")))
    assert take(there) == 8


def test_each_group_counts_for_itself() -> None:
    there = Directory(RULES)
    for group in ("orders_", "orders_x_", "", "orders"):
        assert run(there, take_numbers(RULES, group, "o")) == 1
        assert run(there, take_numbers(RULES, group, "o")) == 2
    assert [counters(there, group) for group in ("orders_", "orders_x_", "", "orders")] == [[3]] * 4


def test_several_numbers_are_taken_with_one_rename() -> None:
    there = Directory(RULES)
    assert take(there, count=10) == 1
    assert take(there) == 11
    assert counters(there) == [12]


@pytest.mark.parametrize("count", [0, -1])
def test_no_number_cannot_be_taken(count: int) -> None:
    with pytest.raises(ValueError, match="cannot be taken"):
        take(Directory(RULES), count=count)


def test_a_right_hint_saves_the_listing_and_a_wrong_one_costs_nothing_but_time() -> None:
    there = Directory(RULES)
    take(there)
    asked: list[Operation[Any]] = []
    process = Process(there, take_numbers(RULES, GROUP, "o", hint=2), before=lambda _number, operation: asked.append(operation))
    assert process.run() == 2
    assert [type(operation) for operation in asked] == [Claim]
    assert take(there, hint=2) == 3
    assert take(there, hint=99) == 4


@pytest.mark.parametrize(("width", "taken"), [(1, 8), (2, 98)])
def test_numbers_end_where_their_width_ends(width: int, taken: int) -> None:
    rules = Rules(layout=PrefixLayout(Grammar(width)))
    there = Directory(rules)
    assert [take(there) for _ in range(taken)] == list(range(1, taken + 1))
    with pytest.raises(SequenceExhausted, match="begin a new group prefix"):
        take(there)
    assert counters(there) == [taken + 1]


def test_a_drop_whose_numbers_are_used_up_gets_no_counter() -> None:
    rules = Rules(layout=PrefixLayout(Grammar(2)))
    there = Directory(rules)
    there.put("A_orders_99.csv")
    with pytest.raises(SequenceExhausted):
        take(there)


# The counter file is what a person sees and steers.


def test_a_counter_that_a_person_made_is_used_without_an_origin() -> None:
    there = Directory(RULES)
    there.put("S_orders_0000000100.next")
    assert take(there) == 100
    assert there.ls() == ["S_orders_0000000101.next"]


def test_of_two_counters_the_higher_is_kept_and_the_lower_removed() -> None:
    there = Directory(RULES)
    there.put("S_orders_0000000005.next")
    there.put("S_orders_0000000009.next")
    assert take(there) == 9
    assert counters(there) == [10]


def test_a_lost_counter_is_told_and_not_made_up() -> None:
    there = Directory(RULES)
    take(there)
    there.put("A_orders_0000000030.csv")
    del there.files["S_orders_0000000002.next"]
    with pytest.raises(Anomaly, match=r"Put it back by hand as S_orders_0000000031\.next, or higher"):
        take(there)
    assert counters(there) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"S_orders_seed+", b"x" * 5000, b"\xff", b"S_other_seed+o+1", b"../../etc/passwd", b"orders_0000000001.csv"],
)
def test_an_origin_that_names_no_seed_is_told_and_not_believed(content: bytes) -> None:
    there = Directory(RULES)
    there.put("S_orders_origin", content)
    there.put("orders_0000000001.csv")
    with pytest.raises(Anomaly, match=r"make the file S_orders_0000000001\.next by hand"):
        take(there)
    assert there.ls() == ["S_orders_origin", "orders_0000000001.csv"]
    there.put("S_orders_0000000002.next")  # as the message says
    assert take(there) == 2


def test_a_seed_is_never_used_beside_a_counter() -> None:
    # Somebody made a counter by hand while the origin's seed was still there.
    there = Directory(RULES)
    there.put("S_orders_origin", b"S_orders_seed+o+1")
    there.put("S_orders_seed+o+1")
    hidden = there.files.copy()

    def by_hand(_number: int, operation: Operation[Any]) -> None:
        if isinstance(operation, ReadSmall):
            there.put("S_orders_0000000050.next")

    process = Process(there, take_numbers(RULES, GROUP, "p"), before=by_hand)
    assert process.run() == 50
    assert counters(there) == [51]
    assert "S_orders_seed+o+1" in hidden
    assert "S_orders_seed+o+1" not in there.files
    assert there.renames == [("S_orders_0000000050.next", "S_orders_0000000051.next")]


# Trouble.


@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE])
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_reply_costs_a_number_and_nothing_else(fault: Fault, times: int) -> None:
    there = Directory(RULES)
    take(there)
    left = times

    def lose(_number: int, operation: Operation[Any]) -> Fault | None:
        nonlocal left
        if not isinstance(operation, Claim) or not left:
            return None
        left -= 1
        return fault

    process = Process(there, take_numbers(RULES, GROUP, "o"), faults=lose)
    number = process.run()
    there.carry_out_late()
    assert number >= 2
    assert handed_out(there).count(number) == 1
    assert counters(there) == [max(handed_out(there)) + 1]


def test_a_rename_that_was_cut_in_two_leaves_no_second_counter() -> None:
    there = Directory(RULES)
    take(there)
    faults = iter([Fault.CUT])
    process = Process(
        there,
        take_numbers(RULES, GROUP, "o"),
        faults=lambda _number, operation: next(faults, None) if isinstance(operation, Claim) else None,
    )
    assert process.run() == 3
    assert counters(there) == [4]


def test_replies_that_are_lost_for_ever_end_in_an_error() -> None:
    there = Directory(RULES)
    take(there)
    process = Process(
        there,
        take_numbers(RULES, GROUP, "o"),
        faults=lambda _number, operation: Fault.LOST_BEFORE if isinstance(operation, Claim) else None,
    )
    with pytest.raises(OutcomeUnresolved, match="lost its reply 20 times"):
        process.run()


def test_an_open_counter_is_waited_for() -> None:
    there = Directory(RULES)
    take(there)
    there.held["S_orders_0000000002.next"] = 3
    assert take(there) == 2


def test_a_counter_that_stays_open_is_told_after_the_drops_patience() -> None:
    there = Directory(RULES)
    take(there)
    there.held["S_orders_0000000002.next"] = -1
    begun = there.clock
    with pytest.raises(StillBusy, match="held open by somebody"):
        take(there)
    assert 3 < there.clock - begun < 20
    assert counters(there) == [2]


def test_a_seed_or_an_origin_that_stays_open_is_told_after_the_drops_patience() -> None:
    for step in (Publish, Claim):
        there = Directory(RULES)
        process = Process(
            there,
            take_numbers(RULES, GROUP, "o"),
            faults=lambda _number, operation, step=step: Fault.BUSY if isinstance(operation, step) else None,  # type: ignore[misc] # bound now
        )
        with pytest.raises(StillBusy):
            process.run()
        assert take(there, "p") == 1
