"""The small parts: texts of strangers, tables, the last hour, slowed attempts."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.service.board import DropView
from gateway.service.transitions import Transition, What
from gateway.service.web.history import History
from gateway.service.web.markup import h, to_data, to_html
from gateway.service.web.overview import SHAPES
from gateway.service.web.pieces import mark
from gateway.service.web.rows import NO_TOKEN, STATES, Query, Tables
from gateway.service.web.throttle import Throttle, keys
from gateway.service.web.words import size, span, visible
from protocol.names import Grammar
from protocol.rules import Rules
from protocol.snapshot import Listed, take_snapshot
from tests.web.world import title

ANY_TEXT = st.text(st.characters(exclude_categories=[])) | st.sampled_from(["<script>", "\"'>&lt;", "\u202e", "\x00", "\udc80"])


class Read(HTMLParser):
    """What a browser would make of it: its elements and its text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(ANY_TEXT, ANY_TEXT)
def test_no_text_ever_becomes_markup(text: str, attribute: str) -> None:
    page = Read()
    page.feed(str(to_html(h("p", {"title": attribute}, text), 0.0)))
    page.close()
    assert page.tags == [("p", [("title", visible(attribute))])]
    assert page.text == visible(text)
    assert to_data(h("p", {"title": attribute}, text)) == ["p", {"title": visible(attribute)}, visible(text)]


@given(ANY_TEXT)
def test_whatever_a_browser_would_obey_is_shown_instead(text: str) -> None:
    shown = visible(text)
    assert all(character.isprintable() or character == "\n" for character in shown)
    shown.encode()  # also what is no text at all
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (300 * 1024 * 1024, "300.0 MiB"), (5 * 1024**4, "5.0 TiB"), (None, "")],
)
def test_sizes(value: int | None, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "250 ms"),
        (2.44, "2.4 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (95, "1 min 35 s"),
        (7260, "2 h 1 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


def view(names: dict[str, float], looked_at: str = "2026-11-30T12:00:00Z", server_time: float = 1796040000.0) -> DropView:
    """A drop as it was seen: names with the server's time of each."""
    listed = [Listed(name, size=10, modified=modified) for name, modified in names.items()]
    return DropView("outbox", "file:///outbox", take_snapshot(listed, Rules()), looked_at, server_time)


NOON = 1796040000.0  # 2026-11-30T12:00:00Z


def test_the_age_of_an_item_is_by_the_servers_clock() -> None:
    hour_ahead = view({f"A_{title(1)}.manifest.json": NOON + 3600 - 60}, server_time=NOON + 3600)
    table = Tables().of(hour_ahead, Grammar())
    assert table.by_title[title(1)].at == NOON - 60


def test_a_clock_that_is_measured_a_little_differently_changes_no_row() -> None:
    tables = Tables()
    times = []
    for jitter in (0.0, 0.4, -0.9, 1.1):
        seen = view({f"A_{title(1)}.manifest.json": NOON}, server_time=NOON + 100 + jitter)
        times.append(tables.of(seen, Grammar()).by_title[title(1)].at)
    assert len(set(times)) == 1


@given(
    st.dictionaries(st.integers(0, 400), st.sampled_from(["A_", "E_", "D_"]), max_size=300),
    st.booleans(),
    st.sampled_from(["", "after", "error", "done"]),
)
def test_pages_hold_every_item_once_and_in_order(items: dict[int, str], oldest: bool, state: str) -> None:
    seen = view({f"{mark}{title(number)}.manifest.json": NOON + number % 7 for number, mark in items.items()})
    table = Tables().of(seen, Grammar())
    found = []
    page = 1
    while True:
        selection = table.select(Query(state=state, oldest=oldest, page=page))
        found += selection.rows
        if page >= selection.pages:
            break
        page += 1
    wanted = [row for row in table.rows if not state or row.state == state]
    assert found == (wanted if oldest else wanted[::-1])
    assert selection.total == len(wanted)
    assert sum(selection.states.values()) == len(items)


def test_a_query_takes_nothing_that_makes_no_sense() -> None:
    query = Query.of({"state": "<script>", "page": "-1", "q": " x" * 400, "order": "random", "group": ""})
    assert (query.state, query.page, query.oldest, query.group) == ("", 1, False, None)
    assert len(query.text) <= 200
    assert Query.of({"state": NO_TOKEN, "page": "9" * 30}).page == 1
    assert Query.of(
        dict([pair.split("=") for pair in Query("error", "orders_", "a&b=c", True).address()[1:].split("&")[:2]])
    ) == (Query("error", "orders_"))


def told(minute: int, what: What = What.FORWARDED, seconds: float | None = 1.0, number: int = 1) -> Transition:
    """A step in a minute after noon."""
    at = f"2026-11-30T12:{minute:02}:{number % 60:02}Z"
    return Transition(at, what, "orders out", "outbox", "orders_", f"{number:010}", bytes=100, seconds=seconds, text="why")


def test_every_step_and_every_state_has_a_shape_of_its_own_meaning() -> None:
    assert set(SHAPES) == set(What)
    drawn = {kind: str(to_html(mark(kind), 0.0)) for kind in STATES}
    assert len(set(drawn.values())) == len(STATES), "colour is never what tells two states apart"


def test_the_last_hour_is_the_same_whether_it_was_heard_or_read() -> None:
    steps = [told(minute, number=number) for minute in range(10) for number in range(minute)]
    steps += [told(5, What.FAILED, number=90), told(6, What.BEGUN, number=91)]
    heard, read, both = History(), History(), History()
    for step in steps:
        heard.listen(step)
    read.load(iter(steps))
    for step in steps[20:]:
        both.listen(step)
    both.load(iter(steps))  # which were written down before they were read
    now = NOON + 30 * 60
    assert heard.points(now) == read.points(now) == both.points(now)
    assert sum(point.forwarded for point in heard.points(now)) == 45
    assert heard.points(now, "another route") != heard.points(now)
    assert [step for _, step in both.latest(3)] == steps[:-4:-1]
    assert heard.reason("outbox", f"orders_{90:010}") == "why"
    assert heard.since(heard.count) == []
    assert heard.since(heard.count - 2) == steps[-2:]


def test_what_is_remembered_of_the_past_is_bounded() -> None:
    history = History()
    for number in range(3000):
        history.listen(told(1, number=number, seconds=float(number % 100)))
    for number in range(6000):
        history.listen(told(2, What.FAILED, number=number))
    assert history.since(0) is None
    (point,) = [point for point in history.points(NOON + 600) if point.forwarded]
    assert point.forwarded == 3000
    assert point.median == pytest.approx(49.5, abs=8)
    assert history.reason("outbox", f"orders_{0:010}") == ""


def test_guessing_grows_slow_and_nobody_else_is_kept_out() -> None:
    now = [1000.0]
    throttle = Throttle(lambda: now[0])
    attacker, other = keys("10.0.0.9", "otto"), keys("10.0.0.1", "vera")
    tried = 0
    for _ in range(3600):
        now[0] += 1
        tried += throttle.attempt(attacker) == 0.0
    assert tried < 80, "in an hour"
    assert throttle.attempt(other) == 0.0
    throttle.succeeded(other)
    # Somebody of the name that is guessed at waits a few seconds, and not a minute.
    assert throttle.attempt(keys("10.0.0.2", "otto")) <= 5.0
    now[0] += 5
    assert throttle.attempt(keys("10.0.0.2", "otto")) == 0.0


def test_attempts_at_once_are_counted_before_they_end() -> None:
    throttle = Throttle(lambda: 1000.0)
    assert [throttle.attempt(keys("10.0.0.9", "otto")) == 0.0 for _ in range(6)] == [True] * 3 + [False] * 3


def test_those_who_tried_are_remembered_in_bounds() -> None:
    throttle = Throttle(lambda: 1000.0)
    for number in range(12_000):
        throttle.attempt(keys(f"address {number}", f"user {number}"))
    assert len(throttle._failures) <= 10_000
