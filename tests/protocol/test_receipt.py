"""The receipt's format: what is written is read back, and nothing else is believed."""

import json
from typing import Any

import pytest

from protocol.errors import InvalidReceipt
from protocol.receipt import LARGEST, LONGEST_TEXT, Answer, Receipt, format_receipt, parse_receipt

WHOLE = Receipt(
    item="orders_0000000042",
    key="invoice 7",
    outcome="processed",
    hashes={"orders_0000000042.csv": "sha256:" + "a" * 64},
    time="2026-11-30T15:01:02Z",
    host="books-1",
    owner="books-1-4711-9f",
    run=2,
    attempts=1,
    replay=True,
    result="booked",
    complete=False,
    destinations={"books": Answer(outcome="failed", error="no such customer"), "copy": Answer(outcome="published")},
)


def test_what_is_written_is_read_back() -> None:
    assert parse_receipt(format_receipt(WHOLE)) == WHOLE


def test_only_what_is_known_is_written() -> None:
    receipt = Receipt(item="orders_0000000042", key="invoice 7", outcome="processed", time="t")
    assert json.loads(format_receipt(receipt)) == {
        "receipt": 1,
        "item": "orders_0000000042",
        "key": "invoice 7",
        "outcome": "processed",
        "time": "t",
    }


def test_a_failure_s_own_words_are_bounded_and_fit_for_utf_8() -> None:
    receipt = parse_receipt(format_receipt(WHOLE.model_copy(update={"error": "M\udce4rz " + "x" * 2 * LONGEST_TEXT})))
    assert receipt.error.startswith("M\\udce4rz xx")
    assert len(receipt.error) == LONGEST_TEXT


def test_of_very_many_files_it_is_still_written() -> None:
    hashes = {f"orders_0000000042.{'x' * 200}{n}": "sha256:" + "a" * 64 for n in range(4096)}
    data = format_receipt(WHOLE.model_copy(update={"hashes": hashes}))
    assert len(data) <= LARGEST
    assert parse_receipt(data).outcome == "processed"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"receipt": 2}, "version 2"),
        ({"receipt": True}, "version True"),
        ({"outcome": "perhaps"}, "outcome"),
        ({"run": "2"}, "run"),
        ({"run": -1}, "run"),
        ({"complete": "yes"}, "complete"),
        ({"destinations": {"books": {}}}, "destinations.books.outcome"),
        ({"item": None}, "item"),
    ],
)
def test_what_is_wrong_is_told_and_is_not_torn(change: dict[str, Any], told: str) -> None:
    value = json.loads(format_receipt(WHOLE)) | change
    with pytest.raises(InvalidReceipt, match=told) as caught:
        parse_receipt(json.dumps(value).encode())
    assert not caught.value.torn, "of a later version, perhaps: it is left alone"


def test_any_part_of_one_is_torn() -> None:
    data = format_receipt(WHOLE)
    for length in range(0, len(data) - 2, 7):
        with pytest.raises(InvalidReceipt) as caught:
            parse_receipt(data[:length])
        assert caught.value.torn


def test_unknown_keys_are_for_later_versions() -> None:
    value = json.loads(format_receipt(WHOLE)) | {"colour": "red"}
    assert parse_receipt(json.dumps(value).encode()).item == WHOLE.item
