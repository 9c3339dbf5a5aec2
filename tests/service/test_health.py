"""Health means something: what a restart would mend, what it would not, and a small server that nobody can hold up."""

import http.client
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.errors import ConfigurationError
from gateway.service.board import Board, RouteState, RouteView
from gateway.service.health import healthz, readyz
from gateway.service.metrics import Metrics
from gateway.service.metrics_server import CONNECTIONS, MetricsServer
from tests.service.boards import ROUTE, board_with
from tests.service.steps import step

PATIENCE = 60.0  # seconds


class Hands:
    """A clock that is turned by hand, in seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def board(hands: Hands) -> Board:
    """A started service with one route, on a clock that is turned by hand."""
    board = Board(utc=lambda: "2026-11-30T10:00:00.000000Z", started="2026-11-30T10:00:00.000000Z", monotonic=hands)
    board.add_route(RouteView(ROUTE, "out", ("bank",), ("orders_",), RouteState.RUNNING))
    return board


def test_a_service_whose_routes_are_heard_of_is_healthy(board: Board, hands: Hands) -> None:
    for _ in range(10):
        hands.now += 50
        board.beat(ROUTE)
        assert healthz(board, 60) == (True, {"status": "ok", "reasons": []})


def test_a_route_that_is_not_heard_of_any_more_is_named(board: Board, hands: Hands) -> None:
    board.add_route(RouteView("other", "out", ("bank",), ("x_",)))
    hands.now = 61
    board.beat("other")
    ok, told = healthz(board, 60)
    assert not ok
    assert told == {"status": "failing", "reasons": [f"route '{ROUTE}' has not been heard of for 60 s"]}
    board.beat(ROUTE)
    assert healthz(board, 60)[0]


def test_a_route_that_was_never_heard_of_is_noticed_too(board: Board, hands: Hands) -> None:
    hands.now = 61
    assert not healthz(board, 60)[0]


def test_of_several_workers_each_is_listened_to(board: Board, hands: Hands) -> None:
    board.beat(ROUTE, "1")
    board.beat(ROUTE, "2")
    hands.now = 61
    board.beat(ROUTE, "1")
    assert not healthz(board, 60)[0], "the second one hangs"
    board.beat(ROUTE, "2")
    assert healthz(board, 60)[0]


@pytest.mark.parametrize("state", [RouteState.FAILED, RouteState.STOPPED])
def test_a_route_that_has_ended_needs_no_restart(board: Board, hands: Hands, state: RouteState) -> None:
    board.set_state(ROUTE, state)
    hands.now = 1000
    assert healthz(board, 60)[0]
    board.set_state(ROUTE, RouteState.RUNNING)
    assert healthz(board, 60)[0], "it has its time from here on"
    hands.now = 1061
    assert not healthz(board, 60)[0]


def test_a_route_that_is_gone_is_not_waited_for(board: Board, hands: Hands) -> None:
    board.beat(ROUTE, "1")
    board.remove_route(ROUTE)
    hands.now = 1000
    board.beat(ROUTE, "1")
    assert healthz(board, 60)[0]


def test_a_deadlock_is_found_and_not_joined(board: Board) -> None:
    with board._lock:
        for asked in (healthz, readyz):
            ok, told = asked(board)
            assert not ok
            assert told["reasons"] == ["the state of the service has been locked for 2 s"]


@pytest.mark.parametrize("state", list(RouteState))
def test_the_service_is_ready_when_every_route_runs_or_waits_for_its_hours(board: Board, state: RouteState) -> None:
    board.set_state(ROUTE, state, "Connection refused")
    ok, told = readyz(board)
    assert ok == (state in (RouteState.RUNNING, RouteState.PAUSED))
    assert told["routes"] == {ROUTE: state.value}
    assert told["reasons"] == ([] if ok else [f"route '{ROUTE}' is {state.value}: Connection refused"])


def test_before_it_has_started_it_is_not_ready() -> None:
    ok, told = readyz(Board(utc=lambda: ""))
    assert not ok
    assert told["reasons"] == ["it has not started"]


@pytest.fixture
def serve(board: Board) -> Iterator[Callable[..., MetricsServer]]:
    """Starts servers, and ends them."""
    made: list[MetricsServer] = []

    def start(listen: str = "127.0.0.1:0", **more: float) -> MetricsServer:
        made.append(MetricsServer(listen, Metrics(board, None, "1.2.3"), board, **more))
        made[-1].start()
        return made[-1]

    yield start
    for server in made:
        server.close()


def get(server: MetricsServer, path: str, host: str = "127.0.0.1") -> tuple[int, str, bytes]:
    """What a client reads: status, content type, body."""
    try:
        with urllib.request.urlopen(f"http://{host}:{server.port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def test_metrics_and_health_are_served(board: Board, serve: Callable[..., MetricsServer]) -> None:
    server = serve()
    status, kind, body = get(server, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    names = {family.name for family in text_string_to_metric_families(body.decode())}
    assert {"dropgate_items", "dropgate_route_state", "process_open_fds"} <= names
    for path in ("/healthz", "/readyz?verbose"):
        status, kind, body = get(server, path)
        assert (status, kind, json.loads(body)["status"]) == (200, "application/json", "ok")
    board.set_state(ROUTE, RouteState.AWAY, "Connection refused")
    status, kind, body = get(server, "/readyz")
    assert (status, kind) == (503, "application/json")
    assert json.loads(body)["reasons"] == [f"route '{ROUTE}' is away: Connection refused"]
    assert get(server, "/healthz")[0] == 200, "a restart would not help"


def test_a_second_kind_of_client_reads_the_same(serve: Callable[..., MetricsServer]) -> None:
    server = serve()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as client:
        client.request("HEAD", "/metrics")
        head = client.getresponse()
        assert (head.status, head.read()) == (200, b"")
        client.request("GET", "/healthz")
        assert json.loads(client.getresponse().read()) == {"status": "ok", "reasons": []}


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("GET", "/metrics/x", 404), ("POST", "/metrics", 501)]
)
def test_what_is_not_there_is_refused(serve: Callable[..., MetricsServer], method: str, path: str, status: int) -> None:
    server = serve()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as client:
        client.request(method, path)
        assert client.getresponse().status == status


def test_a_page_that_fails_is_told_and_the_others_go_on(board: Board, serve: Callable[..., MetricsServer]) -> None:
    def broken() -> Any:
        raise RuntimeError("secret")

    with closing(MetricsServer("127.0.0.1:0", Metrics(board, broken, "1"), board)) as server:
        server.start()
        status, _, body = get(server, "/metrics")
        assert (status, body) == (500, b"see the log\n")
        assert get(server, "/healthz")[0] == 200


def test_slow_clients_hold_up_nobody_and_are_cut_off(serve: Callable[..., MetricsServer]) -> None:
    server = serve(longest=2.0)
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(CONNECTIONS // 2)]
    try:
        for client in slow:
            client.sendall(b"GET /met")
        assert get(server, "/metrics")[0] == 200
        ended = time.monotonic() + PATIENCE
        client = slow[0]
        client.settimeout(0.1)
        while time.monotonic() < ended:  # as busy as it looks, it is cut off
            try:
                client.sendall(b"r")
                if client.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("a slow client was never cut off")
    finally:
        for client in slow:
            client.close()


def test_too_many_clients_are_turned_away_and_room_is_made_again(serve: Callable[..., MetricsServer]) -> None:
    server = serve(longest=3.0)
    clients = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(CONNECTIONS + 1)]
    try:
        assert clients[-1].recv(1) == b"", "closed at once"
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                assert get(server, "/healthz")[0] == 200
                break
            except OSError:
                assert time.monotonic() < deadline, "no room was made"
                time.sleep(0.1)
    finally:
        for client in clients:
            client.close()


def test_an_address_that_is_taken_is_told(serve: Callable[..., MetricsServer], board: Board) -> None:
    taken = serve()
    again = MetricsServer(f"127.0.0.1:{taken.port}", Metrics(board, None, "1"), board)
    with pytest.raises(ConfigurationError, match=r"\[metrics\] listen = '127.0.0.1:\d+' cannot be had: Address already in use"):
        again.start()
    assert again.port == 0
    again.close()


def test_a_name_of_this_host_does_as_well(serve: Callable[..., MetricsServer]) -> None:
    assert get(serve("localhost:0"), "/healthz", "localhost")[0] == 200


def test_it_ends_at_once_and_can_begin_again(serve: Callable[..., MetricsServer], board: Board) -> None:
    before = set(threading.enumerate())
    server = serve()
    (listening,) = (thread for thread in threading.enumerate() if thread not in before)
    port = server.port
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE):
        server.close()
        server.close()
        assert not listening.is_alive()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    again = serve(f"127.0.0.1:{port}")
    assert get(again, "/healthz")[0] == 200


def test_it_is_scraped_by_many_at_once(serve: Callable[..., MetricsServer], board: Board) -> None:
    server = serve()
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(get(server, "/metrics")[0])) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert statuses == [200] * 10


def test_what_was_told_by_the_hub_is_scraped(board: Board) -> None:
    metrics = Metrics(board, None, "1")
    with closing(MetricsServer("127.0.0.1:0", metrics, board)) as server:
        server.start()
        metrics.listen(step(1, bytes=7))
        assert f'dropgate_bytes_total{{outcome="forwarded",route="{ROUTE}"}} 7.0'.encode() in get(server, "/metrics")[2]


def test_a_made_up_board_is_ready() -> None:
    assert readyz(board_with())[0]
