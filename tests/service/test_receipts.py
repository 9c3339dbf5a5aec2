"""Receipts come back: what the last consumer made of an item is told beside the after image at its source."""

import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.drop import Drop
from gateway.handoff.clock import Clock
from gateway.handoff.driver import Driver
from gateway.handoff.ledger.open import open_ledger
from gateway.service.answers import Answers
from gateway.service.receipts import Carrier
from gateway.service.runner import Route
from gateway.service.telling import Teller
from gateway.service.transitions import Hub, Transition, What
from protocol.names import ItemId
from protocol.operations import Operation, Scan, Store
from protocol.procedures.replay import replay
from protocol.receipt import Answer, Receipt, format_receipt
from tests.crash.place import GROUP
from tests.service.receipt_tools import consume, receipts, with_receipts
from tests.service.test_fanout import folder, ready, route, running, send, wait_until

_NAME = f"{GROUP}0000000001.receipt.json"


def with_book(tmp_path: Path, source: Drop, *ends: tuple[str, Drop], **more: object) -> Route:
    book = partial(open_ledger, f"sqlite://{tmp_path}/ledger.db", "receipts of the route")
    return route(tmp_path, source, *ends, book=book, **more)


def after(place: Path) -> list[str]:
    """The items that are put away: a payload goes before its receipt does, and the token after it."""
    return sorted(path.name for path in place.glob("A_*.manifest.json"))


@pytest.mark.parametrize("failing", [False, True], ids=["processed", "failed"])
@pytest.mark.parametrize("counter", [False, True], ids=["same-number", "own-number"])
def test_the_producer_sees_what_became_of_its_item(tmp_path: Path, failing: bool, counter: bool) -> None:
    """Also where the destination numbers by itself; and a failure there leaves the source's item an after image."""
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    if counter:
        send(Drop.at(str(one)), tmp_path, "somebody else's")
    send(Drop.at(str(source)), tmp_path, "mine", key="invoice-7")
    near, far = with_receipts(source, awaits=True, receipts=False), with_receipts(one)
    with running(with_book(tmp_path, near, ("one", far), counter=counter)) as run:
        wait_until(lambda: after(source), "an after image")
        first = receipts(source)[f"A_{_NAME}"]
        assert (first.outcome, first.complete, first.key) == ("forwarded", False, "invoice-7")
        consume(far, tmp_path, failing=failing)
        wait_until(lambda: receipts(source)[f"A_{_NAME}"].complete, "a complete receipt")
        wait_until(lambda: run.count(What.RECEIPT, "one"), "the transition")
    receipt = receipts(source)[f"A_{_NAME}"]
    answer = receipt.destinations["one"]
    assert receipt.outcome == answer.outcome == ("failed" if failing else "processed")
    assert answer.item == f"{GROUP}000000000{2 if counter else 1}"
    assert (answer.error if failing else answer.result) == ("line 3: no such customer" if failing else "booked as csv")
    assert list(receipt.hashes.values()) == list(answer.hashes.values())
    assert after(source), "it was handed over, whatever became of it"
    assert run.count(What.RECEIPT) == 1


def test_of_several_destinations_each_that_sends_receipts_is_waited_for(tmp_path: Path) -> None:
    source, one, two, three = (folder(tmp_path, name) for name in ("source", "one", "two", "three"))
    near, first, second = with_receipts(source, awaits=True), with_receipts(one), with_receipts(two)
    send(near, tmp_path, "mine")
    ends = (("one", first), ("two", second), ("three", Drop.at(str(three))))
    with running(with_book(tmp_path, near, *ends)):
        wait_until(lambda: after(source), "an after image")
        consume(first, tmp_path)
        wait_until(lambda: receipts(source)[f"A_{_NAME}"].destinations, "the first answer")
        half = receipts(source)[f"A_{_NAME}"]
        assert {name: one.outcome for name, one in half.destinations.items()} == {"one": "processed", "three": "published"}
        assert (half.outcome, half.complete) == ("forwarded", False)
        consume(second, tmp_path, failing=True)
        wait_until(lambda: receipts(source)[f"A_{_NAME}"].complete, "the second answer")
    whole = receipts(source)[f"A_{_NAME}"]
    assert {name: one.outcome for name, one in whole.destinations.items()} == {
        **{"one": "processed", "two": "failed"},
        "three": "published",
    }
    assert (whole.outcome, whole.error) == ("failed", "two: line 3: no such customer")


def test_a_route_to_drops_without_receipts_says_forwarded_by_itself(tmp_path: Path) -> None:
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    near = with_receipts(source, forwards=True)
    send(near, tmp_path, "mine")
    with running(with_book(tmp_path, near, ("one", Drop.at(str(one))))):
        wait_until(lambda: after(source), "an after image")
    receipt = receipts(source)[f"A_{_NAME}"]
    assert (receipt.outcome, receipt.complete) == ("forwarded", True)
    assert receipt.result == f"published as {GROUP}0000000001.manifest.json"


def test_over_two_hops_the_first_producer_hears_of_the_last_consumer(tmp_path: Path) -> None:
    source, middle, end = (folder(tmp_path, name) for name in ("source", "middle", "end"))
    near, between, far = with_receipts(source, awaits=True), with_receipts(middle, awaits=True), with_receipts(end)
    send(near, tmp_path, "mine")
    second = with_book(folder(tmp_path, "second"), between, ("end", far), title="the second")
    with running(with_book(tmp_path, near, ("middle", between)), second):
        wait_until(lambda: ready(end), "the item at the end")
        wait_until(lambda: after(middle), "an after image on the way")
        assert not receipts(source)[f"A_{_NAME}"].complete
        consume(far, tmp_path)
        wait_until(lambda: receipts(source)[f"A_{_NAME}"].complete, "a complete receipt")
    receipt = receipts(source)[f"A_{_NAME}"]
    assert receipt.outcome == receipt.destinations["middle"].outcome == "processed"
    assert receipt.destinations["middle"].destinations["end"].result == "booked as csv"


def test_what_was_repeated_at_the_destination_is_told_again(tmp_path: Path) -> None:
    """A failure that an operator has repaired there: the source's receipt says so, and not the old one."""
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    near, far = with_receipts(source, awaits=True), with_receipts(one)
    send(near, tmp_path, "mine")
    with running(with_book(tmp_path, near, ("one", far))):
        wait_until(lambda: after(source), "an after image")
        consume(far, tmp_path, failing=True)
        wait_until(lambda: receipts(source)[f"A_{_NAME}"].outcome == "failed", "the failure")
        with open_ledger(f"sqlite://{tmp_path}/consumer.db", str(far)) as ledger, far.driver(ledger) as driver:
            driver.run(replay(far.rules, ItemId(GROUP, 1)))
        assert not receipts(one), "what is ready again has no receipt"
        consume(far, tmp_path)
        wait_until(lambda: receipts(source)[f"A_{_NAME}"].outcome == "processed", "the success")
    answer = receipts(source)[f"A_{_NAME}"].destinations["one"]
    assert (answer.replay, answer.run, answer.error) == (True, 2, "")


class Counting(Driver):
    """Counts what is asked of the drop."""

    asked: Counter[type]

    def _carry_out(self, operation: Operation[Any]) -> Any:
        self.asked[type(operation)] += 1
        return super()._carry_out(operation)


class Carried:
    """A carrier between two local folders, round by round."""

    def __init__(self, tmp_path: Path, near: Drop, far: Drop) -> None:
        clock = Clock()
        self.told: list[Transition] = []
        self.asked: Counter[type] = Counter()
        self.ledger = open_ledger(f"sqlite://{tmp_path}/ledger.db", "route")
        self.book = open_ledger(f"sqlite://{tmp_path}/ledger.db", "receipts")
        answers = Answers("one", far, (GROUP,), self.book)
        teller = Teller("the route", "source", near.rules, Hub([self.told.append]), clock)
        self.carrier = Carrier(near, (answers,), (), (GROUP,), self.ledger, teller, clock)
        self.carrier.round()  # connects
        for driver in self.carrier._drivers.values():
            driver.__class__ = Counting
            driver.asked = self.asked  # type: ignore[attr-defined] # of Counting
        self.asked.clear()

    def close(self) -> None:
        self.carrier.close()
        self.book.close()
        self.ledger.close()


def _many(place: Path, count: int, *, carried: bool) -> None:
    for number in range(1, count + 1):
        item, digest = f"{GROUP}{number:010}", "sha256:" + "0" * 64
        (place / f"A_{item}.manifest.json").write_text(
            f'{{"manifest": 1, "group": "{GROUP}", "sequence": "{number:010}", "key": "key-{number}",'
            f'"created": "2026-11-30T15:00:00Z", "files": [{{"name": "{item}.csv", "size": 1, "hash": "{digest}"}}]}}'
        )
        at = "2026-11-30T15:01:00Z"
        answer = Answer(outcome="processed", item=item, time=at, run=1)
        receipt = Receipt(item=item, key=f"key-{number}", outcome="processed", time=at, run=1)
        if carried:
            receipt = receipt.model_copy(update={"destinations": {"one": answer}})
        (place / f"A_{item}.receipt.json").write_bytes(format_receipt(receipt))


def test_old_receipts_cost_a_listing_at_each_end_and_no_reads_also_after_a_restart(tmp_path: Path) -> None:
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    near, far = with_receipts(source, awaits=True), with_receipts(one)
    _many(source, 1200, carried=True)
    _many(one, 1200, carried=False)
    first = Carried(tmp_path, near, far)
    for _ in range(4):
        first.carrier.round()
    assert first.asked[Store] == 0, "what is there already is not written again"
    first.asked.clear()
    first.carrier.round()
    assert first.asked == {Scan: 2}
    first.close()
    again = Carried(tmp_path, near, far)
    again.carrier.round()
    assert again.asked == {Scan: 2}
    assert first.told == again.told == []
    # And one that changed is seen among them.
    (one / f"A_{_NAME}").write_bytes(
        format_receipt(Receipt(item=f"{GROUP}0000000001", key="key-1", outcome="processed", time="later", run=2, result="new"))
    )
    again.carrier.round()
    assert receipts(source)[f"A_{_NAME}"].destinations["one"].result == "new"
    assert [(told.what, told.destination, told.sequence) for told in again.told] == [(What.RECEIPT, "one", "0000000001")]
    again.close()


def test_a_receipt_that_was_cut_off_at_the_source_is_carried_once_more(tmp_path: Path) -> None:
    """Whatever is there instead of what was carried - nothing, half of it, an earlier run's - is mended."""
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    near, far = with_receipts(source, awaits=True), with_receipts(one)
    _many(source, 1, carried=False)
    _many(one, 1, carried=False)
    carried = Carried(tmp_path, near, far)
    mine = source / f"A_{_NAME}"
    for break_it in (
        mine.unlink,
        lambda: mine.write_bytes(b'{"receipt": 1, "it'),
        lambda: mine.write_bytes(
            format_receipt(Receipt(item="x", key="key-1", outcome="forwarded", time="t", run=7, complete=False))
        ),
    ):
        for _ in range(3):
            carried.carrier.round()
        assert receipts(source)[f"A_{_NAME}"].destinations["one"].outcome == "processed"
        break_it()
        os.utime(source)
    for _ in range(3):
        carried.carrier.round()
    assert receipts(source)[f"A_{_NAME}"].complete
    assert receipts(source)[f"A_{_NAME}"].run == 7
    assert not list(source.glob("T_*"))
    carried.close()


def test_what_others_sent_there_is_left_alone(tmp_path: Path) -> None:
    """The same number with another key, and numbers that this source has never had."""
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    near, far = with_receipts(source, awaits=True), with_receipts(one)
    _many(source, 1, carried=False)
    _many(one, 3, carried=False)
    other = Receipt(item=f"{GROUP}0000000001", key="another", outcome="failed", time="t", error="not mine")
    (one / f"A_{_NAME}").write_bytes(format_receipt(other))
    before = (source / f"A_{_NAME}").read_bytes()
    carried = Carried(tmp_path, near, far)
    for _ in range(3):
        carried.carrier.round()
    assert sorted(path.name for path in source.iterdir() if "receipt" in path.name) == [f"A_{_NAME}"]
    assert (source / f"A_{_NAME}").read_bytes() == before
    carried.close()


class Died(BaseException):
    """What no handler of errors sees, as the end of a process."""


class Mortal(Driver):
    """Dies before one of the operations of its carrier, or right after it."""

    left: list[int]  # operations of all connections, counted down
    after: bool

    def _carry_out(self, operation: Operation[Any]) -> Any:
        self.left[0] -= 1
        if self.left[0] == 0 and not self.after:
            raise Died
        result = super()._carry_out(operation)
        if self.left[0] == 0:
            raise Died
        return result


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fresh", [False, True], ids=["replacing", "first"])
def test_a_carrier_that_dies_at_any_step_is_gone_on_with_by_the_next(tmp_path: Path, after: bool, fresh: bool) -> None:
    """One round of the next is enough, and at no moment is there half a receipt, or one that says less than before."""
    for step in range(1, 60):
        place = folder(tmp_path, f"s{step}")
        source, one = folder(place, "source"), folder(place, "one")
        near, far = with_receipts(source, awaits=True), with_receipts(one)
        _many(source, 1, carried=False)
        _many(one, 1, carried=False)
        mine = source / f"A_{_NAME}"
        if fresh:
            mine.unlink()
        first, died = Carried(place, near, far), False
        first.book.close()
        # Unread again, as after a restart.
        for answers in first.carrier.sending:
            answers.book = open_ledger("memory:", "receipts")
            answers.news.clear()
            answers.known.clear()
        if fresh:
            mine.unlink()  # it was written when it connected
        else:
            _many(source, 1, carried=False)
        for driver in first.carrier._drivers.values():
            driver.__class__ = Mortal
        left = [step]
        for driver in first.carrier._drivers.values():
            driver.left, driver.after = left, after  # type: ignore[attr-defined] # of Mortal
        try:
            first.carrier.round()
        except Died:
            died = True
        assert fresh or mine.exists(), "it is replaced in one step"
        again = Carried(place, near, far)
        assert receipts(source)[f"A_{_NAME}"].destinations["one"].outcome == "processed"
        again.close()
        if not died:
            return
    raise AssertionError("a round has no end")
