"""A consumer that writes receipts, killed at each single step: every image that is put away has its receipt, whole."""

from dataclasses import replace
from itertools import count
from pathlib import Path

from protocol.receipt import Receipt, parse_receipt
from protocol.rules import Signal
from protocol.states import State
from tests.crash.checks import consume_here, heal, unhealed
from tests.crash.jobs import Work, consume, produce
from tests.crash.place import Place
from tests.crash.processes import Crew
from tests.crash.test_steps import below

_SPREAD = {"local": 1, "sftp": 9, "smb": 9}  # every so many of the steps
_MOST = 250


def _with_receipts(place: Place, signal: Signal = Signal.MANIFEST) -> Place:
    return place.changed(rules=replace(place.rules, receipts=True, signal=signal))


def _receipts(place: Place) -> list[Receipt]:
    """Every receipt that a reader of the drop would find, parsed as it would."""
    return [parse_receipt(path.read_bytes()) for path in sorted(Path(place.seen).rglob("*receipt.json"))]


def _check_put_away(place: Place) -> None:
    """At any moment: whose token is an after image has its receipt, but for one that is its own token."""
    if place.rules.signal is not Signal.NONE and place.tokens(State.AFTER):
        assert len(_receipts(place)) == 1


def test_killed_at_any_step_an_item_that_is_put_away_has_one_receipt(laid_out: Place, hands: Crew) -> None:
    _check_at_every_step(_with_receipts(laid_out), hands)


def test_an_item_that_is_its_own_token_has_it_once_all_is_healed(local: Place, hands: Crew) -> None:
    _check_at_every_step(_with_receipts(local, Signal.NONE), hands)


def _check_at_every_step(place: Place, hands: Crew) -> None:
    steps = _SPREAD[place.kind]
    cut = 0
    for number in count():
        assert number < _MOST
        # With a ledger of its own: without a manifest the key of each of them is that of the number.
        one = below(place, f"d{number}").changed(ledger=f"sqlite://{place.scratch}/ledger-{number}.db")
        produce(Work(one, first=number))
        survived = hands.run(consume, Work(one, once=True, die_at=1 + number * steps))
        _check_put_away(one)
        if not survived:
            consume_here(one)
            cut += 1
        if unhealed(one):
            heal(one)
        (receipt,) = _receipts(one)
        (token,) = one.tokens(State.AFTER)
        assert (receipt.outcome, receipt.complete) == ("processed", True)
        assert receipt.item == f"{token.item.group}{token.item.number:010}"
        assert receipt.run in (1, 2), "that of the run which was recorded"
        if survived:
            break
    assert cut * steps > 15, "a consumer has more steps than that"


def test_a_drop_without_receipts_has_none(local: Place, hands: Crew) -> None:
    produce(Work(local))
    assert hands.run(consume, Work(local, once=True))
    assert _receipts(local) == []
