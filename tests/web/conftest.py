"""One browser for all tests of the page; a server and its world for each module."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from gateway.service.web.app import create_app
from gateway.service.web.server import WebServer
from gateway.service_sections import WebSettings
from tests.web.world import World

REPORTS = Path(__file__).parents[2] / "reports" / "web"
LIMIT = 15_000  # ms for anything in the browser: machines are busy


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker for all of them: a browser is large."""
    for item in items:
        if "tests/web/" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("web"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    path = shutil.which("chromium")
    if path is None:
        pytest.fail(
            "the browser is not available: chromium is not installed; make test does so, as root on Debian", pytrace=False
        )
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=path, args=arguments, timeout=60_000)
        yield chromium
        chromium.close()


@dataclass
class Visit:
    """Opens pages of one server, and notes whatever should not happen there.

    Pages with the same options are one page that is sent from place to place, which is quicker; with `fresh` each has a
    browser profile of its own.
    """

    browser: Browser
    url: str
    fresh: bool = False
    faults: list[str] = field(default_factory=list)
    pages: dict[str, Page] = field(default_factory=dict)

    def page(self, path: str = "/", **options: object) -> Page:
        """A page at a path."""
        key = f"{len(self.pages)}" if self.fresh else repr(sorted(options.items()))
        if key not in self.pages:
            self.pages[key] = self._open(options)
        page = self.pages[key]
        page.goto(self.url + path)
        return page

    def _open(self, options: dict[str, object]) -> Page:
        given = {"viewport": {"width": 1280, "height": 800}, "timezone_id": "Europe/Berlin", "locale": "en-GB", **options}
        context = self.browser.new_context(**given)  # type: ignore[arg-type]
        context.set_default_timeout(LIMIT)
        page = context.new_page()
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: None if request.url.startswith(self.url) else self.faults.append(request.url))
        return page

    def live(self, path: str = "/", **options: object) -> Page:
        """The same, once it is told of changes."""
        page = self.page(path, **options)
        page.locator("#pulse[data-state=live]").wait_for()
        return page

    def close(self) -> None:
        """Closes the profiles."""
        for page in self.pages.values():
            page.context.close()
        self.pages.clear()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world of its own for each module."""
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def settings() -> WebSettings:
    """Open to this host, as it is without token and users."""
    return WebSettings(listen="127.0.0.1:0")


@pytest.fixture(scope="module")
def server(world: World, settings: WebSettings) -> Iterator[WebServer]:
    """The page of the module's world."""
    server = WebServer(create_app(world.context(), settings), settings.listen)
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def profiles(browser: Browser, server: WebServer) -> Iterator[Visit]:
    """The browser's profiles of the module, closed before its server."""
    visit = Visit(browser, server.url)
    yield visit
    visit.close()


@pytest.fixture
def visit(profiles: Visit) -> Iterator[Visit]:
    """The browser at the page. At the end nothing may have gone wrong: no script error, nothing asked for from outside."""
    profiles.faults.clear()
    yield profiles
    if profiles.fresh:
        profiles.close()
    assert profiles.faults == []


@pytest.fixture
def client(server: WebServer) -> Iterator[httpx.Client]:
    """A plain HTTP client, which obeys no page."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
def shoot() -> Callable[[Page, str], None]:
    """Keeps a screenshot as an artefact of the test run."""
    REPORTS.mkdir(parents=True, exist_ok=True)

    def take(page: Page, name: str) -> None:
        page.screenshot(path=REPORTS / f"{name}.png", full_page=page.locator("dialog[open]").count() == 0)

    return take
