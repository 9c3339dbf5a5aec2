"""Publishing beside trouble: cut, interrupted, refused, lost or held open at any operation."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from protocol.errors import (
    OutcomeUnresolved,
    PublishInterrupted,
    StillBusy,
)
from protocol.names import Name
from protocol.operations import Claim, Delete, Operation, Publish, Store
from protocol.procedures.claim import claim
from protocol.procedures.publish import publish
from protocol.rules import Rules
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.drops import ITEM, KINDS, check_all_complete, contents, draft, found, in_public, send, tokens
from tests.protocol.process import Disconnected, Fault, cut_everywhere, run

kinds = pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
MANIFESTS = KINDS["prefix-manifest"]
NONE = KINDS["prefix-none"]


# Cut.


@kinds
@pytest.mark.parametrize("given", [False, True])
def test_cut_anywhere_nothing_is_ready_that_is_not_whole(rules: Rules, *, given: bool) -> None:
    def make() -> tuple[Directory, Any]:
        there = Directory(rules)
        return there, publish(rules, draft(rules), ITEM.number, given=given)

    cuts = list(cut_everywhere(make))
    for there in cuts:
        check_all_complete(there, contents(draft(rules)))
        if any(name.state is State.READY for name in found(there)):
            # From the first ready name on, what is there is enough to finish by renames alone.
            for name in sorted(found(there), key=lambda name: rules.is_token(name.kind)):
                if name.state is State.BEFORE:
                    there.change(Publish(rules.layout.path(name), rules.layout.path(replace(name, state=State.READY))))
            check_all_complete(there, contents(draft(rules)))
            assert [name.state for name in in_public(there)] == [State.READY]
    assert len(cuts) > 3


@kinds
def test_an_interrupt_anywhere_takes_the_before_files_away_or_goes_forward(rules: Rules) -> None:
    steps = 0
    while True:
        steps += 1
        sending = send(rules)
        if not all([sending.step() for _ in range(steps)]):
            break
        # The one file that is being stored just now is the driver's to remove.
        storing = {sending.operation.path} if isinstance(sending.operation, Store) else set()
        sending.interrupt()
        while sending.step():
            pass
        assert isinstance(sending.error, KeyboardInterrupt)
        there = sending.directory
        left = [name for name in found(there) if rules.layout.path(name) not in storing]
        assert {name.state for name in left} in (set(), {State.READY}, {State.READY, State.BEFORE})
        check_all_complete(there, contents(draft(rules)))
    assert steps > 3


# Failures.


def first_rename(rules: Rules, *, given: bool) -> tuple[int, int]:
    """The number of the operation that is the first rename, and of the last operation."""
    numbers: list[int] = []
    sending = send(rules, given=given)
    sending.before = lambda number, operation: numbers.append(number) if isinstance(operation, Publish) else None
    sending.run()
    return numbers[0], sending.number


@kinds
@pytest.mark.parametrize("given", [False, True])
def test_a_failure_up_to_the_first_rename_leaves_nothing(rules: Rules, *, given: bool) -> None:
    first, _ = first_rename(rules, given=given)
    for number in range(1, first + 1):
        there = Directory(rules)
        with pytest.raises(Disconnected):
            run(there, publish(rules, draft(rules), ITEM.number, given=given), {number: Fault.DOWN})
        assert there.ls() == []


@kinds
@pytest.mark.parametrize("given", [False, True])
def test_a_failure_after_the_first_rename_is_told_with_what_is_left(rules: Rules, *, given: bool) -> None:
    first, last = first_rename(rules, given=given)
    for number in range(first + 1, last + 1):
        there = Directory(rules)
        with pytest.raises(PublishInterrupted, match="Do not send it again") as caught:
            run(there, publish(rules, draft(rules), ITEM.number, given=given), {number: Fault.DOWN})
        before = [rules.layout.path(name) for name in found(there) if name.state is State.BEFORE]
        assert sorted(caught.value.left) == sorted(before)
        assert caught.value.left
        for path in caught.value.left:
            name = rules.layout.parse(path)
            assert isinstance(name, Name)
            there.change(Publish(path, rules.layout.path(replace(name, state=State.READY))))
        check_all_complete(there, contents(draft(rules)))
        assert len(in_public(there)) == 1


def _down_from(begin: int) -> Callable[[int, Operation[Any]], Fault | None]:
    return lambda number, _operation: Fault.DOWN if number >= begin else None


@kinds
def test_a_failure_for_good_leaves_before_files_and_a_note_about_each(rules: Rules) -> None:
    first, _ = first_rename(rules, given=False)
    for begin in range(1, first + 1):
        sending = send(rules)
        sending.faults = _down_from(begin)
        with pytest.raises(Disconnected) as caught:
            sending.run()
        notes = getattr(caught.value, "__notes__", [])
        left = sending.directory.ls()
        assert len(notes) == len(left)
        assert all(any(path in note for note in notes) for path in left)
        assert in_public(sending.directory) == []


@kinds
@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE, Fault.CUT])
def test_lost_replies_to_renames_do_not_hinder_a_publication(rules: Rules, fault: Fault) -> None:
    lost: set[Operation[Any]] = set()

    def once_each(_number: int, operation: Operation[Any]) -> Fault | None:
        if not isinstance(operation, Publish) or operation in lost:
            return None
        lost.add(operation)
        return fault

    sending = send(rules)
    sending.faults = once_each
    published = sending.run()
    sending.directory.carry_out_late()
    assert sending.directory.ls() == sorted(published.names)
    check_all_complete(sending.directory, contents(draft(rules)))


@kinds
@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.CUT])
def test_lost_replies_and_a_consumer_who_takes_the_item_at_once(rules: Rules, fault: Fault) -> None:
    def token(operation: Operation[Any]) -> bool:
        name = rules.layout.parse(operation.src) if isinstance(operation, Publish) else None
        return isinstance(name, Name) and rules.is_token(name.kind)

    lost = False

    def lose(_number: int, operation: Operation[Any]) -> Fault | None:
        nonlocal lost
        if lost or not token(operation):
            return None
        lost = True
        return fault

    sending = send(rules)
    there = sending.directory
    there.folders.add("processing/o")

    def consumer(_number: int, _operation: Operation[Any]) -> None:
        ready = [name for name in tokens(there) if name.state is State.READY]
        if lost and ready:
            claimed = run(there, claim(rules, ready[0], "o")) if fault is not Fault.CUT else _take(there, ready[0])
            assert isinstance(claimed, Name)

    sending.before, sending.faults = consumer, lose
    assert sending.run().item == ITEM
    assert [name.state for name in tokens(there)] in ([State.CLAIMED], [State.READY])
    if fault is not Fault.LOST_BEFORE:
        assert [name.state for name in tokens(there)] == [State.CLAIMED]


def _take(there: Directory, token: Name) -> Name:
    claimed = replace(token, state=State.CLAIMED, owner="o")
    there.change(Claim(there.rules.layout.path(token), there.rules.layout.path(claimed)))
    return claimed


@kinds
def test_a_busy_first_file_is_given_up_and_nothing_is_left(rules: Rules) -> None:
    sending = send(rules)
    sending.faults = lambda _number, operation: Fault.BUSY if isinstance(operation, Publish) else None
    with pytest.raises(StillBusy, match="held open by somebody"):
        sending.run()
    assert sending.directory.ls() == []


def test_a_busy_later_file_is_an_interruption() -> None:
    sending = send(MANIFESTS)
    sending.faults = lambda _number, operation: (
        Fault.BUSY if isinstance(operation, Publish) and operation.src.endswith("json") else None
    )
    with pytest.raises(PublishInterrupted, match="held open") as caught:
        sending.run()
    assert caught.value.left == ("B_orders_0000000042.manifest.json",)


def test_files_that_stay_open_are_named_in_a_note() -> None:
    sending = send(MANIFESTS)
    sending.faults = lambda _number, operation: Fault.BUSY if isinstance(operation, Publish | Delete) else None
    with pytest.raises(StillBusy) as caught:
        sending.run()
    assert sum("somebody has it open" in note for note in caught.value.__notes__) == 3


def test_published_and_cut_with_its_source_held_open_is_published() -> None:
    # The server died between link and unlink, and a scanner has the before name open: it is public all the same.
    sending = send(NONE)
    there = sending.directory

    def hold(_number: int, operation: Operation[Any]) -> Fault | None:
        if isinstance(operation, Publish):
            there.held["B_orders_0000000042.csv"] = -1
            return Fault.CUT
        return None

    sending.faults = hold
    assert sending.run().item == ITEM
    assert there.ls() == ["B_orders_0000000042.csv", "orders_0000000042.csv"]


def test_a_before_file_that_vanishes_is_not_published_by_assumption() -> None:
    sending = send(NONE)
    there = sending.directory
    sending.before = lambda _number, operation: there.files.clear() if isinstance(operation, Publish) else None
    with pytest.raises(PublishInterrupted, match="has vanished") as caught:
        sending.run()
    assert isinstance(caught.value.__cause__, OutcomeUnresolved)
