"""What every ledger promises, whatever it is kept in."""

from contextlib import closing
from dataclasses import replace

import pytest

from gateway.errors import GatewayError
from gateway.handoff.ledger.base import LONGEST_RESULT, Event, Ledger
from gateway.handoff.ledger.errors import TransactionsUnsupported
from protocol.ledger import Ended, Entry, LedgerState
from protocol.manifest import LONGEST_KEY
from protocol.names import ItemId
from tests.gateway.ledger.places import Place, entry

STARTED = entry()
DONE = replace(STARTED, state=LedgerState.DONE, at="2026-11-30T10:00:01.000000Z", result="stored")
ARCHIVED = replace(DONE, state=LedgerState.ARCHIVED, at="2026-11-30T10:00:02.000000Z")


def write(ledger: Ledger, key: str, *entries: Entry) -> None:
    """Has the key go through these entries."""
    before = ledger.read(key)
    for after in entries:
        assert ledger.compare_and_set(key, before, after)
        before = after


def test_a_key_that_was_never_written_has_no_entry(ledger: Ledger) -> None:
    assert ledger.read("k") is None
    assert ledger.unarchived() == []
    assert list(ledger.history()) == []
    assert ledger.highest_settled("orders_") is None


def test_an_entry_comes_back_as_it_was_written(ledger: Ledger) -> None:
    given_up = Entry(
        LedgerState.STARTED, 7, ItemId("a.b-c_", 10**18 - 1), "h-1", 5, "2026-11-30T10:00:00Z", "sha256:0a", Ended.ERROR, "no"
    )
    write(ledger, "k", given_up)
    assert ledger.read("k") == given_up


@pytest.mark.parametrize(
    "changed",
    [
        replace(STARTED, generation=2),
        replace(STARTED, state=LedgerState.DONE),
        replace(STARTED, item=ItemId("orders_", 2)),
        replace(STARTED, item=ItemId("other_", 1)),
        replace(STARTED, owner="host-2-bbbbbb"),
        replace(STARTED, attempts=2),
        replace(STARTED, at="2026-11-30T10:00:00.000001Z"),
        replace(STARTED, hash="sha256:00"),
        replace(STARTED, ended=Ended.RETURNED),
        replace(STARTED, result="said"),
    ],
)
def test_a_change_takes_the_very_entry_that_was_read(ledger: Ledger, changed: Entry) -> None:
    write(ledger, "k", changed)
    assert not ledger.compare_and_set("k", STARTED, DONE)
    assert ledger.read("k") == changed


def test_what_is_there_is_not_written_over_as_if_it_were_not(ledger: Ledger) -> None:
    write(ledger, "k", STARTED)
    assert not ledger.compare_and_set("k", None, replace(STARTED, owner="host-2-bbbbbb"))
    assert ledger.read("k") == STARTED


def test_what_is_not_there_is_not_changed(ledger: Ledger) -> None:
    assert not ledger.compare_and_set("k", STARTED, DONE)
    assert ledger.read("k") is None
    assert list(ledger.history()) == []


def test_only_what_is_done_and_not_archived_is_unarchived(ledger: Ledger) -> None:
    write(ledger, "started", STARTED)
    write(ledger, "done", STARTED, DONE)
    write(ledger, "archived", STARTED, DONE, ARCHIVED)
    write(ledger, "replayed", STARTED, DONE, ARCHIVED, replace(STARTED, generation=2))
    assert ledger.unarchived() == [("done", DONE)]


def test_the_history_tells_every_change_in_its_order(ledger: Ledger) -> None:
    write(ledger, "a", STARTED)
    write(ledger, "b", entry(2))
    write(ledger, "a", DONE, ARCHIVED)
    ledger.compare_and_set("a", STARTED, entry(3))  # lost: no change
    told = [("a", STARTED), ("b", entry(2)), ("a", DONE), ("a", ARCHIVED)]
    assert list(ledger.history()) == [Event(changed.at, key, changed) for key, changed in told]


def test_the_history_can_be_asked_for_an_item_a_key_or_a_time(ledger: Ledger) -> None:
    write(ledger, "a", STARTED, DONE, ARCHIVED)
    write(ledger, "b", entry(2))
    write(ledger, "c", entry(1, group="other_"))
    assert [event.key for event in ledger.history(item=ItemId("orders_", 2))] == ["b"]
    assert [event.entry for event in ledger.history(key="a")] == [STARTED, DONE, ARCHIVED]
    assert [event.entry for event in ledger.history(since="2026-11-30T10:00:01")] == [DONE, ARCHIVED]
    assert list(ledger.history(key="a", item=ItemId("orders_", 2))) == []
    assert len(list(ledger.history(since="2026-11-30"))) == 5


def test_the_history_of_many_changes_is_whole(ledger: Ledger) -> None:
    changes = [entry(number) for number in range(1, 522)]
    for number, change in enumerate(changes):
        write(ledger, f"k{number}", change)
    assert [event.entry for event in ledger.history()] == changes


def test_the_highest_settled_number_is_that_of_an_item_which_came_to_its_end(ledger: Ledger) -> None:
    write(ledger, "3", entry(3), replace(entry(3), state=LedgerState.DONE))
    assert ledger.highest_settled("orders_") == 3
    write(ledger, "9", entry(9))
    assert ledger.highest_settled("orders_") == 3, "9 is under way"
    write(ledger, "9", replace(entry(9), ended=Ended.RETURNED))
    assert ledger.highest_settled("orders_") == 3, "9 is to be tried again"
    write(ledger, "9", replace(entry(9), ended=Ended.ERROR))
    assert ledger.highest_settled("orders_") == 9, "9 was given up"
    write(ledger, "10", entry(10, group="other_"), replace(entry(10, group="other_"), state=LedgerState.DONE))
    assert ledger.highest_settled("orders_") == 9
    write(ledger, "9", entry(9, generation=2))
    assert ledger.highest_settled("orders_") == 3, "9 runs again"


def test_consumer_groups_know_nothing_of_each_other(place: Place) -> None:
    names = ("a", "A", "../a", "é/ü", "x" * 100, "😀" * 100)
    ledgers = [place.open(name) for name in names]
    for ledger, number in zip(ledgers, range(1, 9), strict=False):
        write(ledger, "k", entry(number))
    for ledger, number in zip(ledgers, range(1, 9), strict=False):
        with closing(ledger):
            assert ledger.read("k") == entry(number)
            assert [event.entry for event in ledger.history()] == [entry(number)]
            assert not ledger.unarchived()


@pytest.mark.parametrize(
    "text",
    [
        "Rechnung März 2026 №5 😀",
        "back\\slash \\0 \\u0041 \\\\",
        "nul \0 and half a pair \ud800",
        "'; DROP TABLE dropgate_entries; -- %s %(x)s {x} :x ?",
        "  spaces\tand\r\nlines  ",
        "\u2028\x1f\x7f",
        "",
    ],
)
def test_a_strangers_text_comes_back_as_it_was(ledger: Ledger, text: str) -> None:
    changed = replace(STARTED, result=text, hash=text)
    write(ledger, text, changed)
    assert ledger.read(text) == changed
    assert [event.key for event in ledger.history(key=text)] == [text]
    write(ledger, text, replace(changed, state=LedgerState.DONE))
    assert ledger.unarchived() == [(text, replace(changed, state=LedgerState.DONE))]


def test_keys_are_told_apart_to_the_last_character(ledger: Ledger) -> None:
    longest = "😀" * (LONGEST_KEY - 1)
    keys = (longest + "a", longest + "b", "K", "k", "k ", "é", "e\u0301")
    for number, key in enumerate(keys):
        write(ledger, key, entry(number))
    assert [ledger.read(key) for key in keys] == [entry(number) for number in range(len(keys))]


def test_a_result_that_is_too_long_loses_its_end_and_can_still_be_changed(ledger: Ledger) -> None:
    long = replace(STARTED, result="😀" * LONGEST_RESULT * 2)
    write(ledger, "k", long)
    read = ledger.read("k")
    assert read is not None
    assert read.result == "😀" * (LONGEST_RESULT - 3) + "..."
    assert ledger.compare_and_set("k", long, DONE), "its writer need not know"


def test_what_was_recorded_is_there_when_it_is_opened_again(lasting: Place) -> None:
    with closing(lasting.open()) as ledger:
        write(ledger, "k", STARTED, DONE)
    with closing(lasting.open()) as ledger:
        assert ledger.read("k") == DONE
        assert ledger.unarchived() == [("k", DONE)]
        assert [event.entry for event in ledger.history()] == [STARTED, DONE]
        assert ledger.highest_settled("orders_") == 1


def test_two_that_are_open_at_once_see_each_others_changes(lasting: Place) -> None:
    with closing(lasting.open()) as one, closing(lasting.open()) as other:
        write(one, "k", STARTED)
        assert other.read("k") == STARTED
        write(other, "k", DONE)
        assert one.unarchived() == [("k", DONE)]
        assert not one.compare_and_set("k", STARTED, replace(STARTED, ended=Ended.RETURNED))
        assert one.highest_settled("orders_") == 1
        assert len(list(one.history())) == 2


def test_it_can_be_closed_twice(place: Place) -> None:
    with place.open() as ledger:
        write(ledger, "k", STARTED)
    ledger.close()


@pytest.mark.parametrize("place", ["memory", "journal"], indirect=True)
def test_what_is_no_database_refuses_a_transaction_and_says_what_would_do(ledger: Ledger) -> None:
    write(ledger, "k", STARTED)
    with pytest.raises(TransactionsUnsupported, match="sqlite: or postgresql:") as refused, ledger.transaction("k", STARTED):
        pytest.fail("no handler runs in it")
    assert isinstance(refused.value, GatewayError)
    assert ledger.read("k") == STARTED
