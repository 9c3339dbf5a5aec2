"""Drops with receipts, whoever consumes there, and what their producer sees."""

from dataclasses import replace
from pathlib import Path

from gateway.drop import Drop
from gateway.errors import HandlerFailed
from gateway.handoff.consumer import Delivery
from gateway.handoff.ledger.open import open_ledger
from protocol.receipt import Receipt, parse_receipt
from protocol.rules import Rules
from tests.crash.place import GROUP


class _Nowhere:
    """Takes bytes that were only to be read and verified."""

    def write(self, data: bytes) -> None:
        del data


def with_receipts(url: str | Path, *, awaits: bool = False, forwards: bool = False, receipts: bool = True) -> Drop:
    """A drop whose consumers write receipts; `awaits` and `forwards` say that they are a route."""
    groups = frozenset((GROUP,))
    none: frozenset[str] = frozenset()
    rules = Rules(receipts=receipts, forwards=groups if forwards or awaits else none, awaits=groups if awaits else none)
    return Drop.at(str(url), rules=rules, groups=(GROUP,))


def consume(drop: Drop, scratch: Path, *, failing: bool = False) -> None:
    """The last consumer: takes all that is there, and fails each of it or none."""

    def handle(delivery: Delivery) -> None:
        for payload in delivery.contents.payloads:
            delivery.fetch(payload, _Nowhere())
        if failing:
            raise HandlerFailed("line 3: no such customer")
        delivery.outcome = f"booked as {delivery.contents.payloads[0].name.suffix}"

    with (
        open_ledger(f"sqlite://{scratch}/consumer.db", str(drop)) as ledger,
        drop.heartbeat(3.0) as heartbeat,
        drop.consumer((GROUP,), handle, lambda event: None, ledger=ledger, heartbeat=heartbeat, max_attempts=1) as consumer,
    ):
        for _ in range(2):
            if consumer._healing is not None:
                consumer._healing.hasten()  # a replay is seen by a sweep, and those come every second at most
            consumer.sweep_once(_Never())


class _Never:
    def is_set(self) -> bool:
        return False


def receipts(place: Path) -> dict[str, Receipt]:
    """Each receipt of a drop, by its name."""
    return {path.name: parse_receipt(path.read_bytes()) for path in sorted(place.glob("*.receipt.json"))}


def changed(drop: Drop, **rules: object) -> Drop:
    """The same drop by other rules."""
    return replace(drop, rules=replace(drop.rules, **rules))  # type: ignore[arg-type] # by name
