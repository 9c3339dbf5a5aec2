"""Killed at each single step: of a publication, and of an item's way through a consumer."""

import os
from itertools import count

import pytest

from protocol.states import State
from tests.crash.checks import check_effects, check_healed, consume_here, heal, unhealed
from tests.crash.jobs import Work, consume, produce
from tests.crash.place import Place
from tests.crash.processes import Crew

_SPREAD = {"local": 1, "sftp": 4, "smb": 4}  # every so many of the steps
_MOST = 200


def below(place: Place, name: str) -> Place:
    """A fresh drop below this one, with the same ledger."""
    seen = place.seen / name
    seen.mkdir()
    owner = place.seen.stat()
    os.chown(seen, owner.st_uid, owner.st_gid)
    return place.changed(url=f"{place.url}/{name}", seen=seen)


@pytest.mark.parametrize("inside", [False, True], ids=["before", "inside"])
def test_a_producer_killed_at_any_step_and_started_again(laid_out: Place, hands: Crew, inside: bool) -> None:
    """Its item is handed over, perhaps under two numbers and always under one key, and processed once."""
    place = laid_out
    steps = _SPREAD[place.kind]
    for number in count():
        assert number < _MOST
        if hands.run(produce, Work(place, first=number, die_at=1 + number * steps, inside=inside)):
            break
        assert hands.run(produce, Work(place, first=number))
    assert number * steps >= 5, "a publication has more steps than that"
    heal(place)
    check_healed(place, range(number + 1))
    check_effects(place, range(number + 1), interruptions=0)


def test_a_consumer_killed_at_any_step_and_another_one_after_it(laid_out: Place, hands: Crew) -> None:
    """The next one, at once, has the item and finishes it; a run that was cut is told to the handler."""
    place = laid_out
    steps = _SPREAD[place.kind]
    cut = 0
    for number in count():
        assert number < _MOST
        one = below(place, f"d{number}")
        produce(Work(one, first=number))
        survived = hands.run(consume, Work(one, once=True, die_at=1 + number * steps))
        if not survived:
            consume_here(one)
            cut += 1
        if unhealed(one):
            heal(one)
        check_healed(one, [number])
        check_effects(one, [number], interruptions=1)
        assert len(one.tokens(State.AFTER)) == 1
        if survived:
            break
    assert cut * steps > 20, "a consumer has more steps than that"
