"""The page's server: uvicorn in a thread of its own, which leaves signals and logs to the service."""

import socket
import threading
from dataclasses import dataclass

import uvicorn

from gateway.errors import ConfigurationError, GatewayError
from gateway.service.web.app import WebApp
from gateway.service_sections import listen_address

_START = 15.0  # seconds
_DRAIN = 2  # seconds that answers under way are given at the end
_STOP = 8.0  # seconds, at most, that closing takes
_MOST_AT_A_TIME = 256  # connections; more are told to come later


class _Server(uvicorn.Server):
    """Ends the streams of open pages before it waits for what is under way."""

    def __init__(self, config: uvicorn.Config, app: WebApp) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.close_streams()
        await super().shutdown(sockets)


@dataclass(slots=True)
class WebServer:
    """Serves one application at one address, such as "127.0.0.1:8080"; port 0 is any that is free."""

    app: WebApp
    listen: str
    _url: str = ""
    _socket: socket.socket | None = None
    _server: _Server | None = None
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Returns once it listens and answers. Raises ConfigurationError where the address cannot be had."""
        host, port = listen_address(self.listen)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=128)
        except OSError as error:
            raise ConfigurationError(
                f"web.listen: {self.listen} cannot be had: {error.strerror}; is dropgate, or something else, there already?"
            ) from error
        self._url = _url_of(self._socket)
        config = uvicorn.Config(
            self.app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            # Nobody else says for whom a request was made, and whether by https: a proxy stands on this host.
            forwarded_allow_ips="127.0.0.1,::1",
            limit_concurrency=_MOST_AT_A_TIME,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=_DRAIN,
            h11_max_incomplete_event_size=32 * 1024,
        )
        self._server = _Server(config, self.app)
        self._thread = threading.Thread(target=self._run, name="dropgate-web", daemon=True)
        self._thread.start()
        self._await_start()

    def _run(self) -> None:
        assert self._server is not None  # noqa: S101 - `start` made it
        assert self._socket is not None  # noqa: S101 - `start` made it
        self._server.run(sockets=[self._socket])

    def _await_start(self) -> None:
        assert self._server is not None  # noqa: S101 - `start` made it
        assert self._thread is not None  # noqa: S101 - `start` made it
        waited = 0.0
        while not self._server.started:
            self._thread.join(0.02)
            waited += 0.02
            if not self._thread.is_alive() or waited > _START:
                self.close()
                raise GatewayError(f"the page at {self.listen} did not start; the log says why")

    @property
    def url(self) -> str:
        """Where a browser on this host finds it, once it was started."""
        return self._url

    def close(self) -> None:
        """Ends within a few seconds; downloads under way are cut. Does nothing a second time, or before `start`."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STOP)
            if self._thread.is_alive() and self._server is not None:
                self._server.force_exit = True
                self._thread.join(1.0)
        if self._socket is not None:
            self._socket.close()


def _url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - an address that is compared with
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
