"""A replay stays one through all its runs, however they end, and each is told from the next (PROTOCOL section 8)."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.drop import Delivery
from gateway.errors import HandlerFailed
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.open import open_ledger
from protocol.ledger import Entry
from tests.gateway.tools import Taken, consumer_of, drop_at, hand_over


class Killed(BaseException):
    """What no handler raises: the end of its process."""


def fail(delivery: Delivery) -> None:
    raise HandlerFailed("no such customer")


def die(delivery: Delivery) -> None:
    raise Killed


def run(folder: Path, ledger: Ledger, handler: Callable[[Delivery], None] = lambda _: None) -> Entry:
    """One sweep over one ready item; the entry that its handler was given."""
    given: list[Delivery] = []

    def handle(delivery: Delivery) -> None:
        given.append(delivery)
        handler(delivery)

    with (
        contextlib.suppress(Killed),
        consumer_of(drop_at(folder), Taken(), handle, ledger=ledger, max_attempts=3) as consumer,
    ):
        consumer.sweep_once(threading.Event())
    (delivery,) = given
    assert delivery.entry is not None
    assert delivery.replay == (delivery.entry.replayed != "")
    return delivery.entry


def ask_again(folder: Path, mark: str = "A_") -> None:
    for path in folder.glob(f"{mark}*"):
        if path.name.endswith("reason.json"):
            path.unlink()
        else:
            path.rename(folder / path.name.removeprefix(mark))


@pytest.fixture(params=["sqlite", "journal", "memory"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    where = "memory:" if request.param == "memory" else f"{request.param}://{tmp_path}/ledger"
    with open_ledger(where, "test") as ledger:
        yield ledger


def test_a_first_delivery_is_no_replay_however_often_it_is_tried(folder: Path, ledger: Ledger) -> None:
    hand_over(folder, 1)
    assert [run(folder, ledger, ended).replayed for ended in (fail, die, lambda _: None)] == ["", "", ""]


@pytest.mark.parametrize("first", [fail, die])
def test_a_replay_that_was_cut_or_failed_is_one_still(folder: Path, ledger: Ledger, first: Callable[[Delivery], None]) -> None:
    hand_over(folder, 1)
    run(folder, ledger)
    ask_again(folder)
    begun = run(folder, ledger, first)
    assert begun.replayed
    went_on = run(folder, ledger)
    assert (went_on.replayed, went_on.generation) == (begun.replayed, begun.generation + 1)


def test_the_next_replay_is_another_one(folder: Path, ledger: Ledger) -> None:
    hand_over(folder, 1)
    run(folder, ledger)
    told = []
    for _ in range(3):
        ask_again(folder)
        told.append(run(folder, ledger).replayed)
    assert len(set(told)) == 3


def test_an_error_image_that_is_brought_back_goes_on_with_the_replay_in_which_it_failed(folder: Path, ledger: Ledger) -> None:
    hand_over(folder, 1)
    run(folder, ledger)
    ask_again(folder)
    begun = [run(folder, ledger, fail) for _ in range(3)]
    assert {entry.replayed for entry in begun} == {begun[0].replayed}
    ask_again(folder, "E_")
    assert run(folder, ledger).replayed == begun[0].replayed
