"""The first page: everything at a glance, and up to date without being loaded again."""

import dataclasses
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from gateway.service.alarms.alarm import Alarm
from gateway.service.board import RouteState
from gateway.service.transitions import What
from gateway.service.web.app import create_app
from gateway.service.web.server import WebServer
from gateway.service_sections import WebSettings
from tests.web.conftest import Visit
from tests.web.looks import contrast_faults, sideways
from tests.web.world import World, ago, error_image, item, title

ALARM = Alarm(
    "away-returns",
    "away",
    "returns",
    "returns does not answer",
    "files.example:22 has not answered for 12 minutes. Nothing is lost.",
    ago(minutes=12),
    "critical",
)


@pytest.fixture(scope="module", autouse=True)
def _a_busy_night(world: World) -> None:
    outbox, bank, _, _ = (world.add(name) for name in ("outbox", "bank-in", "office-in", "returns"))
    # Told before the server starts: what it shows of the past it has from the journal.
    for minute in range(50, 0, -1):
        for number in range(minute % 6):
            seconds = 2 + minute % 5
            at = ago(minutes=minute, seconds=number)
            forwarded = title(5000 - 10 * minute + number)
            world.tell(What.FORWARDED, forwarded, "outbox", at=at, route="orders out", bytes=1024, seconds=seconds, attempt=1)
    world.tell(What.FAILED, title(42), "outbox", at=ago(minutes=20), route="orders out", text="exit status 1", attempt=5)
    for number in (9001, 9002, 9003):
        item(outbox, number, old=60 * (9010 - number))
    item(outbox, 9005, "C_gate-4711-9f3a2c_", payload_mark="", old=70)
    error_image(outbox, 42, "handler failed: exit status 1", old=1200)
    item(bank, 1, old=5)
    world.route("orders out", "outbox", "bank-in", "office-in")
    trouble = "connect: files.example:22 does not answer"
    world.route("invoices home", "returns", "outbox", groups=("invoices_",), state=RouteState.AWAY, trouble=trouble)
    world.route("night run", "office-in", "returns", groups=("reports_",), state=RouteState.PAUSED)
    world.move("orders out", title(9005), "bank-in", 123_000_000, 300_000_000)
    world.look()
    view = world.board.picture().drop("returns")
    assert view is not None
    world.board.set_drop(dataclasses.replace(view, trouble=trouble, away_since=ago(minutes=12)))
    world.alarms.alarms = [ALARM]


def route(page: Page, name: str) -> str:
    """What a route's line says."""
    return page.locator("article.route").filter(has=page.get_by_role("heading", name=name)).inner_text()


def test_every_route_is_a_line_with_what_waits_moves_and_fails(visit: Visit, shoot: Callable[[Page, str], None]) -> None:
    page = visit.live()
    assert "Drop returns does not answer, 1 error image." in page.locator("h1").inner_text()
    line = route(page, "orders out")
    for text in ("running", "outbox", "3 ready", "1 claimed", "1 error", "1 moving", "bank-in", "1 ready", "office-in", "41%"):
        assert text in line
    assert "files.example:22 does not answer" in route(page, "invoices home")
    assert "paused" in route(page, "night run")
    assert "returns does not answer" in page.locator(".alarm.critical").inner_text()
    expect(page).to_have_title("(1 error) dropgate")
    shoot(page, "overview-light")


def test_after_a_restart_the_last_hour_is_there(visit: Visit, world: World) -> None:
    page = visit.live()
    told = sum(minute % 6 for minute in range(1, 51))
    expect(page.locator("[data-live=throughput]")).to_contain_text(f"{told} items")
    expect(page.locator("[data-live=throughput]")).to_contain_text("1 failed")
    expect(page.locator("[data-live=throughput-bars] rect.failed")).to_have_count(1)
    expect(page.locator("[data-live=latency-lines] path.median").first).to_be_attached()
    page.get_by_text("Both as a table").click()
    rows = page.locator("[data-live=numbers] tr")
    assert sum(int(text.split("\t")[1]) for text in rows.all_inner_texts()) == told, "the drawing is told as numbers too"


def test_what_happens_is_seen_without_loading_the_page_again(visit: Visit, world: World) -> None:
    page = visit.live()
    page.evaluate("window.same = true")
    world.move("orders out", title(9005), "bank-in", 240_000_000, 300_000_000)
    expect(page.locator("progress")).to_have_attribute("value", "240000000")
    world.alarms.alarms = [ALARM, dataclasses.replace(ALARM, id="other", title="free space is low", severity="warning")]
    expect(page.locator(".alarm")).to_have_count(2)
    expect(page.locator("#announce")).to_contain_text("free space is low")  # for who cannot see it
    world.alarms.alarms = [ALARM]
    expect(page.locator(".alarm")).to_have_count(1)
    world.tell(What.REFUSED, title(9005), "outbox", route="orders out", destination="office-in", text="no space")
    world.board.set_moving("orders out", title(9005), None)
    expect(page.locator("[data-live=recent] li").first).to_contain_text("refused")
    expect(page.locator("progress")).to_have_count(0)
    world.board.set_state("night run", RouteState.FAILED, "login refused")
    expect(page.locator("h1")).to_contain_text("1 route needs a person")
    assert page.evaluate("window.same") is True
    world.board.set_state("night run", RouteState.PAUSED)
    world.move("orders out", title(9005), "bank-in", 123_000_000, 300_000_000)


def test_trouble_of_the_service_itself_is_shown(visit: Visit, world: World) -> None:
    world.board.set_trouble("journal", "journal.jsonl: No space left on device")
    page = visit.live()
    expect(page.locator(".alarm", has_text="No space left")).to_be_visible()
    world.board.set_trouble("journal", "")
    expect(page.locator(".alarm", has_text="No space left")).to_have_count(0)


def test_times_are_of_the_viewers_zone_with_the_exact_utc(visit: Visit) -> None:
    page = visit.live(timezone_id="Asia/Kolkata")
    time = page.locator(".alarm time").first
    assert re.fullmatch(r"2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC", time.get_attribute("title") or "")
    shown, utc = time.inner_text(), (time.get_attribute("title") or "")[11:19]
    minutes = (int(utc[:2]) * 60 + int(utc[3:5]) + 330) % 1440
    assert shown.startswith(f"{minutes // 60:02}:{minutes % 60:02}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_easy_to_read(visit: Visit, scheme: str, shoot: Callable[[Page, str], None]) -> None:
    page = visit.live(color_scheme=scheme)
    assert contrast_faults(page) == []
    shoot(page, f"overview-{scheme}")


def test_on_a_phone_nothing_scrolls_sideways(visit: Visit, shoot: Callable[[Page, str], None]) -> None:
    page = visit.live(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    assert sideways(page) <= 0
    page.get_by_text("Both as a table").click()
    assert sideways(page) <= 0, "a wide table scrolls in itself"
    shoot(page, "overview-phone")


def test_the_keyboard_reaches_everything_and_shows_where_it_is(visit: Visit) -> None:
    page = visit.live()
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    seen = []
    for _ in range(30):
        page.keyboard.press("Tab")
        text, outline, outside = page.evaluate(_FOCUS)
        seen.append(text)
        assert outside or outline != "none", f"no mark at {text!r}"
    assert {"outbox", "bank-in", title(9005), "Both as a table"} <= set(seen)


# What has the focus, how that is marked, and whether it has left the page at its end.
_FOCUS = """() => [
    document.activeElement.innerText, getComputedStyle(document.activeElement).outlineStyle,
    document.activeElement === document.body,
]"""


def test_nothing_moves_for_who_asks_for_that(visit: Visit) -> None:
    page = visit.live(reduced_motion="reduce")
    assert page.locator(".line.moves").evaluate("node => getComputedStyle(node).animationName") == "none"


def test_without_a_script_the_first_page_says_it_all(visit: Visit) -> None:
    page = visit.page(java_script_enabled=False)
    assert "3 ready" in route(page, "orders out")
    assert "UTC" in page.locator(".alarm time").first.inner_text()


def test_a_page_that_was_left_open_goes_on_after_a_restart(browser: Browser, world: World) -> None:
    first = WebServer(create_app(world.context(), WebSettings()), "127.0.0.1:0")
    first.start()
    visit = Visit(browser, first.url)
    page = visit.live()
    page.evaluate("window.same = true")
    first.close()
    expect(page.locator("#pulse")).to_have_text("reconnecting")
    world.board.set_state("night run", RouteState.RUNNING)
    again = WebServer(create_app(world.context(), WebSettings()), first.url.removeprefix("http://"))
    again.start()
    expect(page.locator("article.route", has_text="night run")).to_contain_text("running")
    expect(page.locator("#pulse")).to_have_text("live")
    assert page.evaluate("window.same") is True, "it was not loaded again"
    visit.close()
    again.close()
    world.board.set_state("night run", RouteState.PAUSED)
    assert [fault for fault in visit.faults if "ERR_" not in fault] == [], "the browser tells what it cannot reach"
