"""A handler whose effect lives in the ledger's own database: exactly once, whatever is killed."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from testenv.postgres import Postgres
from tests.crash.checks import consume_here, heal, unhealed
from tests.crash.jobs import Work, consume, key_of, lines, produce
from tests.crash.place import Place
from tests.crash.processes import Crew

ITEMS = 4
STEPS = range(8, 40, 5)


@pytest.fixture(params=["sqlite", "postgresql"])
def booked(request: pytest.FixtureRequest, local: Place, tmp_path: Path) -> tuple[Place, Engine]:
    """A drop whose ledger has a table for effects beside its own."""
    if request.param == "sqlite":
        url = local.ledger_url
        engine = create_engine(f"sqlite:///{tmp_path}/scratch/ledger.db")
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty_database()
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE effects (key VARCHAR(100))"))
    return local.changed(ledger=url), engine


@pytest.mark.timeout(240)
def test_an_effect_in_the_ledgers_own_transaction_happens_exactly_once(booked: tuple[Place, Engine], hands: Crew) -> None:
    """Consumers of this host and of others, each killed at another step."""
    place, engine = booked
    produce(Work(place, count=ITEMS))
    killed = 0
    for at in STEPS:
        killed += not hands.run(consume, Work(place, once=True, die_at=at, transaction=True))
        produce(Work(place, first=ITEMS + at))
    assert killed >= len(STEPS) - 1
    assert len(lines(place.scratch / "begun")) > ITEMS
    consume_here(place, transaction=True)
    if unhealed(place):
        heal(place, transaction=True)
    with engine.connect() as connection:
        effects = sorted(connection.execute(text("SELECT key FROM effects")).scalars())
    engine.dispose()
    assert effects == sorted([key_of(n) for n in range(ITEMS)] + [key_of(ITEMS + at) for at in STEPS])
