"""Who may see the page and who may press: tokens, users, forms that were made elsewhere, and strangers' names for this host."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from argon2 import PasswordHasher
from playwright.sync_api import Browser, Page, expect

from gateway.errors import ConfigurationError
from gateway.service.transitions import What
from gateway.service.web import access
from gateway.service.web.access import kept_key
from gateway.service.web.app import create_app
from gateway.service.web.server import WebServer
from gateway.service_sections import UserSettings, WebSettings
from tests.web.conftest import Visit
from tests.web.looks import contrast_faults
from tests.web.world import World, error_image, title

TOKEN = "a-token-of-this-test"
PASSWORD = "the viewer's password"
OPERATORS = "the operator's password"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
KEY = b"k" * 32


@pytest.fixture(scope="module")
def settings() -> WebSettings:
    """A token, a viewer and an operator. The hashes are cheap ones, so that the tests are quick."""
    hasher = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1)
    return WebSettings.model_validate(
        {
            "listen": "127.0.0.1:0",
            "token": TOKEN,
            "user": {
                "vera": {"password_hash": hasher.hash(PASSWORD), "role": "viewer"},
                "otto": {"password_hash": hasher.hash(OPERATORS), "role": "operator"},
            },
        }
    )


@pytest.fixture(scope="module")
def outbox(world: World) -> Path:
    """A drop with error images to press buttons at."""
    folder = world.add("outbox")
    for number in range(1, 8):
        error_image(folder, number, "exit status 1")
    world.look()
    return folder


@pytest.fixture(scope="module")
def server(world: World, settings: WebSettings, outbox: Path) -> Iterator[WebServer]:
    """The page behind a login."""
    server = WebServer(create_app(world.context(), settings, session_key=KEY), settings.listen)
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def profiles(browser: Browser, server: WebServer) -> Iterator[Visit]:
    """A profile for each page: nobody is logged in there yet."""
    visit = Visit(browser, server.url, fresh=True)
    yield visit
    visit.close()


def log_in(page: Page, name: str, secret: str) -> None:
    """Fills the form, and sends it."""
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(secret)
    page.get_by_role("button", name="Log in").click()


def form_token(text: str) -> str:
    """What a document's forms have to bring along."""
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', text)
    assert found is not None
    return found[1]


@dataclass
class Session:
    """A plain client that has logged in, and its token for forms."""

    client: httpx.Client
    csrf: str

    def post(self, path: str, *, origin: str | None = "own", **fields: str) -> httpx.Response:
        """Sends a form, as a page of this origin does."""
        own = str(self.client.base_url).rstrip("/")
        headers = {} if origin is None else {"Origin": own if origin == "own" else origin}
        return self.client.post(path, data=fields, headers=headers)


def session(client: httpx.Client, name: str, secret: str) -> Session:
    """Logs in without a browser."""
    first = Session(client, form_token(client.get("/login").text))
    answer = first.post("/login", csrf=first.csrf, name=name, secret=secret)
    assert answer.status_code == 303, answer.text
    return Session(client, form_token(client.get("/").text))


def test_nobody_sees_anything_without_login(visit: Visit, client: httpx.Client, shoot: Callable[[Page, str], None]) -> None:
    page = visit.page(f"/drops/outbox/items/{title(1)}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    assert "orders_" not in page.locator("body").inner_text(), "not even which drops there are"
    assert contrast_faults(page) == []
    shoot(page, "login-light")
    for path in ("/", "/errors", "/drops/outbox", "/metrics", f"/drops/outbox/items/{title(1)}/files/csv", "/?live=x"):
        assert client.get(path).status_code == 401, path
    log_in(page, "otto", OPERATORS)
    expect(page.get_by_role("heading", level=1)).to_have_text(title(1))  # where he wanted to go
    expect(page.locator(".who")).to_contain_text("otto, operator")


def test_a_wrong_password_is_refused_in_words_that_say_nothing_else(visit: Visit, client: httpx.Client) -> None:
    page = visit.page("/login")
    log_in(page, "otto", "wrong")
    expect(page.get_by_role("alert")).to_have_text("That is not right.")
    first = Session(client, form_token(client.get("/login").text))
    answer = first.post("/login", csrf=first.csrf, name="nobody-of-this-name", secret="wrong")
    assert answer.status_code == 403
    assert "That is not right." in answer.text
    visit.faults[:] = [fault for fault in visit.faults if "403" not in fault]


def test_a_viewer_sees_and_cannot_press(visit: Visit, client: httpx.Client, outbox: Path) -> None:
    page = visit.page("/errors")
    log_in(page, "vera", PASSWORD)
    expect(page.locator("article.card", has_text=title(1))).to_be_visible()
    expect(page.locator("main").get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("link", name="Download")).to_have_count(0)
    viewer = session(client, "vera", PASSWORD)
    before = sorted(outbox.iterdir())
    for verb in ("replay", "discard"):
        answer = viewer.post(f"/drops/outbox/items/{title(1)}/{verb}", csrf=viewer.csrf, sure="yes")
        assert answer.status_code == 403
        assert "role operator" in answer.text
    assert client.get(f"/drops/outbox/items/{title(1)}/files/csv").status_code == 403
    assert sorted(outbox.iterdir()) == before


def test_logging_out_ends_the_session_itself(client: httpx.Client, world: World) -> None:
    user = session(client, "vera", PASSWORD)
    copied = {"Cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items())}
    with httpx.stream("GET", f"{client.base_url}?live=x", headers=copied, timeout=30) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        assert user.post("/logout", csrf=user.csrf).status_code == 303
        world.tell(What.BEGUN, title(1), "outbox")
        assert not any("begun" in line for line in lines), "an open page is told no more, and its stream ends"
    client.cookies.clear()
    assert client.get("/", headers=copied).status_code == 401, "a copy of the cookie is of no use either"


def test_a_form_from_elsewhere_is_refused(client: httpx.Client, outbox: Path) -> None:
    operator = session(client, "otto", OPERATORS)
    path, before = f"/drops/outbox/items/{title(2)}/replay", sorted(outbox.iterdir())
    own = str(client.base_url).rstrip("/")
    for why, answer in {
        "without its token": operator.post(path, sure="yes"),
        "with another's token": operator.post(path, csrf="0" * 64, sure="yes"),
        "from another page": operator.post(path, origin="https://evil.example", csrf=operator.csrf, sure="yes"),
        "from a page that hides": operator.post(path, origin="null", csrf=operator.csrf, sure="yes"),
        "without saying where from": operator.post(path, origin=None, csrf=operator.csrf, sure="yes"),
        "as the browser says": client.post(
            path, data={"csrf": operator.csrf, "sure": "yes"}, headers={"Origin": own, "Sec-Fetch-Site": "cross-site"}
        ),
        "logging out": operator.post("/logout"),
        "logging in": operator.post("/login", name="otto", secret=OPERATORS),
    }.items():
        assert answer.status_code == 403, why
    assert client.get(path).status_code == 405, "a link can never press a button"
    assert sorted(outbox.iterdir()) == before
    assert operator.post(path, csrf=operator.csrf, sure="yes").status_code == 303
    assert sorted(outbox.iterdir()) != before


def test_the_token_of_a_session_is_not_that_of_another(client: httpx.Client, server: WebServer) -> None:
    first = session(client, "otto", OPERATORS)
    with httpx.Client(base_url=server.url) as other:
        second = session(other, "otto", OPERATORS)
        assert first.csrf != second.csrf
        assert second.post(f"/drops/outbox/items/{title(3)}/replay", csrf=first.csrf, sure="yes").status_code == 403


def test_the_cookie_is_kept_from_scripts_and_other_sites(client: httpx.Client, server: WebServer) -> None:
    csrf = form_token(client.get("/login").text)
    form = {"csrf": csrf, "name": "otto", "secret": OPERATORS}
    set_cookie = client.post("/login", data=form, headers={"Origin": server.url}).headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert part in set_cookie
    assert "Secure" not in set_cookie, "by http a browser would not send it back"
    # By a proxy in front, on this host, that speaks https.
    headers = {"X-Forwarded-Proto": "https", "Origin": server.url.replace("http", "https")}
    client.cookies.clear()
    csrf = form_token(client.get("/login", headers={**headers, "X-Forwarded-Proto": "http"}).text)
    assert "Secure" in client.post("/login", data={**form, "csrf": csrf}, headers=headers).headers["set-cookie"]


def test_a_session_that_was_made_up_is_none(client: httpx.Client) -> None:
    operator = session(client, "vera", PASSWORD)
    name, value = next(iter(operator.client.cookies.items()))
    client.cookies.clear()
    for forged in (value[:-2] + "AA", value.split(".")[0] + ".x.y", "", "x" * 5000):
        assert client.get("/", headers={"Cookie": f"{name}={forged}"}).status_code == 401


def test_a_session_ends_by_itself(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    session(client, "vera", PASSWORD)
    assert client.get("/").status_code == 200
    monkeypatch.setattr(access, "SESSION_AGE", -1)  # seconds: it is older than that
    assert client.get("/").status_code == 401


def test_whoever_loses_his_place_in_the_configuration_loses_his_session(
    client: httpx.Client, world: World, settings: WebSettings
) -> None:
    session(client, "otto", OPERATORS)
    for change in ({}, {"otto": UserSettings(password_hash=PasswordHasher().hash("new"), role="operator")}):
        changed = settings.model_copy(update={"user": change})
        other = WebServer(create_app(world.context(), changed, session_key=KEY), "127.0.0.1:0")
        other.start()
        assert httpx.get(f"{other.url}/", cookies=dict(client.cookies)).status_code == 401
        other.close()


def test_the_token_comes_by_form_or_with_the_request(visit: Visit, client: httpx.Client) -> None:
    page = visit.page("/login")
    log_in(page, "", TOKEN)
    expect(page.locator(".who")).to_contain_text("token, operator")
    assert client.get("/", headers=BEARER).status_code == 200
    assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401
    assert client.get("/", headers={"Authorization": "Basic b3R0bzp4"}).status_code == 401
    path = f"/drops/outbox/items/{title(4)}/replay"
    headers = {**BEARER, "Origin": "https://evil.example"}
    assert client.post(path, data={"sure": "yes"}, headers=headers).status_code == 403
    assert client.post(path, data={"sure": "yes"}, headers=BEARER).status_code == 303, "for a script, which has no cookie"


def test_health_is_for_everybody_and_metrics_are_not(client: httpx.Client, world: World) -> None:
    assert client.get("/healthz").json() == {"ok": True}
    world.well = False
    assert client.get("/readyz").status_code == 503
    world.well = True
    assert client.get("/metrics").status_code == 401
    answer = client.get("/metrics", headers=BEARER)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "dropgate_" in answer.text


def test_attempts_are_slowed(world: World, settings: WebSettings) -> None:
    server = WebServer(create_app(world.context(), settings), "127.0.0.1:0")
    server.start()
    with httpx.Client(base_url=server.url) as client:
        csrf = form_token(client.get("/login").text)

        def guess(secret: str) -> httpx.Response:
            form = {"csrf": csrf, "name": "otto", "secret": secret}
            return client.post("/login", data=form, headers={"Origin": server.url})

        answers = [guess(f"guess {number}") for number in range(8)]
        assert [answer.status_code for answer in answers[:3]] == [403] * 3, "people mistype"
        assert 429 in [answer.status_code for answer in answers[3:]]
        slowed = next(answer for answer in answers if answer.status_code == 429)
        assert 1 <= int(slowed.headers["retry-after"]) <= 60
        assert guess(OPERATORS).status_code == 429, "also the right one: nothing is told"
    server.close()


def test_what_is_sent_is_bounded(client: httpx.Client) -> None:
    assert client.post("/login", content=b"x" * 100_000).status_code == 400
    many = "&".join(f"f{number}=x" for number in range(100))
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/login", content=many, headers=kind).status_code == 400
    assert client.post("/login", json={}).status_code == 400


@pytest.mark.parametrize(
    ("wanted", "led"),
    [
        ("/drops/outbox?state=error", "/drops/outbox?state=error"),
        ("https://evil.example", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
def test_after_the_login_one_stays_on_this_page(client: httpx.Client, wanted: str, led: str) -> None:
    first = Session(client, form_token(client.get("/login", params={"next": wanted}).text))
    answer = first.post("/login", csrf=first.csrf, name="vera", secret=PASSWORD, next=wanted)
    assert (answer.status_code, answer.headers["location"]) == (303, led)


def test_every_answer_forbids_what_a_page_must_not_do(client: httpx.Client) -> None:
    for path in ("/login", "/", "/static/page.js", "/healthz", "/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert "server" not in headers


# Without token and users.


@pytest.fixture(scope="module")
def free(world: World, outbox: Path) -> Iterator[WebServer]:
    """The page for whoever is on this host."""
    server = WebServer(create_app(world.context(), WebSettings()), "127.0.0.1:0")
    server.start()
    yield server
    server.close()


def test_on_this_host_everybody_is_an_operator(browser: Browser, free: WebServer) -> None:
    visit = Visit(browser, free.url)
    page = visit.live(f"/drops/outbox/items/{title(5)}")
    expect(page.get_by_role("button", name="Replay")).to_be_visible()
    assert visit.faults == []
    visit.close()


def test_a_name_that_was_made_to_lead_here_is_refused(free: WebServer) -> None:
    port = free.url.rpartition(":")[2]
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "10.0.0.1",
        "[::2]",
    ):
        assert httpx.get(f"{free.url}/", headers={"Host": host}).status_code in (400, 421), host
        assert httpx.get(f"{free.url}/metrics", headers={"Host": host}).status_code in (400, 421), host
    for host in ("localhost", f"127.0.0.1:{port}", f"localhost:{port}", "[::1]:80"):
        assert httpx.get(f"{free.url}/healthz", headers={"Host": host}).status_code == 200, host


def test_on_this_host_another_page_can_press_nothing(free: WebServer, outbox: Path) -> None:
    path, before = f"{free.url}/drops/outbox/items/{title(6)}/discard", sorted(outbox.iterdir())
    with httpx.Client() as client:
        csrf = form_token(client.get(f"{free.url}/drops/outbox/items/{title(6)}").text)
        form = {"csrf": csrf, "sure": "yes"}
        assert client.post(path, data={"sure": "yes"}, headers={"Origin": free.url}).status_code == 403
        assert client.post(path, data=form, headers={"Origin": "http://localhost:1"}).status_code == 403
        assert client.post(path, data=form).status_code == 403
        with httpx.Client() as stranger:
            assert stranger.post(path, data=form, headers={"Origin": free.url}).status_code == 403, "without the cookie"
        assert sorted(outbox.iterdir()) == before
        assert client.post(path, data=form, headers={"Origin": free.url}).status_code == 303


# The configuration.


def test_a_page_for_other_hosts_needs_a_login(world: World) -> None:
    with pytest.raises(ConfigurationError, match="token"):
        create_app(world.context(), WebSettings.model_construct(listen="0.0.0.0:8080", token=None, token_file=None, user={}))


def test_the_token_may_be_in_a_file(world: World, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    server = WebServer(create_app(world.context(), WebSettings(token_file=Path("token")), folder=tmp_path), "127.0.0.1:0")
    server.start()
    assert httpx.get(f"{server.url}/", headers=BEARER).status_code == 200
    assert httpx.get(f"{server.url}/").status_code == 401
    server.close()
    (tmp_path / "token").write_text("\n")
    with pytest.raises(ConfigurationError, match="empty"):
        create_app(world.context(), WebSettings(token_file=Path("token")), folder=tmp_path)
    with pytest.raises(ConfigurationError, match=r"nowhere.*cannot be read"):
        create_app(world.context(), WebSettings(token_file=tmp_path / "nowhere"))


def test_sessions_outlive_a_restart_where_their_key_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = kept_key(path)
    assert kept_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["key"]
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        kept_key(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(ConfigurationError, match="too short"):
        kept_key(path)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        kept_key(tmp_path / "no" / "key")
