"""What is sent of a change is what changed, and it leads exactly to what is there."""

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from gateway.service.web.live import Pulse, Remembered, Shown, difference, shown
from gateway.service.web.markup import Element, h

KEYS = st.lists(st.sampled_from("abcdefgh"), unique=True)


@st.composite
def pages(draw: st.DrawFn) -> Shown:
    """A page of two sections, each with keyed pieces in some order."""
    return {name: {key: json.dumps(draw(st.integers(0, 2))) for key in draw(KEYS)} for name in ("rows", "alarms")}


def follow(before: Shown, changes: str) -> Shown:
    """What a browser makes of it, done without one."""
    after = {name: dict(pieces) for name, pieces in before.items()}
    for name, change in json.loads(changes or "{}").items():
        pieces = after[name]
        order = [key for key in pieces if key not in change["gone"]]
        for key, behind, piece in change["put"]:
            if piece is not None:
                pieces[key] = json.dumps(piece)
            if key in order:
                order.remove(key)
            order.insert(0 if behind is None else order.index(behind) + 1, key)
        after[name] = {key: pieces[key] for key in order}
    return after


@given(pages(), pages())
def test_whoever_follows_the_changes_has_the_same_page(before: Shown, after: Shown) -> None:
    followed = follow(before, difference(before, after))
    assert [list(pieces.items()) for pieces in followed.values()] == [list(pieces.items()) for pieces in after.values()]


@given(pages())
def test_where_nothing_changed_nothing_is_sent(page: Shown) -> None:
    assert difference(page, page) == ""


@given(pages(), st.sampled_from("abcdefgh"))
def test_one_piece_that_changes_is_the_only_one_sent(before: Shown, key: str) -> None:
    after = {name: dict(pieces) for name, pieces in before.items()}
    if key not in after["rows"]:
        return
    after["rows"][key] = "99"
    changes = json.loads(difference(before, after))
    assert list(changes) == ["rows"]
    assert [put[0] for put in changes["rows"]["put"]] == [key]


def test_a_page_that_was_away_is_told_what_it_missed_or_everything() -> None:
    state = {"number": 0}

    def view() -> dict[str, dict[str, Element]]:
        return {"rows": {"one": h("p", {}, "always"), "two": h("p", {}, f"{state['number']}")}}

    async def first(events: AsyncIterator[str]) -> dict[str, object]:
        async for event in events:
            if "data: " in event:
                found = json.loads(event.partition("data: ")[2])
                assert isinstance(found, dict)
                return found
        raise AssertionError("it ended")

    async def play() -> None:
        pulse = Pulse(lambda: state["number"])
        cursor = pulse.remembered.keep(shown(view()))
        state["number"] = 1
        missed = await first(pulse.stream(view, cursor, lambda: "now"))
        assert missed["reset"] is False
        assert missed["sections"] == {"rows": {"gone": [], "put": [["two", "one", ["p", {}, "1"]]]}}
        unknown = await first(pulse.stream(view, "forgotten", lambda: "now"))
        assert unknown["reset"] is True
        assert [put[0] for put in unknown["sections"]["rows"]["put"]] == ["one", "two"]  # type: ignore[index]

    # In a thread of its own: the browser's library may have an event loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, play()).result(60)


def test_what_is_remembered_is_bounded() -> None:
    remembered = Remembered()
    cursors = [remembered.keep({}) for _ in range(100)]
    assert remembered.take(cursors[0]) is None
    assert remembered.take(cursors[-1]) == {}
