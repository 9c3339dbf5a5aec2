"""The fence: a lost claim changes nothing, what was cut is finished by anybody, and several may do so at once."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from protocol.errors import ClaimLost, OutcomeUnresolved
from protocol.names import FileKind, Name
from protocol.operations import Claim, Operation, Outcome, Procedure, Publish
from protocol.procedures.finish import (
    PutAway,
    payload_names,
    put_away,
    put_away_error,
)
from protocol.rules import Rules, Signal
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.drops import check_all_complete, contents, draft, found, tokens
from tests.protocol.process import Fault, Process, cut_everywhere, run
from tests.protocol.ways_out import (
    ENDS,
    REASON,
    Way,
    after_images,
    completing,
    failing,
    hand_out,
    kinds,
    payloads,
    releasing,
    states,
    ways,
    with_token,
)

# The fence.


@kinds
@ways
def test_a_claim_that_was_taken_away_ends_in_claim_lost_and_changes_nothing(rules: Rules, way: Way) -> None:
    _, clean_name = hand_out(rules)
    fence = _fence_number(rules, way)
    for number in range(1, fence + 1):
        there, name = hand_out(rules)
        assert name == clean_name
        reaped = replace(name, owner="p")

        def reap(there: Directory = there, name: Name = name, reaped: Name = reaped) -> None:
            there.change(Claim(rules.layout.path(name), rules.layout.path(reaped)))

        with pytest.raises(ClaimLost):
            run(there, way(rules, name), before={number: reap})
        assert tokens(there) == [reaped]
        assert states(there) <= {State.CLAIMED, State.READY}
        # Whoever has the claim now finishes it as if nothing had been.
        run(there, way(rules, reaped))
        assert states(there) == {ENDS[way]}


@kinds
@ways
def test_a_reaper_who_comes_after_the_fence_finds_nothing(rules: Rules, way: Way) -> None:
    fence = _fence_number(rules, way)
    for number in range(fence + 1, fence + 8):
        there, name = hand_out(rules)
        reaped: list[Outcome] = []

        def reap(there: Directory = there, name: Name = name, reaped: list[Outcome] = reaped) -> None:
            reaped.append(there.change(Claim(rules.layout.path(name), rules.layout.path(replace(name, owner="p")))))

        run(there, way(rules, name), before={number: reap})
        assert reaped in ([Outcome.GONE], [])
        assert states(there) == {ENDS[way]}


def _fence_number(rules: Rules, way: Way) -> int:
    """The number of the operation that is the fence."""
    there, name = hand_out(rules)
    numbers: list[int] = []
    process = Process(
        there,
        way(rules, name),
        before=lambda number, operation: numbers.append(number) if isinstance(operation, Claim) else None,
    )
    process.run()
    return numbers[0]


@kinds
@ways
def test_a_claim_that_was_taken_and_finished_is_lost_too(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    reaped = replace(name, owner="p")
    there.change(Claim(rules.layout.path(name), rules.layout.path(reaped)))
    run(there, completing(rules, reaped))
    before = there.ls()
    with pytest.raises(ClaimLost):
        run(there, way(rules, name))
    assert there.ls() == before


# Cut.


@kinds
def test_what_was_cut_while_completing_is_finished_by_anybody(rules: Rules) -> None:
    def make() -> tuple[Directory, Procedure[PutAway]]:
        there, name = hand_out(rules)
        return there, completing(rules, name)

    seen: set[State] = set()
    for there in cut_everywhere(make):
        (token,) = tokens(there)
        seen.add(token.state)
        assert token.state in (State.CLAIMED, State.DONE, State.AFTER)
        if token.state is State.CLAIMED:
            assert run(there, completing(rules, token)).left == ()
        elif token.state is State.DONE:
            assert run(there, put_away(rules, token, payload_names(found(there)))).left == ()
        assert there.ls() == after_images(rules)
        check_all_complete(there, contents(draft(rules)))
    assert seen >= ({State.CLAIMED} if rules.signal is Signal.NONE else {State.CLAIMED, State.DONE})


@kinds
def test_what_was_cut_while_failing_is_finished_by_anybody(rules: Rules) -> None:
    def make() -> tuple[Directory, Procedure[PutAway]]:
        there, name = hand_out(rules)
        return there, failing(rules, name)

    for there in cut_everywhere(make):
        (token,) = tokens(there)
        if token.state is State.CLAIMED:
            run(there, failing(rules, token))
        elif not any(name.kind is FileKind.REASON for name in found(there)):
            run(there, put_away_error(rules, token, payload_names(found(there)), REASON))
        assert states(there) == {State.ERROR}
        check_all_complete(there, contents(draft(rules)))


@kinds
def test_an_item_that_was_cut_while_it_was_released_is_claimed_or_ready(rules: Rules) -> None:
    def make() -> tuple[Directory, Procedure[None]]:
        there, name = hand_out(rules)
        return there, releasing(rules, name)

    for there in cut_everywhere(make):
        (token,) = tokens(there)
        assert token.state in (State.CLAIMED, State.READY)
        check_all_complete(there, contents(draft(rules)))


# Many at once.


@with_token
def test_any_number_may_put_an_item_away_at_once(rules: Rules) -> None:
    for seed in range(40):
        chance = Random(seed)  # noqa: S311 - a schedule, no secret
        there, name = hand_out(rules)
        worker = Process(there, completing(rules, name))
        while tokens(there)[0].state is State.CLAIMED:
            worker.step()
        done = tokens(there)[0]
        sweepers = [Process(there, put_away(rules, done, payloads(rules))) for _ in range(2)]
        while alive := [process for process in (worker, *sweepers) if process.alive]:
            chance.choice(alive).step()
        assert all(process.result.left == () for process in (worker, *sweepers))
        assert there.ls() == after_images(rules)


@with_token
def test_any_number_may_put_an_error_image_away_at_once(rules: Rules) -> None:
    for seed in range(40):
        chance = Random(seed)  # noqa: S311 - a schedule, no secret
        there, name = hand_out(rules)
        worker = Process(there, failing(rules, name))
        while tokens(there)[0].state is State.CLAIMED:
            worker.step()
        error = tokens(there)[0]
        others = [Process(there, put_away_error(rules, error, payloads(rules), REASON)) for _ in range(2)]
        while alive := [process for process in (worker, *others) if process.alive]:
            chance.choice(alive).step()
        assert all(process.error is None for process in (worker, *others))
        assert states(there) == {State.ERROR}
        assert len(there.ls()) == len(payloads(rules)) + 2


# Lost replies.


@kinds
@ways
@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE, Fault.CUT])
def test_no_lost_reply_hinders_a_way_out(rules: Rules, way: Way, fault: Fault) -> None:
    lost: set[Operation[Any]] = set()

    def once_each(_number: int, operation: Operation[Any]) -> Fault | None:
        if not isinstance(operation, Claim | Publish) or operation in lost:
            return None
        lost.add(operation)
        return fault

    there, name = hand_out(rules)
    Process(there, way(rules, name), faults=once_each).run()
    there.carry_out_late()
    assert states(there) == {ENDS[way]}
    check_all_complete(there, contents(draft(rules)))


@kinds
@ways
def test_a_fence_that_nobody_can_look_up_is_told_as_unresolved(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    fence = _fence_number(rules, way)
    with pytest.raises(OutcomeUnresolved):
        run(there, way(rules, name), {fence: Fault.LOST_AFTER, fence + 1: Fault.DOWN})


@with_token
@ways
def test_a_fence_that_was_cut_in_two_is_passed_when_called_again(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    fence = _fence_number(rules, way)
    with pytest.raises(OutcomeUnresolved):
        run(there, way(rules, name), {fence: Fault.CUT, fence + 1: Fault.DOWN})
    assert len(tokens(there)) == 2
    if way is failing:
        # `fail` takes a free name each time; the error image that it has made already is put away by whoever finds it.
        return
    run(there, way(rules, name))
    assert states(there) == {ENDS[way]}
