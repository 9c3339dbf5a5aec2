"""The server in its thread: it listens when it says so, and ends in time whoever is still there."""

import logging
import signal
import socket
import time

import httpx
import pytest

from gateway.errors import ConfigurationError
from gateway.service.web.app import WebApp, create_app
from gateway.service.web.server import WebServer
from gateway.service_sections import WebSettings
from tests.web.world import World

BOUND = 15.0  # seconds, on machines that have other work


@pytest.fixture
def app(world: World) -> WebApp:
    """The page of an empty world."""
    return create_app(world.context(), WebSettings())


def test_it_answers_as_soon_as_it_has_started(app: WebApp) -> None:
    server = WebServer(app, "127.0.0.1:0")
    server.start()
    assert httpx.get(f"{server.url}/healthz").status_code == 200
    server.close()
    server.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/healthz")


def test_an_address_that_is_taken_is_named(app: WebApp) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigurationError, match=rf"web\.listen: {address} cannot be had: Address already in use"):
            WebServer(app, address).start()


def test_it_ends_in_time_with_pages_open_and_leaves_the_hub(app: WebApp, world: World) -> None:
    listeners = list(world.hub.listeners)
    server = WebServer(app, "127.0.0.1:0")
    server.start()
    assert len(world.hub.listeners) == len(listeners) + 1
    with httpx.stream("GET", f"{server.url}/?live=x", timeout=30) as stream:
        assert next(stream.iter_lines()) == "retry: 2000"
        begun = time.monotonic()
        server.close()
        assert time.monotonic() - begun < BOUND
    assert world.hub.listeners == listeners


def test_signals_and_logs_are_left_to_the_service(app: WebApp, capfd: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    handlers = list(logging.getLogger("uvicorn").handlers)
    server = WebServer(app, "127.0.0.1:0")
    server.start()
    httpx.get(server.url)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    server.close()
    assert logging.getLogger("uvicorn").handlers == handlers
    assert capfd.readouterr() == ("", "")


def test_more_pages_than_can_be_served_are_told_to_come_later(app: WebApp) -> None:
    server = WebServer(app, "127.0.0.1:0")
    server.start()
    with httpx.Client(base_url=server.url, timeout=30, limits=httpx.Limits(max_connections=None)) as client:
        streams = [client.send(client.build_request("GET", "/?live=x"), stream=True) for _ in range(64)]
        pieces = [stream.iter_raw() for stream in streams]  # kept: one that is let go closes its connection
        for piece in pieces:
            next(piece)
        answer = client.get("/?live=x")
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "10"
        assert client.get("/healthz").status_code == 200
        for stream in streams:
            stream.close()
    server.close()
