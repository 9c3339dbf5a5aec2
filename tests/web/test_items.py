"""A drop of 10,000 items: found, followed and told, without the browser ever being given all of them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from gateway.service.transitions import What
from tests.web.conftest import Visit
from tests.web.looks import contrast_faults, sideways
from tests.web.world import World, error_image, item, many_after_images, title

MANY = 10_000
FIRST_CONTENT = 5.0  # seconds, on machines that have other work; what it took is printed
LARGEST_PAGE = 200_000  # bytes
LARGEST_CHANGE = 5_000  # bytes, for one item of 10,000


@pytest.fixture(scope="module", autouse=True)
def outbox(world: World) -> Path:
    """The drop: most of it done, a few at the head."""
    folder = world.add("outbox")
    world.add("bank-in")
    many_after_images(folder, range(1, MANY - 4))
    item(folder, MANY + 1, old=90)
    item(folder, MANY + 2, old=60)
    item(folder, MANY + 3, "C_gate-4711-9f3a2c_", payload_mark="", old=30)
    error_image(folder, MANY + 4, "handler failed: exit status 1", old=2000)
    item(folder, 7, group="invoices_", source_name="Rechnung März.csv", old=20)
    world.route("orders out", "outbox", "bank-in", groups=("orders_", "invoices_"))
    world.move("orders out", title(MANY + 3), "bank-in", 10_000_000, 40_000_000)
    world.look()
    return folder


def rows(page: Page) -> list[str]:
    """The items that are shown, from the top."""
    return page.locator("[data-live=rows] th a").all_inner_texts()


def test_the_first_content_is_there_at_once(visit: Visit, shoot: Callable[[Page, str], None]) -> None:
    page = visit.live("/drops/outbox")
    page.reload()  # what anybody but the very first sees
    seen = page.evaluate(
        """() => new Promise(done => new PerformanceObserver((list) =>
             done(list.getEntriesByName("first-contentful-paint")[0].startTime)).observe({ type: "paint", buffered: true }))"""
    )
    size = page.evaluate("performance.getEntriesByType('navigation')[0].decodedBodySize")
    print(f"\n{MANY} items: first content after {seen:.0f} ms, the page is {size} bytes")  # noqa: T201 - a number to know
    assert seen < FIRST_CONTENT * 1000
    assert size < LARGEST_PAGE
    assert len(rows(page)) == 100, "a page of them, and not the drop"
    expect(page.locator("[data-live=states]")).to_contain_text(f"{MANY:,} in all")
    shoot(page, "drop-light")


@pytest.fixture
def watched(visit: Visit) -> tuple[Page, list[str]]:
    """The drop's page, and what its stream brings."""
    page = visit.live("/drops/outbox")
    brought: list[str] = []
    wire = page.context.new_cdp_session(page)
    wire.on("Network.eventSourceMessageReceived", lambda event: brought.append(event["data"]))
    wire.send("Network.enable")
    page.wait_for_timeout(700)  # until it has nothing more to say of the beginning
    brought.clear()
    return page, brought


def test_one_item_changes_and_only_that_is_sent(watched: tuple[Page, list[str]], world: World, outbox: Path) -> None:
    page, brought = watched
    page.evaluate("window.same = true")
    row = page.locator("[data-live=rows] tr", has_text=title(MANY + 2))
    expect(row).to_contain_text("ready")
    old, new = (outbox / f"{mark}{title(MANY + 2)}.manifest.json" for mark in ("", "C_gate-1-1_"))
    old.rename(new)
    world.look("outbox")
    expect(row).to_contain_text("claimed")
    expect(row).to_contain_text("gate-1-1")
    assert page.evaluate("window.same") is True, "without loading it again"
    sent = sum(map(len, brought))
    print(f"\none of {MANY} items changed: {sent} characters were sent")  # noqa: T201 - what was measured
    assert 0 < sent < LARGEST_CHANGE
    put = [piece for message in brought for piece in json.loads(message)["sections"].get("rows", {"put": []})["put"]]
    assert [key for key, _, _ in put] == [title(MANY + 2)]
    new.rename(old)
    world.look("outbox")
    expect(row).to_contain_text("ready")


def test_a_new_item_comes_in_at_the_top_and_one_that_goes_leaves(visit: Visit, world: World, outbox: Path) -> None:
    page = visit.live("/drops/outbox")
    item(outbox, MANY + 50)
    world.look("outbox")
    expect(page.locator("[data-live=rows] th a").first).to_have_text(title(MANY + 50))
    assert len(rows(page)) == 100
    for path in outbox.glob(f"*{title(MANY + 50)}*"):
        path.unlink()
    world.look("outbox")
    expect(page.locator("[data-live=rows] th a").first).not_to_have_text(title(MANY + 50))
    assert len(rows(page)) == 100


def test_one_item_among_many_is_found_and_its_story_is_told(
    visit: Visit, world: World, shoot: Callable[[Page, str], None]
) -> None:
    number = title(7, "invoices_")
    world.tell(What.BEGUN, number, "outbox", route="orders out", attempt=1, owner="gate-4711-9f3a2c")
    world.tell(What.REFUSED, number, "outbox", route="orders out", destination="bank-in", text="no space left there")
    page = visit.live("/drops/outbox")
    page.get_by_label("Search").fill("invoices_0000000007")
    expect(page.locator("[data-live=rows] tr")).to_have_count(1)
    assert "q=invoices_0000000007" in page.url, "it can be sent to somebody"
    page.get_by_role("link", name=number).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(number)
    story = page.locator("[data-live=steps]")
    expect(story).to_contain_text("begun")
    expect(story).to_contain_text("no space left there")
    manifest = page.locator("[data-live=contents]")
    expect(manifest).to_contain_text("key-invoices_7")
    expect(manifest).to_contain_text("Rechnung März.csv")
    expect(page.locator("[data-live=files]")).to_contain_text(f"{number}.manifest.json")
    world.tell(What.FORWARDED, number, "outbox", route="orders out", seconds=3.25, bytes=21)
    expect(story).to_contain_text("3.2 s after it was made")
    assert story.locator("li").count() == 3, "each step once, whether it was read or heard"
    shoot(page, "item-light")


def test_filters_and_pages_go_together_and_back(visit: Visit) -> None:
    page = visit.live("/drops/outbox")
    page.get_by_role("link", name=re.compile("after$")).click()
    expect(page.locator("[data-live=found]")).to_contain_text(f"{MANY - 5:,} items, page 1 of 100")
    page.get_by_role("link", name="Next").click()
    expect(page.locator("[data-live=found]")).to_contain_text("page 2 of 100")
    page.locator("[name=order]").select_option("oldest")
    expect(page.locator("[data-live=rows] th a").first).to_have_text(title(1))
    page.go_back()
    expect(page.locator("[data-live=found]")).to_contain_text("page 1 of 100")
    page.locator("[name=group]").select_option("invoices_")
    expect(page.locator("[data-live=found]")).to_contain_text("No item fits this.")
    page.reload()
    expect(page.locator("[data-live=found]")).to_contain_text("No item fits this.")
    expect(page.locator("[name=group]")).to_have_value("invoices_")


def test_the_filter_works_without_a_script(visit: Visit) -> None:
    page = visit.page("/drops/outbox", java_script_enabled=False)
    page.get_by_label("Search").fill("gate-4711")
    page.get_by_role("button", name="Show").click()
    assert rows(page) == [title(MANY + 3)]
    assert "25% of 38.1 MiB" in page.locator("[data-live=rows]").inner_text()


def test_what_has_the_focus_keeps_it_while_the_page_changes(visit: Visit, world: World) -> None:
    page = visit.live("/drops/outbox")
    link = page.get_by_role("link", name=title(MANY + 3))
    link.focus()
    world.move("orders out", title(MANY + 3), "bank-in", 30_000_000, 40_000_000)
    expect(page.locator("[data-live=rows]")).to_contain_text("75%")
    expect(link).to_be_focused()
    world.move("orders out", title(MANY + 3), "bank-in", 10_000_000, 40_000_000)


def test_the_table_fits_a_phone_and_the_dark(visit: Visit, shoot: Callable[[Page, str], None]) -> None:
    page = visit.live("/drops/outbox", viewport={"width": 360, "height": 740}, color_scheme="dark")
    assert sideways(page) <= 0
    assert contrast_faults(page) == []
    assert page.get_by_role("row").count() == 101, "a screen reader still finds a table"
    shoot(page, "drop-phone-dark")
    page.goto(f"{visit.url}/drops/outbox/items/{title(MANY + 4)}")
    assert sideways(page) <= 0
    assert contrast_faults(page) == []
    shoot(page, "item-phone-dark")


def test_what_is_not_there_is_said(visit: Visit, client: httpx.Client) -> None:
    for path in ("/drops/nowhere", "/drops/outbox/items/..%2f..%2fetc%2fpasswd", "/drops/outbox/items/x", "/nothing"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "<h1>Not there</h1>" in answer.text
    page = visit.page(f"/drops/outbox/items/{title(999_999)}")
    expect(page.locator("[data-live=item]")).to_contain_text("is not in the drop")
