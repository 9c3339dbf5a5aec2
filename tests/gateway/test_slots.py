"""Connections that an endpoint takes only so many of."""

import threading
import time
from pathlib import Path

import pytest

from gateway.drop import Drop
from gateway.errors import ConfigurationError
from gateway.handoff.slots import Slots
from gateway.settings import load
from transports.errors import Unreachable


def test_one_is_kept_for_what_keeps_the_work() -> None:
    slots = Slots(2, patience=0.05)
    slots.take()
    with pytest.raises(Unreachable, match="all 2 connections that max_connections allows were in use"):
        slots.take()
    slots.take(short=True)
    with pytest.raises(Unreachable):
        slots.take(short=True)


def test_whoever_came_first_goes_first() -> None:
    slots, order = Slots(2), list[int]()
    slots.take()

    def use(number: int) -> None:
        slots.take()
        order.append(number)
        slots.give_back()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(5)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        while len(slots._waiting) < number:
            time.sleep(0.001)
    assert slots.scarce
    slots.give_back()
    for thread in threads:
        thread.join(10)
    assert order == [0, 1, 2, 3, 4]


def test_a_connection_that_cannot_be_made_holds_none(tmp_path: Path) -> None:
    slots = Slots(2, patience=0.05)
    drop = Drop.at(str(tmp_path / "nowhere"))
    for _ in range(5):
        with pytest.raises(Exception, match="is not there"):
            Drop(drop.endpoint, slots=slots).producer()
    slots.take()


def test_an_idle_connection_is_closed_for_whoever_waits(tmp_path: Path) -> None:
    slots = Slots(2, patience=0.05)
    drop = Drop(Drop.at(str(tmp_path)).endpoint, slots=slots)
    with drop.producer() as idle:
        with pytest.raises(Unreachable):
            drop.producer()
        idle.driver.connection.rest()
        with drop.producer():
            pass


def test_a_limit_with_which_a_route_could_never_work_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dropgate.toml"
    path.write_text(
        '[endpoint.e]\nurl = "x"\nmax_connections = 2\n'
        '[drop.a]\nendpoint = "e"\ndirectory = "a"\ngroups = ["g_"]\n[drop.b]\nendpoint = "e"\ndirectory = "b"\n'
        '[[route]]\nfrom = "a"\nto = "b"\n'
    )
    with pytest.raises(ConfigurationError, match=r"endpoint\.e\.max_connections.*a route has both ends here"):
        load(path)
