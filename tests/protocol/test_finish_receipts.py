"""Receipts at the ways out of a claim: before the item counts as put away, once, whole, and the last run's."""

from dataclasses import replace

import pytest

from protocol.names import RECEIPT_SUFFIX, Name
from protocol.operations import Store
from protocol.procedures.finish import PutAway, complete, fail, payload_names, put_away, put_away_error
from protocol.procedures.write_receipt import Writing, Wrote, retract_receipts, write_receipt
from protocol.receipt import Receipt, parse_receipt
from protocol.rules import Rules
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.drops import ITEM, check_all_complete, contents, draft, found, tokens
from tests.protocol.process import Process, run
from tests.protocol.ways_out import MANIFESTS, NONE, REASON, hand_out, kinds, payloads, with_token

PROCESSED = Receipt(item="orders_0000000042", key="invoice 7", outcome="processed", time="t", run=3, result="booked")
FAILED = Receipt(item="orders_0000000042", key="invoice 7", outcome="failed", time="t", run=3, error="no such customer")
AFTER = Name(ITEM, RECEIPT_SUFFIX, State.AFTER)


def receipts(there: Directory) -> dict[str, Receipt]:
    paths = {path: there.rules.layout.parse(path) for path in there.ls()}
    return {p: parse_receipt(there[p]) for p, n in paths.items() if isinstance(n, Name) and n.suffix == RECEIPT_SUFFIX}


def by(receipt: Receipt, writer: str = "o") -> Writing:
    return Writing(receipt, writer)


def test_ls_shows_it_beside_the_images() -> None:
    there, name = hand_out(MANIFESTS)
    run(there, complete(MANIFESTS, name, payloads(MANIFESTS), by(PROCESSED)))
    assert there.ls() == [
        "A_orders_0000000042.csv",
        "A_orders_0000000042.manifest.json",
        "A_orders_0000000042.receipt.json",
        "A_orders_0000000042.tar.gz",
    ]
    there, name = hand_out(MANIFESTS)
    run(there, fail(MANIFESTS, name, payloads(MANIFESTS), REASON, by(FAILED)))
    assert [path for path in there.ls() if path.endswith(".json")] == [
        "E_orders_0000000042.manifest.json",
        "E_orders_0000000042.reason.json",
        "E_orders_0000000042.receipt.json",
    ]


@with_token
@pytest.mark.parametrize("failing", [False, True], ids=["complete", "fail"])
def test_killed_after_any_step_whoever_finds_the_item_finishes_it_with_one_whole_receipt(rules: Rules, failing: bool) -> None:
    """And at no step is there an item that counts as put away without its receipt."""
    for steps in range(200):
        there, name = hand_out(rules)
        wanted = FAILED if failing else PROCESSED
        work = (
            fail(rules, name, payloads(rules), REASON, by(wanted))
            if failing
            else complete(rules, name, payloads(rules), by(wanted))
        )
        process = Process(there, work)
        for _ in range(steps):
            process.step()
            _check_put_away(there)
        ended = process.done
        process.kill()
        (token,) = tokens(there)
        if token.state is State.DONE:
            run(there, put_away(rules, token, payload_names(found(there)), by(wanted, "p")))
        elif token.state is State.ERROR:
            run(there, put_away_error(rules, token, payloads(rules), REASON, by(wanted, "p")))
        if token.state is not State.CLAIMED:
            assert list(receipts(there).values()) == [wanted]
        check_all_complete(there, contents(draft(rules)))
        if ended:
            return
    raise AssertionError("it does not come to its end")


def _check_put_away(there: Directory) -> None:
    (token,) = tokens(there)
    names = found(there)
    explained = any(name.suffix == "reason.json" for name in names)
    if token.state is State.AFTER or (token.state is State.ERROR and explained):
        (receipt,) = receipts(there).values()
        assert receipt.run == 3


@with_token
def test_two_who_finish_one_item_at_once_leave_one_receipt(rules: Rules) -> None:
    for head_start in range(60):
        there, name = hand_out(rules)
        process = Process(there, complete(rules, name, payloads(rules), by(PROCESSED)))
        while not any(token.state is State.DONE for token in tokens(there)):
            process.step()
        (done,) = tokens(there)
        other = Process(there, put_away(rules, done, payloads(rules), by(PROCESSED, "p")))
        for _ in range(head_start):
            process.step()
        while process.step() | other.step():
            pass
        assert list(receipts(there).values()) == [PROCESSED]
        assert [token.state for token in tokens(there)] == [State.AFTER]
        assert not [path for path in there.ls() if path.startswith("T_")]


def test_without_a_signal_it_comes_right_after_the_one_rename() -> None:
    there, name = hand_out(NONE)
    assert run(there, complete(NONE, name, payloads(NONE), by(PROCESSED))) == PutAway("A_orders_0000000042.csv")
    assert there.ls() == ["A_orders_0000000042.csv", "A_orders_0000000042.receipt.json"]


@kinds
def test_a_number_that_came_twice_has_a_receipt_for_each_image(rules: Rules) -> None:
    there, name = hand_out(rules)
    run(there, complete(rules, name, payloads(rules), by(PROCESSED)))
    there, claimed = hand_out(rules, there, b"another content")
    second = PROCESSED.model_copy(update={"key": "invoice 8", "result": "the second"})
    run(there, complete(rules, claimed, payloads(rules), by(second)))
    told = {rules.layout.parse(path): receipt.result for path, receipt in receipts(there).items()}
    assert told == {AFTER: "booked", replace(AFTER, again=1): "the second"}


@pytest.mark.parametrize("left", [b"", b'{"receipt": 1, "item": "ord', b"\xff"], ids=["empty", "torn", "bytes"])
def test_what_is_not_whole_is_replaced(left: bytes) -> None:
    there, name = hand_out(MANIFESTS)
    run(there, _store(MANIFESTS.layout.path(AFTER), left))
    run(there, complete(MANIFESTS, name, payloads(MANIFESTS), by(PROCESSED)))
    assert list(receipts(there).values()) == [PROCESSED]


def test_of_two_runs_the_later_one_s_receipt_stays_whoever_writes_last() -> None:
    there = Directory(MANIFESTS)
    later = PROCESSED.model_copy(update={"run": 4})
    assert run(there, write_receipt(MANIFESTS, AFTER, by(PROCESSED))) is Wrote.THERE
    assert run(there, write_receipt(MANIFESTS, AFTER, by(later))) is Wrote.THERE
    assert run(there, write_receipt(MANIFESTS, AFTER, by(PROCESSED, "a-late-one"))) is Wrote.THERE
    assert list(receipts(there).values()) == [later]
    other = PROCESSED.model_copy(update={"key": "invoice 8"})
    assert run(there, write_receipt(MANIFESTS, AFTER, by(other))) is Wrote.TAKEN


def test_a_late_writer_that_slept_before_it_set_an_old_receipt_aside_puts_a_newer_one_back() -> None:
    for sleeps_after in range(1, 12):
        there = Directory(MANIFESTS)
        runs = [PROCESSED.model_copy(update={"run": number}) for number in (1, 2, 3)]
        run(there, write_receipt(MANIFESTS, AFTER, by(runs[0])))
        late = Process(there, write_receipt(MANIFESTS, AFTER, by(runs[1], "late")))
        for _ in range(sleeps_after):
            late.step()
        run(there, write_receipt(MANIFESTS, AFTER, by(runs[2], "p")))
        late.run()
        assert list(receipts(there).values()) == [runs[2]]


def test_a_run_takes_away_what_earlier_ones_have_left_and_nothing_else() -> None:
    there = Directory(MANIFESTS)
    error = replace(AFTER, state=State.ERROR)
    run(there, write_receipt(MANIFESTS, error, by(FAILED)))
    run(there, write_receipt(MANIFESTS, AFTER, by(PROCESSED.model_copy(update={"run": 5}))))
    run(there, retract_receipts(MANIFESTS, ITEM, "another key", 9, "o"))
    assert len(receipts(there)) == 2
    run(there, retract_receipts(MANIFESTS, ITEM, "invoice 7", 4, "o"))
    assert [receipt.run for receipt in receipts(there).values()] == [5]


async def _store(path: str, data: bytes) -> None:
    await Store(path, data, "sha256")
