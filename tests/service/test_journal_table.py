"""The journal in a real database: what the file has, in the background, whatever becomes of the server."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.handoff.ledger.errors import LedgerUnavailable
from gateway.handoff.ledger.open import open_ledger
from gateway.service.board import Board
from gateway.service.journal import Journal, Wanted
from gateway.service.journal_table import read_table
from gateway.service.transitions import Transition
from testenv.postgres import Postgres
from tests.service.steps import EACH, step

LARGE = 1 << 30
PATIENCE = 60.0  # seconds


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a database."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/ledger.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.empty_database()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Journal]]:
    """Makes journals, and closes them."""
    made: list[Journal] = []

    def make(url: str, board: Board | None = None) -> Journal:
        made.append(Journal(tmp_path / "journal.jsonl", LARGE, 8, url, board))
        return made[-1]

    yield make
    for journal in made:
        journal.close(0)


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def rows(url: str, wanted: Wanted | None = None, limit: int | None = None) -> list[Transition]:
    return [*read_table(url, wanted or Wanted(), limit)]


def test_every_kind_of_step_is_a_row_and_is_read_back_as_it_was(url: str, begin: Callable[..., Journal]) -> None:
    journal = begin(url)
    for one in EACH:
        journal.record(one)
    journal.close(PATIENCE)
    assert rows(url) == EACH == [*journal.read()]
    assert journal.lost_rows == 0


def test_only_what_is_asked_for_is_read(url: str, begin: Callable[..., Journal]) -> None:
    journal = begin(url)
    for number in range(1200):
        journal.record(step(number, at=f"2026-11-{number % 30 + 1:02}T00:00:00.000000Z", route=f"route {number % 3}"))
    journal.record(step(5, key="k", destination="bank"))
    journal.close(PATIENCE)
    assert len(rows(url)) == 1201
    assert [one.key for one in rows(url, Wanted(item="orders_0000000005"))] == ["", "k"]
    assert len(rows(url, Wanted(route="route 2"))) == 400
    assert len(rows(url, Wanted(since="2026-11-30"))) == 41
    assert [one.sequence for one in rows(url, Wanted(key="k", drop="bank"))] == ["0000000005"]
    assert [one.sequence[-4:] for one in rows(url, Wanted(drop="out"), 3)] == ["1198", "1199", "0005"]
    assert rows(url, limit=0) == []


def test_two_services_write_to_one_database_and_to_the_ledger_beside_it(url: str, begin: Callable[..., Journal]) -> None:
    with closing(open_ledger(url, "the team")) as ledger:
        first, second = begin(url), begin(url)
        for number in range(50):
            first.record(step(number, owner="first"))
            second.record(step(number, owner="second"))
        first.close(PATIENCE)
        second.close(PATIENCE)
        assert ledger.read("k") is None
    for name in ("first", "second"):
        assert [one for one in rows(url) if one.owner == name] == [step(number, owner=name) for number in range(50)]


@pytest.mark.timeout(180)
def test_a_database_that_is_away_holds_nothing_up_and_gets_its_rows_later(
    postgres: Postgres, begin: Callable[..., Journal]
) -> None:
    board = Board(utc=lambda: "")
    journal = begin(postgres.empty_database(), board=board)
    journal.record(step(1))
    until(lambda: len(rows(postgres.url("scratch"))) == 1, "the first row")
    postgres.stop(signal.SIGQUIT)
    try:
        for number in range(2, 800):
            journal.record(step(number))
        assert len([*journal.read()]) == 799, "the file has them at once"
        until(lambda: board.picture().troubles, "the trouble to be told")
        ((part, text),) = board.picture().troubles
        assert part == "journal database"
        assert "dropgate" not in text, "no password, no statement"
    finally:
        postgres.start()
    until(lambda: not board.picture().troubles, "the database to be written again")
    journal.close(PATIENCE)
    assert rows(postgres.url("scratch")) == [step(number) for number in range(1, 800)], "each once, in order"
    assert journal.lost_rows == 0


def test_what_does_not_fit_the_queue_is_counted_and_is_in_the_file(
    postgres: Postgres, begin: Callable[..., Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.service.journal_table._QUEUE", 10)
    url = postgres.empty_database()
    journal = begin(url)
    journal.record(step(0))
    until(lambda: rows(url), "the first row")

    def hold() -> None:
        postgres.sql("BEGIN; LOCK TABLE dropgate_journal; SELECT pg_sleep(3); COMMIT", "scratch")

    holder = threading.Thread(target=hold)
    holder.start()
    until(lambda: postgres.sql("SELECT 1 FROM pg_locks WHERE relation = 'dropgate_journal'::regclass", "scratch"), "the lock")
    for number in range(1, 101):
        journal.record(step(number))
    assert journal.lost_rows >= 80
    assert len([*journal.read()]) == 101
    holder.join(PATIENCE)
    journal.close(PATIENCE)
    assert len(rows(url)) + journal.lost_rows == 101


def test_closing_takes_no_longer_than_it_may_and_counts_the_rest(begin: Callable[..., Journal]) -> None:
    journal = begin("postgresql://user@127.0.0.1:1/nothing")
    for number in range(5):
        journal.record(step(number))
    journal.close(10)
    assert journal.lost_rows == 5
    assert len([*journal.read()]) == 5


def test_a_ledger_that_is_no_database_is_refused(tmp_path: Path) -> None:
    for wrong in (f"journal://{tmp_path}/ledger", "memory:", "mysql://geheim@host/x"):
        with pytest.raises(ConfigurationError, match="a database is needed") as told:
            rows(wrong)
        assert "geheim" not in str(told.value)


def test_a_database_that_does_not_answer_is_told_to_who_reads() -> None:
    with pytest.raises(LedgerUnavailable, match="the journal's database cannot be used"):
        rows("postgresql://user:geheim@127.0.0.1:1/nothing")
