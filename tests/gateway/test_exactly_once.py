"""A handler whose effect is in the ledger's own database: effect and record commit together, or not at all (section 8)."""

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sqlalchemy import create_engine, text

from gateway.drop import Delivery, Outgoing
from gateway.handoff.ledger.open import open_ledger
from protocol.ledger import LedgerState
from tests.gateway.tools import GROUP, Taken, drop_at


class Bookings:
    """Books each item once in a table of its own; before the first commit somebody else may take the key."""

    def __init__(self, path: Path, *, rival: bool = False) -> None:
        self.engine = create_engine(f"sqlite:///{path}")
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE bookings (item VARCHAR(100))"))
        self.rival = rival
        self.told: list[bool] = []

    def __call__(self, delivery: Delivery) -> None:
        self.told.append(delivery.redelivered)
        assert delivery.entry is not None
        if self.rival:
            self.rival = False
            moved = replace(delivery.entry, owner="host-2-bbbbbb", generation=delivery.entry.generation + 1)
            assert delivery.driver.ledger.compare_and_set(delivery.key, delivery.entry, moved)
        with delivery.transaction("booked") as connection:
            connection.execute(text("INSERT INTO bookings VALUES (:item)"), {"item": delivery.key})

    def count(self) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(text("SELECT count(*) FROM bookings")).scalar_one())


def consume(folder: Path, ledger_path: Path, bookings: Bookings, taken: Taken) -> None:
    drop = drop_at(folder)
    with (
        closing(open_ledger(f"sqlite://{ledger_path}", "test")) as ledger,
        drop.consumer((GROUP,), bookings, taken.report, ledger=ledger) as consumer,
    ):
        consumer.sweep_once(threading.Event())


def send(folder: Path, sources: Path) -> None:
    (sources / "a.csv").write_text("a;b\n")
    with drop_at(folder).producer() as producer:
        producer.send([Outgoing(sources / "a.csv")], group=GROUP)


def test_the_effect_and_the_record_are_one(folder: Path, sources: Path, tmp_path: Path) -> None:
    send(folder, sources)
    bookings, taken = Bookings(tmp_path / "ledger.db"), Taken()
    consume(folder, tmp_path / "ledger.db", bookings, taken)
    assert (taken.results, bookings.count()) == (["processed"], 1)
    # Claimed again, as by a worker that takes over what died between the commit and the rename: it does not run again.
    token = "orders_0000000001.manifest.json"
    (folder / f"A_{token}").rename(folder / token)
    (folder / "A_orders_0000000001.csv").rename(folder / "orders_0000000001.csv")
    with closing(open_ledger(f"sqlite://{tmp_path / 'ledger.db'}", "test")) as ledger:
        (key, entry), *_ = [(event.key, event.entry) for event in ledger.history() if event.entry.state is LedgerState.DONE]
        assert ledger.compare_and_set(key, ledger.read(key), entry)
    consume(folder, tmp_path / "ledger.db", bookings, taken)
    assert (taken.results, bookings.count()) == (["processed", "acknowledged"], 1)
    bookings.engine.dispose()


def test_what_another_worker_took_meanwhile_is_rolled_back_and_begun_anew(folder: Path, sources: Path, tmp_path: Path) -> None:
    send(folder, sources)
    bookings, taken = Bookings(tmp_path / "ledger.db", rival=True), Taken()
    consume(folder, tmp_path / "ledger.db", bookings, taken)
    assert taken.results == ["processed"]
    assert bookings.count() == 1
    assert bookings.told == [False, True]
    bookings.engine.dispose()
