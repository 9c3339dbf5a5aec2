"""What a sweep does about receipts: they go into the archive with the rest, and one that was moved aside is written anew."""

from dataclasses import replace

from protocol.names import ItemId, Name
from protocol.receipt import aside_path
from protocol.recovery import Action, Ages, Archive, DeleteScratch, Facts, FinishReceipt, plan
from protocol.rules import Rules
from protocol.snapshot import Listed, take_snapshot
from protocol.states import State

RULES = Rules(receipts=True)
ITEM = ItemId("orders_", 42)
FILES = ("A_orders_0000000042.csv", "A_orders_0000000042.manifest.json")
RECEIPT = "A_orders_0000000042.receipt.json"
ASIDE = aside_path(RECEIPT, "books-1")
NOW = 1_000_000.0


def found(*paths: str, ages: Ages, rules: Rules = RULES) -> list[Action]:
    listing = [Listed(path, size=10, modified=NOW - 100_000) for path in paths]
    return plan(take_snapshot(listing, rules), rules, Facts((), NOW), ages)


def test_a_receipt_is_archived_with_its_item() -> None:
    (archived,) = found(*FILES, RECEIPT, ages=Ages(after=60.0))
    assert isinstance(archived, Archive)
    assert [RULES.layout.path(name) for name in archived.names] == [*FILES, RECEIPT]


def test_one_that_was_left_by_an_archiving_that_was_cut_follows() -> None:
    assert found(RECEIPT, ages=Ages(after=60.0)) == [Archive(ITEM, (Name(ITEM, "receipt.json", State.AFTER),))]


def test_images_from_before_there_were_receipts_are_left_as_they_are() -> None:
    assert found(*FILES, ages=Ages(before=None)) == []
    assert found(*FILES, aside_path("A_orders_0000000043.receipt.json", "books-1"), ages=Ages(before=None)) == []


def test_one_that_was_moved_aside_by_a_writer_that_was_cut_is_written_anew() -> None:
    token = Name(ITEM, "manifest.json", State.AFTER)
    assert found(*FILES, ASIDE, ages=Ages(before=None)) == [FinishReceipt(token)]
    assert found(*FILES, ASIDE, ages=Ages(before=60.0)) == [FinishReceipt(token)], "what tells of it stays until then"
    assert found(*FILES, RECEIPT, ASIDE, ages=Ages(before=60.0)) == [DeleteScratch(ASIDE)]
    assert found(*FILES, ASIDE, ages=Ages(before=None), rules=replace(RULES, receipts=False)) == []
