"""What must hold after any crash: nothing lost, nothing processed again without being told, and a drop that heals."""

import threading
import time
from collections import Counter
from collections.abc import Iterable

from gateway.handoff.ledger.base import Event
from gateway.handoff.ledger.open import open_ledger
from gateway.handoff.owner import new_owner
from gateway.handoff.sweeper import Sweeper
from gateway.service.loop import Loop
from protocol.ledger import Ended, LedgerState
from protocol.procedures.sweep import Unwanted
from protocol.recovery import Ages
from protocol.states import State
from tests.crash.jobs import CONSUMER, Effect, Work, key_of, lines
from tests.crash.place import GROUP, TTL, Place

_PATIENCE = 30.0  # seconds for a drop to be healed


def history(place: Place) -> list[Event]:
    """Everything that the ledger remembers."""
    with open_ledger(place.ledger_url, CONSUMER) as ledger:
        return list(ledger.history())


def heal(place: Place, *, transaction: bool = False) -> None:
    """What an operator may count on when everybody is dead: one sweep that clears away, and one consumer."""
    deadline = time.monotonic() + _PATIENCE
    while unhealed(place):
        assert time.monotonic() < deadline, f"the drop does not heal: {unhealed(place)}"
        sweep(place)
        consume_here(place, transaction=transaction)
        time.sleep(0.2)


def unhealed(place: Place) -> list[str]:
    """Files that must not be there once all is done: whatever is no after image and no counter."""
    after = {place.rules.layout.path(n) for view in place.snapshot().in_state(State.AFTER) for n, _ in view.files}
    return [name for name in place.names() if name not in after and not name.startswith("S_")]


def sweep(place: Place) -> None:
    """One sweep by itself, which deletes what nobody finishes, however young it is."""
    drop = place.drop()
    with open_ledger(place.ledger_url, CONSUMER) as ledger, drop.driver(ledger) as driver:
        sweeper = Sweeper(driver, drop.rules, new_owner(drop.clock), Ages(before=0.0), Unwanted.DELETE)
        list(sweeper.sweep(sweeper.plan()))


def consume_here(place: Place, *, transaction: bool = False) -> None:
    """A consumer in this process, until nothing is left."""
    drop, stop = place.drop(), threading.Event()
    handler = Effect(Work(place, transaction=transaction))
    with (
        open_ledger(place.ledger_url, CONSUMER) as ledger,
        drop.heartbeat(TTL) as heartbeat,
        drop.consumer((GROUP,), handler, lambda event: None, ledger=ledger, heartbeat=heartbeat) as consumer,
    ):
        Loop(stop, drop.clock, lambda error: None).run_once(consumer)


def check_effects(place: Place, numbers: Iterable[int], *, interruptions: int) -> None:
    """Every item's effect is there, and more than once only after as many runs were cut and the next was told."""
    effects = [line for line in lines(place.effects) if not line["replay"]]
    begun = Counter(
        event.key for event in history(place) if event.entry.state is LedgerState.STARTED and event.entry.ended is Ended.OPEN
    )
    for key in map(key_of, numbers):
        of_key = [line for line in effects if line["key"] == key]
        assert of_key, f"{key} is lost"
        assert len(of_key) <= begun[key] <= 1 + interruptions, (key, of_key, begun[key])
        untold = [line for line in of_key if not line["redelivered"]]
        assert len(untold) <= 1, f"{key} was processed again, and the handler was not told: {of_key}"


def check_healed(place: Place, numbers: Iterable[int]) -> None:
    """The drop shows after images and counters, and nothing else: no claim, no lease, no scratch, no half of anything."""
    left = unhealed(place)
    assert not left, f"these are left: {left}"
    shot = place.snapshot()
    assert not shot.leases
    assert not shot.problems
    # A producer that was cut and sent again has handed over twice, under one key.
    assert len(shot.in_state(State.AFTER)) >= len(list(numbers))
