"""A connection to PostgreSQL that dies inside a change: whether it was made is found out, and never guessed."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread

import pytest
from sqlalchemy import URL, create_engine, make_url, text

from gateway.handoff.clock import Clock
from gateway.handoff.ledger.engines import postgresql_database
from gateway.handoff.ledger.errors import LedgerUnavailable
from gateway.handoff.ledger.open import open_ledger
from gateway.handoff.ledger.sql import SqlLedger
from protocol.ledger import LedgerState
from testenv.postgres import Postgres
from testenv.proxy import Proxy
from testenv.spec import free_port
from tests.gateway.ledger.places import TEAM, Place, entry, shown_secrets
from tests.gateway.ledger.test_transaction import KEY as BOOKED
from tests.gateway.ledger.test_transaction import STARTED as BOOKED_STARTED
from tests.gateway.ledger.test_transaction import Bookings, book, run

KEY, STARTED = "k", entry()
FOLLOWING = entry(generation=2)


@pytest.fixture
def place(postgres: Postgres) -> Place:
    """An empty database, reached directly."""
    return Place("postgresql", postgres.empty_database())


@pytest.fixture
def proxy(postgres: Postgres, proxy_factory: Callable[[str, int], Proxy]) -> Proxy:
    """A bad network in front of the server."""
    return proxy_factory(postgres.host, postgres.port)


@pytest.fixture
def ledger(place: Place, proxy: Proxy) -> Iterator[SqlLedger]:
    """A ledger that is reached through it."""
    with closing(SqlLedger(postgresql_database(through(place, proxy)), TEAM, Clock(), patience=5)) as ledger:
        yield ledger


def through(place: Place, proxy: Proxy) -> URL:
    """The URL of the place by way of the proxy, in clear, so that a commit can be seen on its way."""
    return make_url(place.url).set(port=proxy.port, query={"sslmode": "disable"})


def is_commit(data: bytes) -> bool:
    """Whether the client asks for a commit."""
    return b"COMMIT" in data


@contextmanager
def cut_while_committing(place: Place, proxy: Proxy) -> Iterator[None]:
    """The first commit takes the server a second, and the connection is gone before it has ended."""
    slow = """
        CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON dropgate_entries
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow();
    """
    with closing(Direct(place)) as direct:
        direct.run(slow)
    asked = Event()

    def is_first(data: bytes) -> bool:
        if is_commit(data):
            asked.set()
        return False

    def cut() -> None:
        if asked.wait(30):
            time.sleep(0.2)  # it has to arrive
            proxy.cut()

    cutter = Thread(target=cut)
    cutter.start()
    proxy.cut_reply_after(is_first)
    yield
    cutter.join()
    assert asked.is_set()


class Direct:
    """A connection of the tests' own."""

    def __init__(self, place: Place) -> None:
        self._engine = create_engine(make_url(place.url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")

    def run(self, statements: str) -> None:
        """Runs them."""
        with self._engine.connect() as connection:
            connection.execute(text(statements))

    def close(self) -> None:
        """Ends the connection."""
        self._engine.dispose()


def test_a_change_whose_reply_is_lost_is_found_to_be_ours(ledger: SqlLedger, proxy: Proxy) -> None:
    for before, after in ((None, STARTED), (STARTED, FOLLOWING)):
        proxy.cut_reply_after(is_commit)
        assert ledger.compare_and_set(KEY, before, after)
        assert ledger.read(KEY) == after
    assert proxy.replies_cut == 2
    assert [event.entry for event in ledger.history()] == [STARTED, FOLLOWING], "neither was made twice"


def test_a_change_whose_reply_is_lost_and_which_lost_the_race_is_found_to_be_anothers(ledger: SqlLedger, proxy: Proxy) -> None:
    assert ledger.compare_and_set(KEY, None, STARTED)
    proxy.cut_reply_after(is_commit)
    assert not ledger.compare_and_set(KEY, None, entry(owner="host-2-bbbbbb"))
    assert proxy.replies_cut == 1
    assert ledger.read(KEY) == STARTED


def test_a_commit_that_is_still_under_way_is_waited_for(place: Place, ledger: SqlLedger, proxy: Proxy) -> None:
    with cut_while_committing(place, proxy):
        assert ledger.compare_and_set(KEY, None, STARTED)
    assert ledger.read(KEY) == STARTED
    assert [event.entry for event in ledger.history()] == [STARTED]


def test_a_transaction_whose_commit_is_not_answered_has_committed(place: Place, ledger: SqlLedger, proxy: Proxy) -> None:
    with closing(Bookings(place)) as bookings:
        assert ledger.compare_and_set(KEY, None, STARTED)
        with ledger.transaction(KEY, STARTED, "booked") as connection:
            book(connection)
            proxy.cut_reply_after(is_commit)
        assert proxy.replies_cut == 1
        assert bookings.all() == [BOOKED]
        assert [event.entry.state for event in ledger.history()] == [LedgerState.STARTED, LedgerState.DONE]


def test_a_transaction_whose_commit_is_still_under_way_is_waited_for(place: Place, ledger: SqlLedger, proxy: Proxy) -> None:
    with closing(Bookings(place)) as bookings:
        assert ledger.compare_and_set(KEY, None, STARTED)
        with cut_while_committing(place, proxy), ledger.transaction(KEY, STARTED, "booked") as connection:
            book(connection)
        assert bookings.all() == [BOOKED]
        assert [key for key, _ in ledger.unarchived()] == [KEY]


def test_a_transaction_that_is_cut_before_its_commit_says_that_nothing_is_recorded(
    place: Place, ledger: SqlLedger, proxy: Proxy
) -> None:
    with closing(Bookings(place)) as bookings:
        assert ledger.compare_and_set(BOOKED, None, BOOKED_STARTED)
        with pytest.raises(LedgerUnavailable, match="neither the effect nor its entry was recorded"):
            run(ledger, book, lambda _: proxy.cut())
        assert bookings.all() == []
        assert ledger.read(BOOKED) == BOOKED_STARTED


def test_a_server_that_stays_away_is_told_of_without_a_password(place: Place, postgres: Postgres) -> None:
    database = postgresql_database(make_url(place.url))
    with closing(SqlLedger(database, TEAM, Clock(), patience=0.5)) as ledger:
        postgres.stop()
        try:
            with pytest.raises(LedgerUnavailable) as away:
                ledger.compare_and_set(KEY, None, STARTED)
        finally:
            postgres.start()
        assert str(postgres.port) in str(away.value)
        assert "see whether the server runs" in str(away.value)
        assert not shown_secrets(away.value, postgres.password)
        assert ledger.compare_and_set(KEY, None, STARTED), "it is used again as soon as it is back"


def test_a_server_that_is_not_there_is_told_of_at_once(place: Place, postgres: Postgres) -> None:
    port = free_port()
    begun = time.monotonic()
    with pytest.raises(LedgerUnavailable, match=str(port)) as away:
        open_ledger(place.url.replace(f":{postgres.port}/", f":{port}/"), TEAM)
    assert time.monotonic() - begun < 10
    assert not shown_secrets(away.value, postgres.password)


def test_a_wrong_password_is_told_of_and_not_shown(place: Place, postgres: Postgres) -> None:
    wrong = make_url(place.url).set(password="not/it@all").render_as_string(hide_password=False)
    with pytest.raises(LedgerUnavailable, match="password authentication failed") as refused:
        open_ledger(wrong, TEAM)
    assert not shown_secrets(refused.value, "not/it@all")
    assert not shown_secrets(refused.value, postgres.password)
