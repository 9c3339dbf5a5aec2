"""Processes killed and frozen at any moment, and a database server that goes away: what was told is recorded."""

import signal
import time
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from gateway.handoff.ledger.base import Ledger
from protocol.ledger import LedgerState
from testenv.postgres import Postgres
from tests.gateway.ledger.crowd import ALL, Process, crowd
from tests.gateway.ledger.places import Place

STATES = [state.value for state in LedgerState]
FOUR = [f"host-{n}-aaaaaa" for n in range(4)]


def check_said(ledger: Ledger, said: list[Any]) -> None:
    """Every change that a process had told of is recorded; after its last one, at most one more."""
    last = dict(tuple(line) for line in said if isinstance(line, list))
    for key, state in last.items():
        read = ledger.read(key)
        assert read is not None, key
        assert STATES.index(read.state.value) - STATES.index(state) in (0, 1), (key, state, read)


def check_history(ledger: Ledger) -> None:
    """Each key went through its states in their order, and through none twice."""
    states: dict[str, list[str]] = {}
    for event in ledger.history():
        states.setdefault(event.key, []).append(event.entry.state.value)
    assert all(went == STATES[: len(went)] for went in states.values())


def read_lines(process: Process, count: int) -> list[Any]:
    """The next lines that it says."""
    return [process.line() for _ in range(count)]


@pytest.mark.parametrize("after", [1, 8, 30])
def test_what_a_killed_process_told_of_is_recorded(lasting: Place, after: int) -> None:
    with crowd("write", lasting.url, FOUR[:2], 30) as (victim, survivor):
        said = read_lines(victim, after)
        victim.signal(signal.SIGKILL)
        said += victim.lines()
        assert survivor.result() == "all", "the other one has not noticed"
    with closing(lasting.open()) as ledger:
        assert said
        check_said(ledger, said)
        check_history(ledger)
        assert sum(state == "archived" for state in states(ledger, FOUR[1])) == 30


def states(ledger: Ledger, name: str) -> list[str]:
    """The present states of one process' keys."""
    present = {event.key: event.entry.state.value for event in ledger.history()}
    return [state for key, state in present.items() if key.startswith(name)]


@pytest.mark.parametrize("lasting", ["journal"], indirect=True)
@pytest.mark.timeout(200)
def test_a_journal_that_is_compacted_while_four_processes_append_loses_nothing(lasting: Place) -> None:
    with crowd("write", lasting.url, FOUR, 60) as processes:
        said = [process.lines() for process in processes]
    assert [lines[-1] for lines in said] == ["all"] * 4
    with closing(lasting.open()) as ledger:
        check_history(ledger)
        assert Counter(event.entry.state for event in ledger.history()) == dict.fromkeys(LedgerState, 4 * 60)
        assert not ledger.unarchived()
    assert compactions(lasting) >= 3


def compactions(place: Place) -> int:
    """How often the journal was compacted."""
    (folder,) = place.folder.iterdir()
    return max(int(path.stem) for path in folder.glob("*.journal")) - 1


@pytest.mark.parametrize("lasting", ["journal"], indirect=True)
@pytest.mark.parametrize("keep", [ALL, 0])
@pytest.mark.timeout(200)
def test_a_journal_survives_processes_that_are_killed_and_frozen_while_it_is_compacted(lasting: Place, keep: int) -> None:
    with crowd("write", lasting.url, FOUR, 50, keep=keep) as (victim, frozen, *others):
        said = read_lines(victim, 20)
        # Anywhere, between a seal and the next file as well: it is compacted at every other change.
        for _ in range(10):
            frozen.signal(signal.SIGSTOP)
            time.sleep(0.05)
            frozen.signal(signal.SIGCONT)
            time.sleep(0.01)
        victim.signal(signal.SIGKILL)
        said += victim.lines()
        assert [process.result() for process in (frozen, *others)] == ["all"] * 3
    with closing(lasting.open()) as ledger:
        check_said(ledger, said)
        assert sum(state == "archived" for name in FOUR[1:] for state in states(ledger, name)) == 150
        if keep:
            check_history(ledger)


@pytest.mark.timeout(200)
def test_a_server_that_is_restarted_and_crashes_costs_time_and_nothing_else(postgres: Postgres) -> None:
    place = Place("postgresql", postgres.empty_database())
    with crowd("write", place.url, FOUR, 30) as processes:
        read_lines(processes[0], 10)
        postgres.restart()
        read_lines(processes[0], 10)
        postgres.restart(signal.SIGQUIT)
        assert [process.result() for process in processes] == ["all"] * 4
    with closing(place.open()) as ledger:
        check_history(ledger)
        assert Counter(event.entry.state for event in ledger.history()) == dict.fromkeys(LedgerState, 4 * 30)
