"""An alarm fires once, clears itself once it is over, and what flaps around a limit is one alarm."""

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.service.alarms.book import SETTLE, Book
from tests.service.alarm_tools import HandClock, alarm

ONE = "errors:outbox:orders_"


def test_an_alarm_fires_once_however_often_it_is_found() -> None:
    hand = HandClock()
    book = Book(hand.clock())
    assert [one.id for one in book.update([alarm()]).fired] == [ONE]
    for _ in range(5):
        hand.move(60)
        assert not book.update([alarm()])
    assert [one.id for one in book.current()] == [ONE]


def test_an_alarm_clears_once_it_was_absent_in_two_looks_and_for_a_while() -> None:
    hand = HandClock()
    book = Book(hand.clock())
    book.update([alarm()])
    assert not book.update([])  # the first look, and no time
    hand.move(SETTLE)
    assert [one.id for one in book.update([]).cleared] == [ONE]
    assert book.current() == ()
    assert not book.update([])


def test_one_look_that_is_judged_often_does_not_clear_an_alarm() -> None:
    hand = HandClock()
    book = Book(hand.clock())
    book.update([alarm()])
    for _ in range(5):
        hand.move(SETTLE)
        assert not book.update([], lambda _: "the look of 12:00")
    assert book.update([], lambda _: "the look of 12:05").cleared


def test_an_alarm_that_cannot_be_judged_stays() -> None:
    hand = HandClock()
    book = Book(hand.clock())
    book.update([alarm()])
    for _ in range(5):
        hand.move(SETTLE)
        assert not book.update([], lambda _: None)
    assert book.current()


def test_what_is_found_again_before_it_cleared_is_the_same_alarm() -> None:
    hand = HandClock()
    book = Book(hand.clock())
    since = book.update([alarm()]).fired[0].since
    for _ in range(10):
        hand.move(SETTLE - 1)
        assert not book.update([])
        hand.move(2)
        assert not book.update([alarm(since="2026-11-30T18:00:00Z")])
    assert book.current()[0].since == since


def test_an_alarm_says_what_is_known_now() -> None:
    book = Book(HandClock().clock())
    book.update([alarm(title="1 error image")])
    assert not book.update([alarm(title="2 error images")])
    assert book.current()[0].title == "2 error images"


def test_a_rise_of_the_level_is_told_once_and_is_no_new_alarm() -> None:
    book = Book(HandClock().clock())
    told = [book.update([alarm(level=level)]) for level in (0, 1, 1, 0, 1, 2, 0)]
    assert [len(changes.fired) for changes in told] == [1, 0, 0, 0, 0, 0, 0]
    assert [len(changes.worse) for changes in told] == [0, 1, 0, 0, 0, 1, 0]


def test_after_a_restart_nothing_is_fired_again_and_nothing_is_forgotten() -> None:
    hand = HandClock()
    book = Book(hand.clock())
    book.update([alarm(level=2, drops=("outbox",)), alarm("away:files", routes=("a",), severity="critical")])
    again = Book(hand.clock())
    again.restore(book.records())
    assert again.current() == book.current()
    assert not again.update([alarm(level=2, drops=("outbox",)), alarm("away:files", routes=("a",), severity="critical")])
    again.update([])
    hand.move(SETTLE)
    assert len(again.update([]).cleared) == 2


def test_the_critical_come_first_then_the_oldest() -> None:
    book = Book(HandClock().clock())
    book.update(
        [
            alarm("new", since="2026-11-30T13:00:00Z"),
            alarm("old", since="2026-11-30T11:00:00Z"),
            alarm("bad", since="2026-11-30T14:00:00Z", severity="critical"),
        ]
    )
    assert [one.id for one in book.current()] == ["bad", "old", "new"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.frozensets(st.sampled_from("abc")), st.floats(0, 100)), max_size=40))
def test_each_alarm_fires_and_clears_in_turn(rounds: list[tuple[frozenset[str], float]]) -> None:
    hand = HandClock()
    book = Book(hand.clock())
    is_on: dict[str, bool] = {}
    for found, seconds in rounds:
        hand.move(seconds)
        changes = book.update([alarm(name) for name in found])
        for one in changes.fired:
            assert not is_on.get(one.id)
            is_on[one.id] = True
        for one in changes.cleared:
            assert is_on[one.id]
            assert one.id not in found
            is_on[one.id] = False
        assert {one.id for one in book.current()} == {name for name, on in is_on.items() if on} >= found


def test_many_threads_fire_each_alarm_once() -> None:
    book = Book(HandClock().clock())
    fired: list[str] = []

    def update() -> None:
        for number in range(200):
            fired.extend(one.id for one in book.update([alarm(str(number))], lambda _: None).fired)

    threads = [threading.Thread(target=update) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(fired, key=int) == [str(number) for number in range(200)]
