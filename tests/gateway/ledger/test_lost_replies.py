"""A connection to PostgreSQL that dies inside a change: whether it was made is found out, and never guessed."""

from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from sqlalchemy import make_url, text

from gateway.handoff.clock import Clock
from gateway.handoff.ledger.engines import postgresql_database
from gateway.handoff.ledger.errors import LedgerUnavailable
from gateway.handoff.ledger.open import open_ledger
from gateway.handoff.ledger.sql import SqlLedger
from protocol.ledger import LedgerState
from testenv.postgres import Postgres
from testenv.proxy import Proxy
from tests.gateway.ledger.places import TEAM, Place, entry
from tests.gateway.ledger.test_transaction import Bookings, book

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


def through(place: Place, proxy: Proxy):  # noqa: ANN201
    return make_url(place.url).set(port=proxy.port, query={"sslmode": "disable"})


def is_commit(data: bytes) -> bool:
    """Whether the client asks for a commit."""
    return b"COMMIT" in data
