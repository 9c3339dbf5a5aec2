"""Every kind of ledger, each test with an empty one: `place` of all kinds, `lasting` of those that outlive a process."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.handoff.ledger.base import Ledger
from testenv.postgres import Postgres
from tests.gateway.ledger.places import KINDS, LASTING, SQL, Place, place_for


def _place(request: pytest.FixtureRequest, folder: Path) -> Place:
    kind: str = request.param
    if kind != "postgresql":
        return place_for(kind, folder)
    # Asked for here, so that the other kinds' tests do not wait for a server.
    server: Postgres = request.getfixturevalue("postgres")
    return place_for(kind, folder, server.empty_database())


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place of each kind."""
    return _place(request, tmp_path)


@pytest.fixture(params=LASTING)
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place of each kind that several processes can share."""
    return _place(request, tmp_path)


@pytest.fixture(params=SQL)
def sql(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place of each kind that is a database."""
    return _place(request, tmp_path)


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    """A ledger of each kind."""
    with closing(place.open()) as opened:
        yield opened
