"""A route of one item, in a process that kills itself at one of its steps: those of every connection, and of every record."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from threading import Event
from typing import Any

import gateway.drop
import gateway.handoff.abandoned
from gateway.drop import Drop
from gateway.handoff.clock import Clock
from gateway.handoff.driver import Driver
from gateway.handoff.ledger.open import open_ledger
from gateway.service.board import Board
from gateway.service.daemon import Daemon
from gateway.service.records import Records
from gateway.service.runner import End, Route
from gateway.service.transitions import Hub
from protocol.states import State
from tests.crash.jobs import CONSUMER, Work
from tests.crash.place import GROUP, Place
from tests.crash.steps import Steps, die


@dataclass(frozen=True)
class Forwarding(Work):
    """A route from the place to some targets, by their names."""

    targets: tuple[tuple[str, Place], ...] = ()
    counter: bool = False


def route_of(work: Forwarding) -> Route:
    """The route as a configuration would say it."""
    place = work.place
    return Route(
        "the route",
        Drop(place.endpoint, place.rules),
        tuple(
            End(name, Drop(target.endpoint, target.rules), partial(open_ledger, place.ledger_url, f"{CONSUMER} > {name}"))
            for name, target in work.targets
        ),
        (GROUP,),
        lease_ttl=work.ttl,
        ledger=partial(open_ledger, place.ledger_url, CONSUMER),
        counter=work.counter,
        poll=work.poll,
    )


def forward(work: Forwarding) -> None:
    """Runs the route until its item is an after image, or this process dies."""
    if work.die_at:
        _make_mortal(Steps(work.die_at, work.inside))
    # What a writer that was cut has left need not stand still for a whole minute here.
    gateway.handoff.abandoned.ABANDONED_AFTER = 1.0  # as if more time had passed
    clock, stop = Clock(), Event()
    daemon = Daemon(Board(clock.utc), Hub(), stop, clock)
    daemon.apply([route_of(work)])

    def turn() -> None:
        if work.place.tokens(State.AFTER):
            stop.set()

    daemon.run(turn)


def _make_mortal(steps: Steps) -> None:
    class Mortal(Driver):
        def _carry_out(self, operation: Any) -> Any:
            return super()._carry_out(steps.about_to(operation))

    gateway.drop.Driver = Mortal  # type: ignore[attr-defined] # the fault: every driver of this process can die
    for name in ("intend", "renumber", "published"):
        setattr(Records, name, _deadly(getattr(Records, name), steps))


def _deadly(write: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    @wraps(write)
    def or_die(*args: Any, **kwargs: Any) -> Any:
        steps.taken += 1
        steps.names.append(write.__name__)
        if steps.taken == steps.at:
            die()
        done = write(*args, **kwargs)
        steps.taken += 1
        if steps.taken == steps.at:
            die()
        return done

    return or_die
