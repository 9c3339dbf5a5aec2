"""The journal in the ledger's database: rows written in batches in the background, and read by item, route or time.

A database that is slow or away holds nothing up: what does not fit the queue meanwhile is counted, and stands in the file.
"""

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from gateway.errors import GatewayError
from gateway.handoff.ledger.errors import LedgerUnavailable
from gateway.handoff.ledger.open import open_database
from gateway.service.transitions import Transition

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

    from gateway.handoff.ledger.engines import Database
    from gateway.service.journal import Wanted

_QUEUE = 10_000  # rows that wait at most
_BATCH = 500  # rows in one transaction
_PAGE = 500  # rows read at a time
_LONGEST_PAUSE = 30.0  # seconds between two tries


@dataclass(slots=True)
class TableWriter:
    """Writes what it is given, in order, by a thread of its own. `lost` counts what was given up.

    `tell` is told of trouble once, and with "" once it is over.
    """

    url: str
    tell: Callable[[str], None]
    lost: int = 0
    _queue: deque[dict[str, Any]] = field(default_factory=deque)
    _writer: str = field(default_factory=lambda: uuid.uuid4().hex)
    _serial: int = 0
    _closing: bool = False
    _troubled: bool = False
    _wake: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        # A daemon cannot keep a process that somebody wants gone.
        self._thread = threading.Thread(target=self._run, name="journal-database", daemon=True)
        self._thread.start()

    def add(self, transition: Transition) -> None:
        """Queues a row, or counts it as lost where the queue is full. Waits for nothing."""
        with self._wake:
            if self._closing or len(self._queue) >= _QUEUE:
                self.lost += 1
                return
            self._serial += 1
            self._queue.append(_row(transition) | {"writer": self._writer, "serial": self._serial})
            self._wake.notify()

    def close(self, timeout: float) -> None:
        """Writes what is queued, for `timeout` seconds at most; the rest is counted as lost."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(timeout)
        with self._wake:
            self.lost += len(self._queue)
            self._queue.clear()

    def _run(self) -> None:
        database: Database | None = None
        pause = 0.0
        while (batch := self._next(pause)) is not None:
            try:
                if database is None:
                    database = _prepared(self.url)
                _insert(database, batch)
            except Exception as error:  # noqa: BLE001 - it goes on in the background whatever a driver raises, and is told
                pause = min(max(pause * 2, 0.5), _LONGEST_PAUSE)
                self._trouble(_reason(error))
            else:
                pause = 0.0
                self._written(len(batch))
                self._trouble("")
        if database is not None:
            database.writes.dispose()

    def _next(self, pause: float) -> list[dict[str, Any]] | None:
        """The next rows, after a pause, once there are some; None: it is closed, and they are written or cannot be."""
        with self._wake:
            if pause and not self._closing:
                self._wake.wait_for(lambda: self._closing, pause)
            elif pause:
                return None
            self._wake.wait_for(lambda: self._queue or self._closing)
            return list(islice(self._queue, _BATCH)) if self._queue else None

    def _written(self, count: int) -> None:
        with self._wake:
            for _ in range(min(count, len(self._queue))):
                self._queue.popleft()

    def _trouble(self, text: str) -> None:
        if bool(text) != self._troubled:
            self._troubled = bool(text)
            self.tell(text)


def _prepared(url: str) -> "Database":
    from gateway.handoff.ledger.migrations import migrate

    database = open_database(url)
    try:
        migrate(database)
    except BaseException:
        database.writes.dispose()
        raise
    return database


def _insert(database: "Database", rows: list[dict[str, Any]]) -> None:
    from sqlalchemy.dialects import postgresql, sqlite

    from gateway.handoff.ledger.tables import JOURNAL

    make: Callable[..., Any] = sqlite.insert if database.writes.dialect.name == "sqlite" else postgresql.insert
    with database.writes.begin() as connection:
        # A batch whose reply was lost is sent again; what of it is there is left.
        connection.execute(make(JOURNAL).on_conflict_do_nothing(), rows)


def _reason(error: Exception) -> str:
    from sqlalchemy.exc import SQLAlchemyError

    from gateway.handoff.ledger.engines import reason_of

    if isinstance(error, SQLAlchemyError):
        return reason_of(error)  # without the statement and its values
    return str(error) if isinstance(error, GatewayError | OSError) else type(error).__name__


def _row(one: Transition) -> dict[str, Any]:
    return {
        "at": one.at,
        "what": one.what.value,
        "route": one.route,
        "source": one.drop,
        "destination": one.destination,
        "item_group": one.group,
        "item": one.item,
        "key": one.key,
        "attempt": one.attempt,
        "owner": one.owner,
        "bytes": one.bytes,
        "seconds": one.seconds,
        "message": one.text,
        "trace": one.trace,
    }


def _transition(row: "RowMapping") -> Transition | None:
    group = row["item_group"]
    renamed = {
        "drop": row["source"],
        "group": group,
        "sequence": row["item"].removeprefix(group),
        "text": row["message"],
    }
    return Transition.of_record(dict(row) | renamed)


def read_table(url: str, wanted: "Wanted", limit: int | None = None) -> Iterator[Transition]:
    """The transitions in a database, in the order in which they were written; with `limit`, the last so many of them.

    Several services may write to one database; all of theirs are given. Raises ConfigurationError, LedgerUnavailable.
    """
    from sqlalchemy import or_, select
    from sqlalchemy.exc import SQLAlchemyError

    from gateway.handoff.ledger.tables import JOURNAL

    query = select(JOURNAL)
    for name in ("item", "route", "key"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(JOURNAL.c[name] == value)
    if wanted.since is not None:
        query = query.where(JOURNAL.c.at >= wanted.since)
    if wanted.drop is not None:
        query = query.where(or_(JOURNAL.c.source == wanted.drop, JOURNAL.c.destination == wanted.drop))
    database = _prepared_for(url)
    try:
        first = 0
        if limit is not None:
            if limit <= 0:
                return
            latest = select(query.order_by(JOURNAL.c.id.desc()).limit(limit).subquery().c.id)
            with database.reads.begin() as connection:
                first = min(connection.execute(latest).scalars(), default=1) - 1
        paged = query.order_by(JOURNAL.c.id).limit(_PAGE)
        while True:
            # In pages: while a reader thinks, no transaction is open.
            with database.reads.begin() as connection:
                rows = list(connection.execute(paged.where(JOURNAL.c.id > first)).mappings())
            if not rows:
                return
            yield from (one for row in rows if (one := _transition(row)) is not None)
            first = rows[-1]["id"]
    except SQLAlchemyError as error:
        raise LedgerUnavailable(f"the journal in {database.name} cannot be read: {_reason(error)}") from error
    finally:
        database.writes.dispose()


def _prepared_for(url: str) -> "Database":
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return _prepared(url)
    except SQLAlchemyError as error:
        raise LedgerUnavailable(f"the journal's database cannot be used: {_reason(error)}") from error
