"""Error images: why they are, and the three buttons. Names and reasons are a stranger's, and do nothing."""

import contextlib
import hashlib
import re
import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.open import open_ledger
from gateway.service.transitions import Transition, What
from gateway.service.web import flow
from gateway.service.web.places import MOST
from gateway.service.web.server import WebServer
from protocol.ledger import Entry, LedgerState
from protocol.names import ItemId
from tests.web.conftest import Visit
from tests.web.looks import contrast_faults, sideways
from tests.web.world import World, error_image, item, put, title

SCRIPT = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
TURNED = "invoice\u202egpj.exe\u0007"  # a name that a browser which obeyed it would show as invoiceexe.jpg
LARGE = 40 * 1024 * 1024  # bytes


@pytest.fixture(scope="module", autouse=True)
def outbox(world: World) -> Path:
    """A drop with error images."""
    folder = world.add("outbox")
    for number in (1, 2, 3, 4, 5, 11, 12, 13):  # each is pressed by one test, and the last three by none
        error_image(folder, number, f"handler failed: exit status {number}", old=10_000 - number)
    error_image(folder, 66, f"refused: {SCRIPT} {TURNED}", source_name=f"{SCRIPT}{TURNED}", old=500, meta={SCRIPT: TURNED})
    put(folder, "<svg onload=window.hit=1>.txt", b"")
    put(folder, "T\u202eforeign", b"")
    item(folder, 80, "A_", old=50)
    item(folder, 81, old=20)
    world.route("orders out", "outbox", "outbox")
    world.look()
    return folder


def names(folder: Path, number: int) -> list[str]:
    """The files of one item, also in quarantine."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob(f"*{title(number)}*"))
    return sorted(found)


def card(page: Page, number: int) -> str:
    """The selector of an item's card."""
    return f"article.card:has(a:text-is('{title(number)}'))"


def test_each_says_why_it_failed(visit: Visit, shoot: Callable[[Page, str], None]) -> None:
    page = visit.live("/errors")
    for number in (11, 12, 13):
        expect(page.locator(card(page, number))).to_contain_text(f"exit status {number}")
    told = re.search(r"(\d+) error images", page.locator("[data-live=found]").inner_text())
    assert told is not None
    assert int(told[1]) == page.locator("article.card").count()
    assert contrast_faults(page) == []
    shoot(page, "errors-light")


def test_replay_renames_it_back_to_ready(visit: Visit, world: World, outbox: Path, shoot: Callable[[Page, str], None]) -> None:
    told: list[Transition] = []
    world.hub.listeners.append(told.append)
    page = visit.live("/errors")
    page.locator(card(page, 1)).get_by_role("button", name="Replay").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text(f"Have {title(1)} processed again?")
    shoot(page, "question-light")
    question.get_by_role("button", name="Replay").click()
    expect(page.locator(".did")).to_have_text(f"{title(1)} is ready again.")
    assert names(outbox, 1) == [f"{title(1)}.csv", f"{title(1)}.manifest.json"]
    assert [(one.what, one.item, one.drop, one.route) for one in told] == [(What.REPLAYED, title(1), "outbox", "orders out")]
    expect(page.locator(card(page, 1))).to_contain_text("replayed just now")
    expect(page.locator(card(page, 1)).get_by_role("button")).to_have_count(0)
    world.look("outbox")
    expect(page.locator(card(page, 1))).to_have_count(0)
    world.hub.listeners.remove(told.append)


def test_a_replay_of_what_was_processed_is_told_to_the_ledger(visit: Visit, world: World, outbox: Path, tmp_path: Path) -> None:
    def ledger(drop: str) -> Ledger:
        assert drop == "outbox"
        return open_ledger(f"sqlite://{tmp_path}/ledger.db", "orders out")

    done = Entry(LedgerState.DONE, 1, ItemId("orders_", 80), "gate-1-1", 1, "2026-11-30T12:00:00Z")
    with ledger("outbox") as opened:
        assert opened.compare_and_set("key-orders_80", None, done)
    world.ledger = ledger
    page = visit.live(f"/drops/outbox/items/{title(80)}")
    page.get_by_role("button", name="Replay").click()
    page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    expect(page.locator(".did")).to_contain_text("ready again")
    assert names(outbox, 80) == [f"{title(80)}.csv", f"{title(80)}.manifest.json"]
    with ledger("outbox") as opened:
        entry = opened.read("key-orders_80")
    assert entry is not None
    assert entry.state is LedgerState.ARCHIVED, "a worker takes it for a replay, and not for a run that was cut"


def test_nothing_is_done_before_it_was_confirmed(visit: Visit, outbox: Path) -> None:
    page = visit.live("/errors")
    before = names(outbox, 2)
    for leave in ("Cancel", "Escape"):
        page.locator(card(page, 2)).get_by_role("button", name="Discard").click()
        expect(page.get_by_role("dialog")).to_contain_text("Nothing is deleted")
        if leave == "Escape":
            page.keyboard.press("Escape")
        else:
            page.get_by_role("button", name=leave).click()
        expect(page.get_by_role("dialog")).to_have_count(0)
    assert names(outbox, 2) == before


def test_discard_moves_it_into_quarantine_and_deletes_nothing(visit: Visit, world: World, outbox: Path) -> None:
    payload = (outbox / f"E_{title(3)}.csv").read_bytes()
    page = visit.live(f"/drops/outbox/items/{title(3)}")
    page.get_by_role("button", name="Discard").focus()
    page.keyboard.press("Enter")  # by keyboard alone
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".did")).to_contain_text("quarantine folder")
    assert names(outbox, 3) == [
        f"quarantine/E_{title(3)}.csv",
        f"quarantine/E_{title(3)}.manifest.json",
        f"quarantine/E_{title(3)}.reason.json",
    ]
    assert (outbox / "quarantine" / f"E_{title(3)}.csv").read_bytes() == payload
    world.look("outbox")
    expect(page.locator("[data-live=item]")).to_contain_text("is not in the drop")
    expect(page.locator("[data-live=steps]")).to_contain_text("discarded")
    expect(page.locator("[data-live=steps]")).to_contain_text("somebody on this host")


def test_without_a_script_it_asks_as_well(visit: Visit, outbox: Path) -> None:
    page = visit.page(f"/drops/outbox/items/{title(4)}", java_script_enabled=False)
    page.get_by_role("button", name="Replay").click()
    assert names(outbox, 4)[0].startswith("E_"), "not yet"
    page.get_by_role("button", name="Replay").click()
    expect(page.locator(".did")).to_contain_text("ready again")
    assert names(outbox, 4) == [f"{title(4)}.csv", f"{title(4)}.manifest.json"]


def test_what_went_on_meanwhile_is_told_and_left_alone(visit: Visit, world: World, outbox: Path) -> None:
    page = visit.live(f"/drops/outbox/items/{title(5)}")
    for path in outbox.glob(f"E_{title(5)}.*"):
        path.rename(outbox / path.name.replace("E_", "A_"))
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    expect(page.get_by_role("alert")).to_contain_text("is after; only an error image can be discarded")
    assert all(name.startswith("A_") for name in names(outbox, 5))
    visit.faults[:] = [fault for fault in visit.faults if "409" not in fault]


def test_download_gives_exactly_the_bytes(visit: Visit, client: httpx.Client, outbox: Path) -> None:
    page = visit.live(f"/drops/outbox/items/{title(66)}")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download").click()
    download = waiting.value
    assert download.suggested_filename == f"E_{title(66)}.csv"
    assert Path(download.path()).read_bytes() == (outbox / f"E_{title(66)}.csv").read_bytes()
    answer = client.get(f"/drops/outbox/items/{title(66)}/files/csv")
    assert answer.headers["content-disposition"] == f'attachment; filename="E_{title(66)}.csv"'
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_large_download_is_streamed(client: httpx.Client, world: World, outbox: Path) -> None:
    data = bytes(range(256)) * (LARGE // 256)
    item(outbox, 90, data=data)
    digest, largest = hashlib.sha256(), 0
    with client.stream("GET", f"/drops/outbox/items/{title(90)}/files/csv") as answer:
        assert answer.headers["content-length"] == str(LARGE)
        for piece in answer.iter_raw():
            digest.update(piece)
            largest = max(largest, len(piece))
    assert digest.hexdigest() == hashlib.sha256(data).hexdigest()
    assert largest < 1024 * 1024, "in pieces"
    for _ in range(6):  # more than there are connections: one that is cut gives its own back
        with client.stream("GET", f"/drops/outbox/items/{title(90)}/files/csv") as answer:
            next(answer.iter_raw(1000))
    assert client.get(f"/drops/outbox/items/{title(81)}/files/csv").status_code == 200


def test_who_stops_reading_gives_his_connection_back(
    server: WebServer, client: httpx.Client, outbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "_STALLED", 0.5)
    item(outbox, 91, data=bytes(LARGE))
    path = f"/drops/outbox/items/{title(91)}/files/csv"
    port = int(server.url.rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        for _ in range(MOST):  # all there are
            stalled = stack.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            stalled.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            assert stalled.recv(15) == b"HTTP/1.1 200 OK"
        assert client.get(f"/drops/outbox/items/{title(81)}/files/csv").status_code == 200


def test_nothing_but_payloads_of_items_can_be_downloaded(client: httpx.Client) -> None:
    base = f"/drops/outbox/items/{title(66)}/files"
    for path in (
        f"{base}/manifest.json",
        f"{base}/..%2f..%2fetc%2fpasswd",
        f"{base}/txt",
        "/drops/outbox/items/S_orders_origin/files/csv",
        "/drops/outbox/items/%2e%2e/files/csv",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
    ):
        assert client.get(path).status_code == 404, path


def test_a_hostile_name_does_nothing_and_is_shown_as_it_is(visit: Visit, shoot: Callable[[Page, str], None]) -> None:
    for path in ("/errors", f"/drops/outbox/items/{title(66)}", "/drops/outbox", "/"):
        page = visit.live(path)
        if "items" in path:
            expect(page.locator("[data-live=contents]")).to_contain_text("Original name")
            page.get_by_text(re.compile("The whole file")).click()
        page.wait_for_timeout(300)
        assert page.evaluate("window.hit") is None, path
        assert page.locator("main img, main script, main svg[onload]").count() == 0
        html = page.content()
        assert "\u202e" not in html, "a mark that turns the line round is never sent as such"
        if path != "/":
            assert "[U+202E]" in page.locator("main").inner_text(), path
    page = visit.live(f"/drops/outbox/items/{title(66)}")
    assert SCRIPT in page.locator("[data-live=contents]").inner_text(), "it is a text, and readable"
    shoot(page, "hostile-light")


def test_the_policy_of_the_page_lets_no_text_become_markup(visit: Visit) -> None:
    page = visit.live("/")
    refused = page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>'; return ''; } catch (error) { return error.name; } }"
    )
    assert refused == "TypeError"
    refused = page.evaluate(
        "() => { const s = document.createElement('script'); try { s.text = '1'; } catch (e) { return e.name } }"
    )
    assert refused == "TypeError"
    visit.faults[:] = [fault for fault in visit.faults if "TrustedHTML" not in fault and "TrustedScript" not in fault]


def test_the_errors_fit_a_phone_in_the_dark(visit: Visit, shoot: Callable[[Page, str], None]) -> None:
    page = visit.live("/errors", viewport={"width": 360, "height": 740}, color_scheme="dark")
    assert sideways(page) <= 0
    assert contrast_faults(page) == []
    shoot(page, "errors-phone-dark")
    page.goto(f"{visit.url}/drops/outbox/items/{title(66)}")
    assert sideways(page) <= 0
    shoot(page, "hostile-phone-dark")
