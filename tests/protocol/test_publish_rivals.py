"""Publishing beside others: of rivals for one number exactly one wins, and nothing of anybody is replaced."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from protocol.errors import (
    SequenceTaken,
)
from protocol.names import Name
from protocol.operations import Operation
from protocol.procedures.claim import claim
from protocol.procedures.finish import complete, payload_names
from protocol.procedures.publish import publish
from protocol.rules import Rules
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.drops import ITEM, KINDS, check_all_complete, contents, draft, found, in_public, tokens
from tests.protocol.process import Process, run

kinds = pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
MANIFESTS = KINDS["prefix-manifest"]
NONE = KINDS["prefix-none"]


# Rivals for one given number.


def rival_publishes(there: Directory) -> None:
    try:
        run(there, publish(there.rules, draft(there.rules, b"rival's", key="rival"), ITEM.number, given=True))
    except SequenceTaken:
        return  # ours was there first


def rival_is_claimed(there: Directory) -> None:
    rival_publishes(there)
    there.folders.add("processing/o")
    for token in [name for name in tokens(there) if name.state is State.READY]:
        run(there, claim(there.rules, token, "o"))


def rival_is_done(there: Directory) -> None:
    rival_is_claimed(there)
    for token in [name for name in tokens(there) if name.state is State.CLAIMED]:
        run(there, complete(there.rules, token, payload_names(found(there))))


def _once(number: int, deed: Callable[[], None]) -> Callable[[int, Operation[Any]], None]:
    return lambda n, _operation: deed() if n == number else None


@kinds
@pytest.mark.parametrize("rival", [rival_publishes, rival_is_claimed, rival_is_done])
def test_of_rivals_for_a_given_number_exactly_one_wins(rules: Rules, rival: Callable[[Directory], None]) -> None:
    won = lost = 0
    for number in range(1, 60):
        there = Directory(rules)
        sending = Process(there, publish(rules, draft(rules), ITEM.number, given=True))
        sending.before = _once(number, partial(rival, there))
        try:
            sending.run()
            won += 1
            expected = contents(draft(rules))
        except SequenceTaken:
            lost += 1
            expected = contents(draft(rules, b"rival's"))
        if sending.number < number:
            break  # every operation has had its rival
        assert len(in_public(there)) == 1
        assert State.BEFORE not in {name.state for name in found(there)}
        if not any(name.state is State.CLAIMED for name in found(there)):
            check_all_complete(there, expected)
        assert {there[rules.layout.path(name)] for name in found(there) if name.suffix == "csv"} == {expected["csv"]}
    assert won
    assert lost


@kinds
def test_of_many_rivals_for_a_given_number_one_at_most_wins_whatever_the_order(rules: Rules) -> None:
    winners = 0
    for seed in range(25):
        chance = Random(seed)  # noqa: S311 - a schedule, no secret
        there = Directory(rules)
        rivals = [Process(there, publish(rules, draft(rules, f"of {n}".encode()), ITEM.number, given=True)) for n in range(3)]
        while alive := [rival for rival in rivals if rival.alive]:
            chance.choice(alive).step()
        won = [rival for rival in rivals if rival.done]
        assert len(won) <= 1
        assert len(in_public(there)) == len(won)
        assert all(isinstance(rival.error, SequenceTaken) for rival in rivals if rival not in won)
        assert State.BEFORE not in {name.state for name in found(there)}
        winners += len(won)
    assert winners > 15


@pytest.mark.parametrize("state", State)
@kinds
def test_a_given_number_that_exists_in_any_state_is_refused(rules: Rules, state: State) -> None:
    there = Directory(rules)
    owner = "o" if state is State.CLAIMED else ""
    there.folders.add("processing/o")
    path = rules.layout.path(Name(ITEM, rules.token_suffix("csv"), state, owner))
    there.put(path, b"whatever its content")
    with pytest.raises(SequenceTaken, match=r"number 0000000042 of group 'orders_' is in use"):
        run(there, publish(rules, draft(rules), ITEM.number, given=True))
    assert there.ls() == [path]


def test_a_double_of_an_after_image_is_that_number_too() -> None:
    there = Directory(MANIFESTS)
    there.put("A_orders_0000000042+1.csv")
    with pytest.raises(SequenceTaken):
        run(there, publish(MANIFESTS, draft(MANIFESTS), ITEM.number, given=True))


@kinds
def test_a_number_from_the_counter_that_is_in_use_all_the_same_replaces_nothing(rules: Rules) -> None:
    there = Directory(rules)
    path = rules.layout.path(Name(ITEM, "csv"))
    there.put(path, b"somebody else's")
    with pytest.raises(SequenceTaken):
        run(there, publish(rules, draft(rules), ITEM.number, given=False))
    assert there.ls() == [path]
    assert there[path] == b"somebody else's"
