"""`/metrics`, `/healthz` and `/readyz` on an address of their own, for whoever scrapes and probes.

It answers from memory, one request a connection. A client that is slow, or says nothing, is cut off; so many may be connected
at a time, and who comes on top is closed at once.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

import structlog

from gateway.errors import ConfigurationError
from gateway.service.board import Board
from gateway.service.health import Report, healthz, readyz
from gateway.service.metrics import CONTENT_TYPE, Metrics
from gateway.service_sections import listen_address

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

LONGEST = 15.0  # seconds that a connection may take, however busy it looks
CONNECTIONS = 32

Answer = tuple[HTTPStatus, str, bytes]


class MetricsServer:
    """Listens from `start` to `close`, on "host:port"; port 0 is any free one, and then `port` says which."""

    def __init__(self, listen: str, metrics: Metrics, board: Board, *, longest: float = LONGEST) -> None:
        """Raises ValueError for a text that is no address."""
        self._listen = listen
        self._address = listen_address(listen)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._longest = longest
        self._pages: dict[str, Callable[[], Answer]] = {
            "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE, metrics.text()),
            "/healthz": lambda: _answer(healthz(board)),
            "/readyz": lambda: _answer(readyz(board)),
        }

    @property
    def port(self) -> int:
        """Where it listens; 0 before `start`."""
        return int(self._server.server_address[1]) if self._server is not None else 0

    def start(self) -> None:
        """Listens in the background. Raises ConfigurationError where it cannot be had."""
        try:
            self._server = _Server(self._address, self._pages, self._longest)
        except OSError as error:
            raise ConfigurationError(
                f"[metrics] listen = {self._listen!r} cannot be had: {error.strerror or error}; give another address or port"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Listens no longer. Does nothing where it does not."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = self._thread = None


def _answer(report: Report) -> Answer:
    ok, value = report
    status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
    return status, "application/json", json.dumps(value).encode() + b"\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # nobody waits for a slow client at the end
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], pages: dict[str, Callable[[], Answer]], longest: float) -> None:
        self.pages = pages
        self._longest = longest
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        family, *_, found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
        self.address_family = family
        super().__init__(found[:2], _Handler)  # type: ignore[arg-type]  # a host's name or number, and a port

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives a connection a thread, or closes it where too many have one."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, for so long at most."""
        watchdog = threading.Timer(self._longest, _cut, (request,))
        watchdog.daemon = True
        watchdog.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            watchdog.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, which is its own affair."""

    def server_bind(self) -> None:
        """Binds, without asking the DNS who we are, as the library would."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()


def _cut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    timeout: ClassVar[float | None] = LONGEST  # for one read or write; the watchdog is for all of them
    server_version = "dropgate"
    sys_version = ""

    def do_GET(self) -> None:
        pages: dict[str, Callable[[], Answer]] = getattr(self.server, "pages", {})
        page = pages.get(urlsplit(self.path).path)
        try:
            status, kind, body = page() if page is not None else _nothing(pages)
        except Exception as error:  # noqa: BLE001 - one page's fault is told, and the others go on
            log.error("no answer", path=self.path, error=f"{type(error).__name__}: {error}")
            status, kind, body = HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", b"see the log\n"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Says nothing: a probe each second is no news."""


def _nothing(pages: dict[str, Callable[[], Answer]]) -> Answer:
    return HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", f"there are {', '.join(pages)}\n".encode()
