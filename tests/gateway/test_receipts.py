"""A drop with receipts: whoever consumes there says beside each image what became of the item."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.drop import Drop
from gateway.errors import HandlerFailed
from gateway.handoff.consumer import Delivery
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.memory import MemoryLedger
from gateway.handoff.owner import new_owner
from gateway.handoff.sweeper import Sweeper
from gateway.settings import load
from protocol.ledger import Entry, LedgerState
from protocol.names import ItemId
from protocol.procedures.discard import discard
from protocol.procedures.replay import replay
from protocol.receipt import Receipt, parse_receipt
from protocol.recovery import Ages
from protocol.rules import Rules, Signal
from protocol.signature import public_text
from tests.gateway.tools import GROUP, Taken, consume, drop_at, hand_over, names, put, sha256

STEM = "orders_0000000001"
DATA = b"content\n"
ITEM = ItemId(GROUP, 1)


def receipts(folder: Path) -> dict[str, Receipt]:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.receipt.json")}
    return {name: parse_receipt(path.read_bytes()) for name, path in sorted(found.items())}


def with_receipts(folder: Path, **rules: Any) -> Drop:
    return drop_at(folder, Rules(receipts=True, busy_patience=1.0, **rules))


def says(delivery: Delivery) -> None:
    """A handler with a word of its own."""
    Taken()(delivery)
    delivery.outcome = "booked"


def fails(delivery: Delivery) -> None:
    """A handler that will have none of it."""
    raise HandlerFailed("line 3: no such customer")


def sweep(drop: Drop, ledger: Ledger | None = None, **ages: Any) -> None:
    """One sweep by itself."""
    with drop.driver(ledger) as driver:
        sweeper = Sweeper(driver, drop.rules, new_owner(drop.clock), Ages(**ages))
        list(sweeper.sweep(sweeper.plan()))


def test_it_tells_who_has_done_what_with_which_bytes(tmp_path: Path) -> None:
    hand_over(tmp_path, 1, DATA)
    consume(with_receipts(tmp_path), Taken(), says)
    (receipt,) = receipts(tmp_path).values()
    assert (receipt.item, receipt.key, receipt.outcome, receipt.result) == (STEM, f"key of {STEM}", "processed", "booked")
    assert receipt.hashes == {f"{STEM}.csv": f"sha256:{sha256(DATA)}"}
    assert (receipt.run, receipt.attempts, receipt.replay, receipt.complete) == (1, 1, False, True)
    assert receipt.owner.startswith(receipt.host[:8].lower())
    assert receipt.time.endswith("Z")


def test_a_failure_tells_its_reason_and_the_last_attempt(tmp_path: Path) -> None:
    hand_over(tmp_path, 1, DATA)
    ledger, drop = MemoryLedger(), with_receipts(tmp_path)
    for _ in range(2):
        assert receipts(tmp_path) == {}, "what will be tried again has none"
        consume(drop, Taken(), fails, max_attempts=2, ledger=ledger)
    assert list(receipts(tmp_path)) == [f"E_{STEM}.receipt.json"]
    (receipt,) = receipts(tmp_path).values()
    assert (receipt.outcome, receipt.kind, receipt.error) == ("failed", "HandlerFailed", "line 3: no such customer")
    assert (receipt.attempts, receipt.run) == (2, 2)


def test_an_item_that_cannot_be_trusted_gets_one_under_the_key_that_it_claims(tmp_path: Path) -> None:
    hand_over(tmp_path, 1, DATA)
    trusted = frozenset({public_text(Ed25519PrivateKey.generate())})
    consume(with_receipts(tmp_path, trusted_keys=trusted), Taken())
    (receipt,) = receipts(tmp_path).values()
    assert (receipt.outcome, receipt.kind, receipt.key) == ("failed", "SignatureRejected", f"key of {STEM}")
    assert receipt.hashes == {}, "nothing of it was verified"


@pytest.mark.parametrize("signal", [Signal.MANIFEST, Signal.NONE], ids=["manifest", "none"])
def test_one_that_a_dead_worker_owed_is_written_by_the_next_sweep_from_the_ledger(tmp_path: Path, signal: Signal) -> None:
    """Cut between the commit and the receipt: who has done it, and what, stands in the ledger."""
    drop, ledger = with_receipts(tmp_path, signal=signal), MemoryLedger()
    put(tmp_path, f"A_{STEM}.csv", DATA)
    key = STEM
    if signal is Signal.MANIFEST:
        hand_over(tmp_path, 1, DATA)
        (tmp_path / f"{STEM}.csv").unlink()
        (tmp_path / f"{STEM}.manifest.json").rename(tmp_path / f"D_{STEM}.manifest.json")
        key = f"key of {STEM}"
    entry = Entry(LedgerState.DONE, 3, ITEM, "books-1-4711-9f", 2, "2026-11-30T15:00:00Z", result="booked")
    assert ledger.compare_and_set(key, None, entry)
    sweep(drop, ledger)
    (receipt,) = receipts(tmp_path).values()
    assert (receipt.outcome, receipt.result, receipt.owner) == ("processed", "booked", "books-1-4711-9f")
    assert (receipt.run, receipt.attempts, receipt.host) == (3, 2, "")
    found = ledger.read(key)
    assert found is not None
    assert found.state is LedgerState.ARCHIVED
    assert not [name for name in names(tmp_path) if name.startswith(("D_", "T_"))]


def test_a_sweep_without_the_ledger_says_what_it_knows(tmp_path: Path) -> None:
    hand_over(tmp_path, 1, DATA)
    (tmp_path / f"{STEM}.manifest.json").rename(tmp_path / f"D_{STEM}.manifest.json")
    hand_over(tmp_path, 2, DATA)
    (tmp_path / "orders_0000000002.manifest.json").rename(tmp_path / "E_orders_0000000002.manifest.json")
    sweep(with_receipts(tmp_path))
    done, error = receipts(tmp_path).values()
    assert (done.outcome, done.key, done.run, done.hashes) == (
        "processed",
        f"key of {STEM}",
        0,
        {f"{STEM}.csv": f"sha256:{sha256(DATA)}"},
    )
    assert (error.outcome, error.error) == ("failed", "cut while failing; the worker that knew why is gone")


def _replay_by_hand(folder: Path, drop: Drop, ledger: Ledger) -> None:
    for suffix in ("csv", "manifest.json"):
        (folder / f"A_{STEM}.{suffix}").rename(folder / f"{STEM}.{suffix}")


def _replay_by_command(folder: Path, drop: Drop, ledger: Ledger) -> None:
    with drop.driver(ledger) as driver:
        driver.run(replay(drop.rules, ITEM))
    assert receipts(folder) == {}, "what is ready again has none"


@pytest.mark.parametrize("ask", [_replay_by_hand, _replay_by_command], ids=["mv", "replay"])
@pytest.mark.parametrize("failing", [False, True], ids=["processed", "failed"])
@pytest.mark.parametrize("lost", [False, True], ids=["ledger", "ledger-lost"])
def test_a_replay_gets_a_receipt_of_its_own_and_the_old_one_is_gone(
    tmp_path: Path, ask: Any, failing: bool, lost: bool
) -> None:
    ledger, drop = MemoryLedger(), with_receipts(tmp_path)
    hand_over(tmp_path, 1, DATA)
    consume(drop, Taken(), says, ledger=ledger)
    ask(tmp_path, drop, ledger)
    while_it_runs: list[dict[str, Receipt]] = []

    def again(delivery: Delivery) -> None:
        while_it_runs.append(receipts(tmp_path))
        (fails if failing else says)(delivery)

    consume(drop, Taken(), again, ledger=MemoryLedger() if lost else ledger, max_attempts=1)
    assert while_it_runs == [{}], "a claimed item has none"
    assert list(receipts(tmp_path)) == [f"{'E' if failing else 'A'}_{STEM}.receipt.json"]
    (receipt,) = receipts(tmp_path).values()
    assert receipt.outcome == ("failed" if failing else "processed")
    if not (lost and ask is _replay_by_command):
        assert receipt.run == 2, "later than the old one, also where the ledger knows nothing of that"


def test_a_second_delivery_of_a_key_is_told_to_be_one(tmp_path: Path) -> None:
    ledger, drop = MemoryLedger(), with_receipts(tmp_path, forwards=frozenset((GROUP,)), awaits=frozenset((GROUP,)))
    hand_over(tmp_path, 1, DATA)
    consume(drop, Taken(), says, ledger=ledger)
    hand_over(tmp_path, 2, DATA, key=f"key of {STEM}")
    consume(drop, Taken(), says, ledger=ledger)
    first, second = receipts(tmp_path).values()
    assert (first.outcome, first.result, first.complete) == ("forwarded", "booked", False)
    assert (second.result, second.complete) == (f"was processed before, as {STEM}", True)


def test_it_goes_where_its_item_goes(tmp_path: Path) -> None:
    """Into the archive of the day, and into quarantine with a discarded error image."""
    ledger, drop = MemoryLedger(), with_receipts(tmp_path)
    hand_over(tmp_path, 1, DATA)
    consume(drop, Taken(), says, ledger=ledger)
    hand_over(tmp_path, 2, DATA)
    consume(drop, Taken(), fails, ledger=ledger, max_attempts=1)
    with drop.driver(ledger) as driver:
        driver.run(discard(drop.rules, ItemId(GROUP, 2)))
    sweep(drop, ledger, keep_after=0)
    (archived, quarantined) = receipts(tmp_path)
    assert archived.startswith("archive/2")
    assert archived.endswith(f"/A_{STEM}.receipt.json")
    assert quarantined == "quarantine/E_orders_0000000002.receipt.json"
    assert [name for name in names(tmp_path) if "/" not in name] == []


def test_a_receipt_that_somebody_has_made_up_is_no_state_and_harms_nothing(tmp_path: Path) -> None:
    """As names from a stranger: beside a ready item, and alone."""
    put(tmp_path, f"A_{STEM}.receipt.json", b'{"receipt": 1, "item": "../../etc/passwd"')
    put(tmp_path, "E_orders_0000000009.receipt.json", json.dumps({"receipt": 1}).encode())
    hand_over(tmp_path, 1, DATA)
    taken, drop = Taken(), with_receipts(tmp_path)
    consume(drop, taken, says)
    assert taken.results == ["processed"]
    assert parse_receipt((tmp_path / f"A_{STEM}.receipt.json").read_bytes()).result == "booked"
    assert (tmp_path / "E_orders_0000000009.receipt.json").exists()


def test_without_the_setting_there_is_nothing_of_it(tmp_path: Path) -> None:
    hand_over(tmp_path, 1, DATA)
    drop = drop_at(tmp_path)
    with drop.consumer((GROUP,), says, lambda event: None) as consumer:
        consumer.sweep_once(threading.Event())
    assert names(tmp_path) == [f"A_{STEM}.csv", f"A_{STEM}.manifest.json"]


def test_a_configuration_says_whose_receipts_wait_for_whom(tmp_path: Path) -> None:
    """Over two hops of one file as well; a group that goes elsewhere, and a plain folder, are not waited for."""
    (tmp_path / "dropgate.toml").write_text(
        """
        [drop]
        first = { url = "first", groups = ["orders_", "notes_"] }
        second = { url = "second", groups = ["orders_"] }
        last = { url = "last", receipts = true }
        plain = { url = "plain", receipts = true }

        [[route]]
        from = "first"
        to = "second"
        groups = ["orders_"]

        [[route]]
        from = "second"
        to = "last"

        [[route]]
        from = "first"
        to = "plain"
        groups = ["notes_"]
        original_names = true
        """
    )
    settings = load(tmp_path / "dropgate.toml")
    found = {name: settings.open_drop(name).rules for name in settings.drop}
    assert {name: (rules.receipts, set(rules.forwards), set(rules.awaits)) for name, rules in found.items()} == {
        "first": (False, {"orders_", "notes_"}, {"orders_"}),
        "second": (False, {"orders_"}, {"orders_"}),
        "last": (True, set(), set()),
        "plain": (True, set(), set()),
    }
