"""Of several that set out from one entry, one gets on: threads of a process, and real processes."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from threading import Barrier

import pytest

from gateway.handoff.ledger.base import Ledger
from tests.gateway.ledger.crowd import crowd
from tests.gateway.ledger.places import Place
from tests.gateway.ledger.worker import count, win

NAMES = [f"host-{n}-aaaaaa" for n in range(8)]
KEYS = 200


def check_winners(ledger: Ledger, won: dict[str, list[int]]) -> None:
    """Each key was won once, by the one whose entry it has; and there was no other change."""
    assert sorted(chain(*won.values())) == list(range(KEYS))
    owners = {name: [n for n in range(KEYS) if owner_of(ledger, n) == name] for name in won}
    assert owners == won
    assert len(list(ledger.history())) == KEYS


def owner_of(ledger: Ledger, number: int) -> str | None:
    """Whose entry a key has."""
    read = ledger.read(f"key {number}")
    return None if read is None else read.owner


def check_count(ledger: Ledger, raised: list[list[int]], total: int) -> None:
    """Each generation was written by one, and the history tells them in their order."""
    assert sorted(chain(*raised)) == list(range(1, total + 1))
    assert [event.entry.generation for event in ledger.history()] == list(range(1, total + 1))


@pytest.mark.timeout(200)
def test_of_eight_processes_exactly_one_wins_each_key(lasting: Place) -> None:
    with crowd("win", lasting.url, NAMES, KEYS) as processes:
        won = {process.name: process.result() for process in processes}
    with closing(lasting.open()) as ledger:
        check_winners(ledger, won)


@pytest.mark.timeout(200)
def test_eight_processes_that_fight_for_one_key_take_turns(lasting: Place) -> None:
    with crowd("count", lasting.url, NAMES, 5) as processes:
        raised = [process.result() for process in processes]
    with closing(lasting.open()) as ledger:
        check_count(ledger, raised, 40)


def test_of_eight_threads_exactly_one_wins_each_key(ledger: Ledger) -> None:
    start = Barrier(len(NAMES))

    def run(name: str) -> list[int]:
        start.wait()
        return win(ledger, name, KEYS)

    with ThreadPoolExecutor(len(NAMES)) as pool:
        won = dict(zip(NAMES, pool.map(run, NAMES), strict=True))
    check_winners(ledger, won)


def test_eight_threads_that_fight_for_one_key_take_turns(ledger: Ledger) -> None:
    with ThreadPoolExecutor(len(NAMES)) as pool:
        raised = list(pool.map(lambda name: count(ledger, name, 5), NAMES))
    check_count(ledger, raised, 40)


def test_parent_and_child_of_a_fork_both_go_on_with_an_open_ledger(lasting: Place) -> None:
    with crowd("fork", lasting.url, NAMES[:1], 40) as (process,):
        assert sorted(process.result()) == list(range(40))
    with closing(lasting.open()) as ledger:
        assert len(list(ledger.history())) == 40
