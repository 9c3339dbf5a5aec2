"""What the tests of alarms share: drops as a listing shows them, a clock that is set by hand, and a place to be told at."""

import base64
import hashlib
import hmac
import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from gateway.handoff.clock import Clock
from gateway.service.alarms.alarm import Alarm
from gateway.service.board import DropView, Picture, RouteState, RouteView
from protocol.names import DEFAULT_WIDTH
from protocol.rules import Rules
from protocol.snapshot import Listed, Snapshot, take_snapshot

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC).timestamp()  # a Monday
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def iso(seconds: float) -> str:
    """Seconds since the epoch, as a view writes them."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@dataclass
class HandClock:
    """A clock that stands still until it is moved."""

    now: float = NOON

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now, utc=lambda: iso(self.now))

    def move(self, seconds: float) -> None:
        self.now += seconds


def item(number: int, mark: str = "", *, group: str = "orders_", at: float | None = NOON, size: int = 10) -> list[Listed]:
    """The two files of an item, in the state that a mark says, with a modification time."""
    stem = f"{mark}{group}{number:0{DEFAULT_WIDTH}}"
    return [Listed(f"{stem}.{suffix}", size=size, modified=at) for suffix in ("csv", "manifest.json")]


def snapshot_of(*items: list[Listed]) -> Snapshot:
    """What a listing of these files shows."""
    return take_snapshot([listed for files in items for listed in files], Rules())


def drop_view(snapshot: Snapshot | None, at: float = NOON, name: str = "outbox", **more: Any) -> DropView:
    """A drop that was looked at, its server's clock being right unless told otherwise."""
    given: dict[str, Any] = {"place": "sftp://files.example/out", "looked_at": iso(at), "server_time": at, "clock_offset": 0.0}
    return DropView(name=name, snapshot=snapshot, **given | more)


def route_view(**more: Any) -> RouteView:
    """A route from outbox to inbox."""
    given: dict[str, Any] = {
        "title": "outbox -> inbox",
        "source": "outbox",
        "destinations": ("inbox",),
        "groups": ("orders_",),
        "state": RouteState.RUNNING,
        "since": iso(NOON - DAY),
    }
    return RouteView(**given | more)


def picture(*drops: DropView, routes: tuple[RouteView, ...] = (), **more: Any) -> Picture:
    """A board at one moment."""
    return Picture(iso(NOON - DAY), routes, drops, **more)


def alarm(name: str = "errors:outbox:orders_", **more: Any) -> Alarm:
    """An alarm like any other."""
    given = {"kind": "errors", "about": "outbox/orders_", "title": "it is so", "text": "Mend it.", "since": iso(NOON)}
    return Alarm(**{"id": name, **given, **more})


def eventually(condition: Callable[[], bool], within: float = 30.0) -> None:
    """Waits until something is so; fails where it does not become so in time."""
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, "it did not become so in time"
        time.sleep(0.01)


@dataclass
class Post:
    """One request as it was received."""

    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def is_signed_with(self, key: bytes) -> bool:
        """By none of our code."""
        text = b".".join([self.headers["webhook-id"].encode(), self.headers["webhook-timestamp"].encode(), self.body])
        wanted = "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
        return hmac.compare_digest(wanted, self.headers["webhook-signature"])


@dataclass
class Receiver:
    """A real HTTP server on this host. `answers` are given in turn, the last one for ever: a status, or what to do instead."""

    answers: list[int | Callable[[socket.socket], None]] = field(default_factory=lambda: [204])
    headers: dict[str, str] = field(default_factory=dict)
    posts: list[Post] = field(default_factory=list)
    url: str = ""

    def told(self) -> list[tuple[str, str]]:
        """Of each accepted request the change and the alarm."""
        return [(post.event["type"].rpartition(".")[2], post.event["subject"]) for post in self.posts]


@contextmanager
def receiver(port: int = 0, tls: Any = None) -> Iterator[Receiver]:
    """A receiver that listens on 127.0.0.1 until the block ends."""
    told = Receiver()
    lock = threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout: ClassVar[float | None] = 30.0

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with lock:
                told.posts.append(Post({k.lower(): v for k, v in self.headers.items()}, body, time.time()))
                answer = told.answers[0] if len(told.answers) == 1 else told.answers.pop(0)
            if callable(answer):
                answer(self.connection)
                self.close_connection = True
                return
            self.send_response(answer)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *parts: object) -> None:
            """Says nothing."""

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *parts: object) -> None:
            """A client that goes away is part of the tests."""

    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    told.url = f"http{'s' if tls is not None else ''}://127.0.0.1:{server.server_port}/alarms"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def state_of(path: Path) -> dict[str, Any]:
    """What a state file says."""
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found
