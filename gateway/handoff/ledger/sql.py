"""A ledger in a database: SQLite for the workers of one host, PostgreSQL for workers on any number of hosts.

The compare-and-set is one statement, whose condition is the entry that was read: the database lets one of two such
statements wait for the other, and then the condition of the second no longer holds.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Select, Table, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gateway.handoff.clock import Backoff, Clock
from gateway.handoff.ledger.base import Event, Ledger, clipped
from gateway.handoff.ledger.engines import Database, is_lock_wait, may_pass, reason_of
from gateway.handoff.ledger.errors import LedgerMoved, LedgerUnavailable
from gateway.handoff.ledger.migrations import migrate
from gateway.handoff.ledger.tables import ENTRIES, EVENTS, digest_of, entry_of, is_entry, values_of
from protocol.ledger import Ended, Entry, LedgerState
from protocol.names import ItemId

T = TypeVar("T")

PATIENCE = 30.0  # seconds that a call goes on over a restart of the server
_PAGE = 500  # events read at a time
_INSERT: dict[str, Callable[[Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class SqlLedger(Ledger):
    """One consumer group's rows in a database. A thread has a connection of its own while it is in a call.

    A call is carried over the loss of a connection and a restart of the server, for `patience` seconds.
    """

    def __init__(self, database: Database, consumer: str, clock: Clock, *, patience: float = PATIENCE) -> None:
        """Connects, and brings the tables up to date. A server that does not answer is told at once.

        Raises ConfigurationError (the tables are of a later revision) and LedgerUnavailable.
        """
        self._database = database
        self._consumer = consumer
        self._clock = clock
        self._patience = patience
        self._backoff = Backoff(base=0.05, largest=2.0)
        self._pid = os.getpid()
        self._insert = _INSERT[database.writes.dialect.name]
        try:
            self._retrying(lambda: migrate(database), is_lock_wait)
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return f"the ledger {self._database.name}"

    def _swap(self, key: str, before: Entry | None, after: Entry) -> bool:
        tries = 0

        def swap(connection: Connection) -> bool:
            nonlocal tries
            tries += 1
            if self._set(connection, key, before, after):
                return True
            # The reply to an earlier try may have been lost, and not the change. The statement above has waited for it.
            return tries > 1 and self._get(connection, key) == after

        return self._within(self._database.writes, swap)

    def _set(self, connection: Connection, key: str, before: Entry | None, after: Entry) -> bool:
        named = {"consumer": self._consumer, "key": key, **values_of(after)}
        if before is None:
            change = self._insert(ENTRIES).values(key_digest=digest_of(key), **named).on_conflict_do_nothing()
        else:
            change = update(ENTRIES).where(*self._is_at(key), is_entry(ENTRIES, before)).values(values_of(after))
        # Without the option an INSERT has a row count with one of the drivers, and none with the other.
        if connection.execute(change, execution_options={"preserve_rowcount": True}).rowcount != 1:
            return False
        connection.execute(insert(EVENTS).values(named).inline())
        return True

    def _is_at(self, key: str) -> tuple[Any, Any]:
        return ENTRIES.c.consumer == self._consumer, ENTRIES.c.key_digest == digest_of(key)

    def _get(self, connection: Connection, key: str, *, lock: bool = False) -> Entry | None:
        query = select(ENTRIES).where(*self._is_at(key))
        row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
        return None if row is None else entry_of(row)

    def read(self, key: str) -> Entry | None:
        return self._within(self._database.reads, lambda connection: self._get(connection, key))

    def unarchived(self) -> list[tuple[str, Entry]]:
        query = select(ENTRIES).where(ENTRIES.c.consumer == self._consumer, ENTRIES.c.state == LedgerState.DONE.value)
        return [(row["key"], entry_of(row)) for row in self._rows(query)]

    def history(self, item: ItemId | None = None, key: str | None = None, since: str | None = None) -> Iterator[Event]:
        query = select(EVENTS).where(EVENTS.c.consumer == self._consumer).order_by(EVENTS.c.id).limit(_PAGE)
        if item is not None:
            query = query.where(EVENTS.c.item_group == item.group, EVENTS.c.item_number == item.number)
        if key is not None:
            query = query.where(EVENTS.c.key == key)
        if since is not None:
            query = query.where(EVENTS.c.at >= since)
        last = 0
        # In pages, each of which can be asked for again; and nobody's transaction stays open while a reader thinks.
        while rows := self._rows(query.where(EVENTS.c.id > last)):
            yield from (Event(row["at"], row["key"], entry_of(row)) for row in rows)
            last = rows[-1]["id"]

    def highest_settled(self, group: str) -> int | None:
        number = ENTRIES.c.item_number
        settled = or_(ENTRIES.c.state != LedgerState.STARTED.value, ENTRIES.c.ended.in_((Ended.ERROR.value, Ended.CUT.value)))
        query = select(number).where(ENTRIES.c.consumer == self._consumer, ENTRIES.c.item_group == group, settled)
        rows = self._rows(query.order_by(number.desc()).limit(1))
        return rows[0]["item_number"] if rows else None

    def _rows(self, query: Select[Any]) -> list[Any]:
        return self._within(self._database.reads, lambda connection: list(connection.execute(query).mappings()))

    @contextmanager
    def transaction(self, key: str, started: Entry, result: str = "") -> Iterator[Connection]:
        """As in `Ledger`. With SQLite nobody else can write to the ledger meanwhile: a handler should take seconds at most."""
        started = clipped(started)
        done = clipped(replace(started, state=LedgerState.DONE, at=self._clock.utc(), result=result))
        connection = self._retrying(lambda: self._begun(key, started), may_pass)
        with connection:
            yield connection
            # Not before the effect: in PostgreSQL that would lock the entry for as long as the handler takes, and a
            # worker that takes over from one that is frozen would have to wait for it.
            try:
                recorded = self._set(connection, key, started, done)
            except SQLAlchemyError as error:
                raise self._unavailable(error, "neither the effect nor its entry was recorded") from error
            if not recorded:
                raise self._moved(key)
            try:
                connection.commit()
            except SQLAlchemyError as error:
                connection.close()  # what is left of it may hold the lock that looking takes
                self._look_after(error, key, done)

    def _begun(self, key: str, started: Entry) -> Connection:
        """A connection in a transaction, in which the key is found as it should be."""
        connection = self._engine(self._database.writes).connect()
        try:
            if self._get(connection, key) != started:
                raise self._moved(key)
        except BaseException:
            connection.close()
            raise
        return connection

    def _look_after(self, error: SQLAlchemyError, key: str, done: Entry) -> None:
        """Finds out what became of a commit whose reply was lost; returns where it was made."""

        def was_recorded(connection: Connection) -> bool:
            self._get(connection, key, lock=True)  # waits for a commit that is still under way at the server
            found = select(func.count()).where(EVENTS.c.consumer == self._consumer, EVENTS.c.key == key, is_entry(EVENTS, done))
            return connection.execute(found).scalar_one() > 0

        if not self._within(self._database.writes, was_recorded):
            raise self._unavailable(error, "neither the effect nor its entry was recorded") from error

    def _moved(self, key: str) -> LedgerMoved:
        return LedgerMoved(f"{self} holds another entry for {key!r} by now: another worker has taken it over")

    def close(self) -> None:
        self._engine(self._database.writes).dispose()

    def _within(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        """Does a piece of work in a transaction, and again after a failure that may pass."""

        def once() -> T:
            with self._engine(engine).begin() as connection:
                return work(connection)

        return self._retrying(once, may_pass)

    def _retrying(self, work: Callable[[], T], passes: Callable[[DBAPIError], bool]) -> T:
        deadline = self._clock.monotonic() + self._patience
        attempt = 0
        while True:
            try:
                return work()
            except SQLAlchemyError as error:
                attempt += 1
                pause = self._backoff.delay(attempt, self._clock)
                if not (isinstance(error, DBAPIError) and passes(error)) or self._clock.monotonic() + pause > deadline:
                    raise self._unavailable(error) from error
                self._clock.sleep(pause)

    def _unavailable(self, error: SQLAlchemyError, known: str = "") -> LedgerUnavailable:
        known = f" ({known})" if known else ""
        return LedgerUnavailable(f"{self} cannot be used: {reason_of(error)}{known}; {self._database.advice}")

    def _engine(self, engine: Engine) -> Engine:
        if os.getpid() != self._pid:
            # We are a forked child: the connections are our parent's, who uses them, and must not even be closed.
            engine.dispose(close=False)
            self._pid = os.getpid()
        return engine
