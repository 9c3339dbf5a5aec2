"""A handler's effect and its `done` commit together, or neither does."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import IntegrityError

from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.errors import LedgerMoved, LedgerUnavailable
from protocol.ledger import LedgerState
from tests.gateway.ledger.crowd import crowd
from tests.gateway.ledger.full_disk import full_disk
from tests.gateway.ledger.places import Place, entry

NAME = "host-1-aaaaaa"
KEY = f"{NAME} 0"
STARTED = entry(0, owner=NAME)
TAKEN_OVER = entry(0, owner="host-2-bbbbbb", generation=2)


class Bookings:
    """The handler's own table, in the ledger's database."""

    def __init__(self, place: Place) -> None:
        self._engine = create_engine(place.url.replace("postgresql:", "postgresql+psycopg:").replace("sqlite://", "sqlite:///"))
        with self._engine.begin() as connection:
            connection.execute(text("CREATE TABLE bookings (key VARCHAR(100) PRIMARY KEY)"))

    def all(self) -> list[str]:
        """What was booked."""
        with self._engine.connect() as connection:
            return list(connection.execute(text("SELECT key FROM bookings ORDER BY key")).scalars())

    def close(self) -> None:
        """Ends the connections."""
        self._engine.dispose()


def book(connection: Connection, key: str = KEY) -> None:
    """The effect."""
    connection.execute(text("INSERT INTO bookings VALUES (:key)"), {"key": key})


def run(ledger: Ledger, *steps: Callable[[Connection], object]) -> None:
    """Runs a handler of so many steps on the key, in a transaction."""
    with ledger.transaction(KEY, STARTED, "booked") as connection:
        for step in steps:
            step(connection)


def fail(connection: Connection) -> None:
    """What a handler does that does not succeed."""
    del connection
    raise ZeroDivisionError


@pytest.fixture
def bookings(sql: Place) -> Iterator[Bookings]:
    """An empty table of the handler's."""
    with closing(Bookings(sql)) as table:
        yield table


@pytest.fixture
def started(sql: Place, bookings: Bookings) -> Iterator[Ledger]:
    """A ledger in which the key is started."""
    del bookings  # the table is made before the ledger's are
    with closing(sql.open()) as ledger:
        assert ledger.compare_and_set(KEY, None, STARTED)
        yield ledger


def test_the_effect_and_done_are_recorded_together(started: Ledger, bookings: Bookings) -> None:
    run(started, book)
    read = started.read(KEY)
    assert read is not None
    assert read == replace(STARTED, state=LedgerState.DONE, result="booked", at=read.at)
    assert read.at > STARTED.at
    assert bookings.all() == [KEY]
    assert [event.entry for event in started.history()] == [STARTED, read]


def test_a_handler_that_fails_leaves_neither(started: Ledger, bookings: Bookings) -> None:
    with pytest.raises(ZeroDivisionError):
        run(started, book, fail)
    assert started.read(KEY) == STARTED
    assert bookings.all() == []


def test_an_error_of_the_handlers_own_statement_is_the_handlers(started: Ledger, bookings: Bookings) -> None:
    with pytest.raises(IntegrityError):
        run(started, book, book)
    assert started.read(KEY) == STARTED
    assert bookings.all() == []


def test_a_key_that_was_taken_over_before_runs_no_handler(started: Ledger, bookings: Bookings) -> None:
    assert started.compare_and_set(KEY, STARTED, TAKEN_OVER)
    with pytest.raises(LedgerMoved, match="another worker"):
        run(started, fail)
    assert started.read(KEY) == TAKEN_OVER
    assert bookings.all() == []


@pytest.mark.parametrize("sql", ["postgresql"], indirect=True)
def test_a_key_that_is_taken_over_meanwhile_takes_the_effect_back(sql: Place, started: Ledger, bookings: Bookings) -> None:
    with closing(sql.open()) as other:
        taken: list[bool] = []
        with pytest.raises(LedgerMoved):
            run(started, book, lambda _: taken.append(other.compare_and_set(KEY, STARTED, TAKEN_OVER)))
        assert taken == [True]
        assert other.read(KEY) == TAKEN_OVER
        assert bookings.all() == []
        with other.transaction(KEY, TAKEN_OVER) as connection:
            book(connection)
    assert bookings.all() == [KEY]


@pytest.mark.parametrize("sql", ["sqlite"], indirect=True)
def test_in_one_file_nobody_takes_a_key_over_meanwhile(sql: Place, started: Ledger, bookings: Bookings) -> None:
    with closing(sql.open()) as other, ThreadPoolExecutor(1) as pool:
        with started.transaction(KEY, STARTED) as connection:
            taking = pool.submit(other.compare_and_set, KEY, STARTED, TAKEN_OVER)
            assert not wait([taking], timeout=0.3).done, "it waits"
            book(connection)
        assert not taking.result()
    assert bookings.all() == [KEY]


@pytest.mark.parametrize("sql", ["sqlite"], indirect=True)
def test_a_disk_that_is_full_at_the_commit_leaves_neither(sql: Place, started: Ledger, bookings: Bookings) -> None:
    log = Path(sql.url.removeprefix("sqlite://") + "-wal")
    begun = time.monotonic()
    with full_disk(log.stat().st_size + 100), pytest.raises(LedgerUnavailable, match="neither the effect nor its entry"):
        run(started, book)
    assert time.monotonic() - begun < 10, "what is left of the transaction holds nobody up"
    assert bookings.all() == []
    assert started.read(KEY) == STARTED
    run(started, book)
    assert bookings.all() == [KEY]


@pytest.mark.parametrize("sql", ["postgresql"], indirect=True)
def test_a_frozen_worker_that_wakes_after_the_key_was_taken_over_has_no_effect(sql: Place, bookings: Bookings) -> None:
    with crowd("take_part", sql.url, [NAME], 1) as (frozen,), closing(sql.open()) as other:
        assert frozen.line() == "effect"
        frozen.signal(signal.SIGSTOP)
        assert other.compare_and_set(KEY, STARTED, TAKEN_OVER), "nobody waits for one that is frozen"
        frozen.signal(signal.SIGCONT)
        frozen.go()
        assert frozen.result() == "moved"
        assert other.read(KEY) == TAKEN_OVER
    assert bookings.all() == []


def test_a_worker_that_is_killed_between_its_effect_and_the_commit_leaves_neither(sql: Place, bookings: Bookings) -> None:
    with crowd("take_part", sql.url, [NAME], 2) as (victim,):
        assert victim.line() == "effect"
        victim.go()
        assert victim.line() == "effect", "the first is committed, the second is not"
        victim.signal(signal.SIGKILL)
        assert victim.lines() == []
    with closing(sql.open()) as ledger:
        second = f"{NAME} 1"
        assert bookings.all() == [KEY]
        assert ledger.read(second) == entry(1, owner=NAME)
        following = entry(1, owner="host-2-bbbbbb", generation=2)
        assert ledger.compare_and_set(second, entry(1, owner=NAME), following), "the next one finds no lock left"
        with ledger.transaction(second, following) as connection:
            book(connection, second)
        assert [key for key, _ in ledger.unarchived()] == [KEY, second]
    assert bookings.all() == [KEY, second]
