"""The three ways out of a claim: fenced by the claim's own name, finished by anybody, and nothing is ever overwritten."""

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from protocol.errors import Anomaly, ClaimLost, OutcomeUnresolved, StillBusy
from protocol.names import FileKind, ItemId, Name
from protocol.operations import Claim, Operation, Outcome, Procedure, Publish, Stat
from protocol.procedures.claim import claim, prepare_owner
from protocol.procedures.finish import (
    PutAway,
    Reason,
    complete,
    fail,
    payload_names,
    put_away,
    put_away_error,
    release,
)
from protocol.procedures.publish import publish
from protocol.rules import Rules, Signal
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.drops import ITEM, KINDS, check_all_complete, contents, draft, found, tokens
from tests.protocol.process import Fault, Process, cut_everywhere, run

kinds = pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
with_token = pytest.mark.parametrize(
    "rules", [r for r in KINDS.values() if r.signal is not Signal.NONE], ids=[k for k in KINDS if "none" not in k]
)
MANIFESTS = KINDS["prefix-manifest"]
NONE = KINDS["prefix-none"]
REASON = Reason("HandlerFailed", "exit status 1", 5, "host-1", "o")


def hand_out(rules: Rules, there: Directory | None = None, content: bytes = b"a;b\n1;2\n") -> tuple[Directory, Name]:
    """A drop with the item claimed by `o`."""
    there = there or Directory(rules)
    run(there, publish(rules, draft(rules, content), ITEM.number, given=False))
    for owner in ("o", "p"):
        run(there, prepare_owner(rules, owner))
    (token,) = [name for name in tokens(there) if name.state is State.READY]
    name = run(there, claim(rules, token, "o"))
    assert isinstance(name, Name)
    there.renames.clear()
    return there, name


def payloads(rules: Rules) -> list[Name]:
    return [Name(ITEM, file.suffix) for file in draft(rules).files]


def completing(rules: Rules, name: Name) -> Procedure[PutAway]:
    return complete(rules, name, payloads(rules))


def failing(rules: Rules, name: Name) -> Procedure[PutAway]:
    return fail(rules, name, payloads(rules), REASON)


def releasing(rules: Rules, name: Name) -> Procedure[None]:
    return release(rules, name)


Way = Callable[[Rules, Name], Procedure[Any]]
ways = pytest.mark.parametrize("way", [completing, failing, releasing])
ENDS: dict[Way, State] = {completing: State.AFTER, failing: State.ERROR, releasing: State.READY}


def states(there: Directory) -> set[State]:
    return {name.state for name in found(there)}


def after_images(rules: Rules) -> list[str]:
    names = [*payloads(rules), Name(ITEM, rules.token_suffix("csv"))]
    return sorted({rules.layout.path(replace(name, state=State.AFTER)) for name in names})


# Undisturbed.


@kinds
@ways
def test_each_way_out_ends_in_its_state(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    run(there, way(rules, name))
    assert states(there) == {ENDS[way]}
    check_all_complete(there, contents(draft(rules)))


def test_ls_shows_the_images_of_the_protocol() -> None:
    there, name = hand_out(MANIFESTS)
    assert run(there, completing(MANIFESTS, name)) == PutAway("A_orders_0000000042.manifest.json")
    assert there.ls() == [
        "A_orders_0000000042.csv",
        "A_orders_0000000042.manifest.json",
        "A_orders_0000000042.tar.gz",
    ]
    there, name = hand_out(MANIFESTS)
    assert run(there, failing(MANIFESTS, name)) == PutAway("E_orders_0000000042.manifest.json")
    assert there.ls() == [
        "E_orders_0000000042.csv",
        "E_orders_0000000042.manifest.json",
        "E_orders_0000000042.reason.json",
        "E_orders_0000000042.tar.gz",
    ]


def test_completing_without_a_signal_is_one_rename() -> None:
    there, name = hand_out(NONE)
    run(there, completing(NONE, name))
    assert there.renames == [("C_o_orders_0000000042.csv", "A_orders_0000000042.csv")]


@with_token
@pytest.mark.parametrize("way", [completing, failing])
def test_the_token_goes_first_and_the_rest_follows(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    run(there, way(rules, name))
    first, *_ = there.renames
    assert first[0] == rules.layout.path(name)
    if way is completing:
        # The token is the last as well: as long as it is D_, something is still to be put away.
        assert there.renames[-1][0] == rules.layout.path(replace(name, state=State.DONE, owner=""))


def test_the_reason_says_what_a_person_needs() -> None:
    there, name = hand_out(MANIFESTS)
    run(there, failing(MANIFESTS, name))
    assert json.loads(there["E_orders_0000000042.reason.json"]) == {
        "item": "orders_0000000042.manifest.json",
        "error": "exit status 1",
        "kind": "HandlerFailed",
        "attempts": 5,
        "host": "host-1",
        "owner": "o",
        "time": "2026-11-30T15:01:02.123456Z",
    }


def test_a_reason_is_written_whatever_bytes_its_error_quotes() -> None:
    there, name = hand_out(MANIFESTS)
    run(there, fail(MANIFESTS, name, payloads(MANIFESTS), replace(REASON, error="cannot read M\udce4rz.csv")))
    assert json.loads(there["E_orders_0000000042.reason.json"])["error"] == "cannot read M\\udce4rz.csv"


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


# Doubles.


def with_old_after_image(rules: Rules) -> tuple[Directory, Name]:
    """The number was used before, for other content, and is claimed again."""
    there, name = hand_out(rules)
    run(there, completing(rules, name))
    return hand_out(rules, there, b"another content")


@kinds
def test_a_number_that_came_twice_keeps_both_images(rules: Rules) -> None:
    there, name = with_old_after_image(rules)
    old = {path: there[path] for path in after_images(rules)}
    away = run(there, completing(rules, name))
    assert {path: there[path] for path in after_images(rules)} == old
    doubles = [name for name in found(there) if name.again]
    assert {name.again for name in doubles} == {1}
    assert len(doubles) == len(old)
    assert away.token == rules.layout.path(Name(ITEM, rules.token_suffix("csv"), State.AFTER, again=1))
    assert there[rules.layout.path(Name(ITEM, "csv", State.AFTER, again=1))] == b"another content"


def test_the_doubles_are_named_as_in_the_protocol() -> None:
    there, name = with_old_after_image(MANIFESTS)
    run(there, completing(MANIFESTS, name))
    there, name = hand_out(MANIFESTS, there, b"a third")
    run(there, completing(MANIFESTS, name))
    assert [path for path in there.ls() if "+" in path] == [
        "A_orders_0000000042+1.csv",
        "A_orders_0000000042+1.manifest.json",
        "A_orders_0000000042+1.tar.gz",
        "A_orders_0000000042+2.csv",
        "A_orders_0000000042+2.manifest.json",
        "A_orders_0000000042+2.tar.gz",
    ]


@with_token
def test_a_double_that_was_cut_is_finished_beside_what_is_there(rules: Rules) -> None:
    def make() -> tuple[Directory, Procedure[PutAway]]:
        there, name = with_old_after_image(rules)
        return there, completing(rules, name)

    for there in cut_everywhere(make):
        for current in [name for name in tokens(there) if name.state in (State.CLAIMED, State.DONE)]:
            claimed = current.state is State.CLAIMED
            run(there, completing(rules, current) if claimed else put_away(rules, current, payloads(rules)))
        assert states(there) == {State.AFTER}
        contents_there = {there[path] for path in there.ls() if path.endswith("csv")}
        assert contents_there == {b"a;b\n1;2\n", b"another content"}
        assert len(there.ls()) == 2 * len(after_images(rules))


@kinds
def test_a_second_failure_keeps_both_images_and_both_reasons(rules: Rules) -> None:
    there, name = hand_out(rules)
    run(there, failing(rules, name))
    there, name = hand_out(rules, there, b"another content")
    run(there, fail(rules, name, payloads(rules), replace(REASON, error="another")))
    reasons = [json.loads(there[path])["error"] for path in there.ls() if path.endswith("reason.json")]
    assert sorted(reasons) == ["another", "exit status 1"]
    assert {name.again for name in found(there)} == {0, 1}
    assert states(there) == {State.ERROR}


@with_token
def test_a_reason_that_an_operator_left_behind_is_not_taken_for_the_new_one(rules: Rules) -> None:
    there, name = hand_out(rules)
    run(there, failing(rules, name))
    for image in found(there):
        if image.kind is not FileKind.REASON:
            there.files[rules.layout.path(replace(image, state=State.READY))] = there.files.pop(rules.layout.path(image))
    (token,) = [image for image in tokens(there) if image.state is State.READY]
    again = run(there, claim(rules, token, "o"))
    assert isinstance(again, Name)
    process = Process(there, fail(rules, again, payloads(rules), replace(REASON, error="another")))
    while tokens(there)[0].state is State.CLAIMED:
        process.step()
    # Cut right here, nobody may believe that the item is put away.
    error = tokens(there)[0]
    assert rules.layout.path(replace(error, suffix="reason.json")) not in there.files
    while process.step():
        pass
    assert json.loads(there[rules.layout.path(replace(error, suffix="reason.json"))])["error"] == "another"


def test_a_number_that_is_used_again_and_again_is_told() -> None:
    there, name = hand_out(NONE)
    for double in range(1000):
        there.put(NONE.layout.path(Name(ITEM, "csv", State.AFTER, again=double)), b"%d" % double)
    with pytest.raises(Anomaly, match="one number again and again"):
        run(there, completing(NONE, name))
    assert name in tokens(there)


def test_equal_bytes_under_an_after_name_are_one_image() -> None:
    # The name was taken by the same bytes: the same file, as far as anybody can tell, left over by a cut rename.
    there, name = hand_out(MANIFESTS)
    there.put("A_orders_0000000042.csv", there["orders_0000000042.csv"])
    run(there, completing(MANIFESTS, name))
    assert there.ls() == after_images(MANIFESTS)


# Names in the way.


@pytest.mark.parametrize(
    ("way", "path"), [(completing, "D_orders_0000000042.manifest.json"), (releasing, "orders_0000000042.manifest.json")]
)
def test_a_name_that_another_item_of_the_number_has_is_never_taken_over(way: Way, path: str) -> None:
    there, name = hand_out(MANIFESTS)
    there.put(path, b"another item's")
    with pytest.raises(Anomaly, match="is taken"):
        run(there, way(MANIFESTS, name))
    assert there[path] == b"another item's"
    assert name in tokens(there)


# Open files.


@with_token
@pytest.mark.parametrize("way", [completing, failing])
def test_a_payload_that_somebody_has_open_is_left_for_later(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    held = rules.layout.path(Name(ITEM, "csv"))
    there.held[held] = -1
    away = run(there, way(rules, name))
    assert away.left == (held,)
    (token,) = tokens(there)
    assert token.state is (State.DONE if way is completing else State.ERROR)
    assert not any(path.endswith("reason.json") for path in there.ls())
    there.held.clear()
    if way is completing:
        assert run(there, put_away(rules, token, payloads(rules))).left == ()
    else:
        assert run(there, put_away_error(rules, token, payloads(rules), REASON)).left == ()
    assert states(there) == {ENDS[way]}


@with_token
def test_several_open_payloads_are_waited_for_once(rules: Rules) -> None:
    def waited(*held: str) -> float:
        there, name = hand_out(rules)
        for suffix in held:
            there.held[rules.layout.path(Name(ITEM, suffix))] = -1
        begun = there.clock
        assert len(run(there, completing(rules, name)).left) == len(held)
        return there.clock - begun

    assert waited("csv", "tar.gz") - waited("csv") < 1 < rules.busy_patience <= waited("csv")


@kinds
@ways
def test_a_token_that_somebody_has_open_stays_claimed_and_can_be_tried_again(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    there.held[rules.layout.path(name)] = -1
    before = there.ls()
    with pytest.raises(StillBusy, match="stays claimed"):
        run(there, way(rules, name))
    assert there.ls() == before
    there.held.clear()
    run(there, way(rules, name))
    assert states(there) == {ENDS[way]}


@with_token
def test_an_open_done_token_is_left_for_later(rules: Rules) -> None:
    there, name = hand_out(rules)
    done = rules.layout.path(replace(name, state=State.DONE, owner=""))
    there.held[done] = -1
    away = run(there, completing(rules, name))
    assert away.left == (done,)
    assert tokens(there)[0].state is State.DONE


# What to put away.


def test_payloads_are_known_from_names_where_no_token_can_say_it() -> None:
    names = [
        Name(ITEM, "csv", State.AFTER, again=1),
        Name(ITEM, "csv"),
        Name(ITEM, "xml", State.BEFORE),
        Name(ITEM, "manifest.json", State.CLAIMED, "o"),
        Name(ITEM, "reason.json", State.ERROR),
    ]
    assert payload_names(names) == [Name(ITEM, "csv"), Name(ITEM, "xml")]


@with_token
def test_payloads_may_be_named_in_any_state(rules: Rules) -> None:
    there, name = hand_out(rules)
    named = [replace(payload, state=State.CLAIMED, owner="o") for payload in payloads(rules)]
    run(there, complete(rules, name, named))
    assert there.ls() == after_images(rules)


def test_an_item_of_another_number_is_not_touched() -> None:
    there, name = hand_out(MANIFESTS)
    other = MANIFESTS.layout.path(Name(ItemId("orders_", 43), "csv"))
    there.put(other)
    run(there, completing(MANIFESTS, name))
    assert other in there.files


def test_the_fence_looks_before_it_renames_as_a_claim_may_replace() -> None:
    there, name = hand_out(MANIFESTS)
    asked: list[type] = []
    process = Process(there, completing(MANIFESTS, name), before=lambda _number, operation: asked.append(type(operation)))
    process.run()
    assert asked[:2] == [Stat, Claim]
