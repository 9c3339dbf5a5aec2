"""The whole service: routes, and around them whatever shows what they do. One is made for one run of `dropgate run`."""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from gateway.errors import ConfigurationError
from gateway.handoff.clock import Clock
from gateway.service.board import Board
from gateway.service.daemon import Daemon
from gateway.service.health import healthz
from gateway.service.memory import return_memory
from gateway.service.plan import routes_of
from gateway.service.sd_notify import Notifier
from gateway.service.surroundings import Surroundings
from gateway.service.transitions import Hub
from gateway.settings import Settings, load

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

_LOOK_AT_FILE = 1.0  # seconds between two looks whether the configuration has changed


@dataclass(slots=True)
class Service:
    """Runs a configuration until `stop`. `reload` is set by SIGHUP, and the file is looked at as well."""

    config: Path
    settings: Settings
    stop: threading.Event
    reload: threading.Event = field(default_factory=threading.Event)
    clock: Clock = field(default_factory=Clock)
    notifier: Notifier = field(default_factory=lambda: Notifier.from_environment(os.environ))
    _seen: tuple[int, int, int] | None = None
    _next_look: float = 0.0
    _next_watchdog: float = 0.0
    _stopping: bool = False

    def run_once(self) -> bool:
        """Runs every route until its source is empty; whether every item was forwarded. Raises the first failure."""
        board, hub = Board(self.clock.utc, self.clock.utc()), Hub()
        daemon = Daemon(board, hub, self.stop, self.clock, self.settings.service.stop_timeout)
        with Surroundings(self.settings, board, hub, self.clock) as around:
            daemon.run_once(routes_of(self.settings, around.tracing))
        return not daemon.failed

    def run(self) -> None:
        """Runs until `stop`. Raises the first failure where every route needs a person and there is no page to show it."""
        return_memory()
        board, hub = Board(self.clock.utc, self.clock.utc()), Hub()
        daemon = Daemon(board, hub, self.stop, self.clock, self.settings.service.stop_timeout)
        self._seen = _stamp(self.config)
        with Surroundings(self.settings, board, hub, self.clock) as around:
            daemon.apply(routes_of(self.settings, around.tracing))
            if around.page:
                log.info("page", url=around.page)
            self.notifier.ready()
            daemon.run(lambda: self._turn(daemon, board, around))

    def _turn(self, daemon: Daemon, board: Board, around: Surroundings) -> None:
        now = self.clock.monotonic()
        if self.notifier.interval is not None and now >= self._next_watchdog:
            self._next_watchdog = now + self.notifier.interval
            if healthz(board)[0]:
                self.notifier.watchdog()
        if self.stop.is_set():
            if not self._stopping:
                self._stopping = True
                self.notifier.stopping()
            return
        failures = daemon.failures()
        if failures and not around.page:
            raise failures[0]
        if now >= self._next_look:
            self._next_look = now + _LOOK_AT_FILE
            stamp = _stamp(self.config)
            if stamp is not None and stamp != self._seen:
                self._seen = stamp
                self.reload.set()
        if self.reload.is_set():
            self.reload.clear()
            self.notifier.reloading()
            self._reload(daemon, around)
            self.notifier.ready()

    def _reload(self, daemon: Daemon, around: Surroundings) -> None:
        """Goes on with the file as it is now. One with errors is refused whole, and what runs goes on."""
        try:
            settings = load(self.config)
            settings.share_circuits_with(self.settings)
            if not settings.route:
                raise ConfigurationError(f"{self.config} has no [[route]]")
            routes = routes_of(settings, around.tracing)
            later = around.reconfigure(settings)
        except ConfigurationError as error:
            log.error("configuration refused, the old one goes on", error=str(error))
            return
        self.settings = settings
        changes = daemon.apply(routes)
        log.info("configuration reloaded", kept=list(changes.kept), begun=list(changes.begun), ended=list(changes.ended))
        if later:
            log.warning("takes effect at the next start", tables=list(later))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written anew; None while it is not there, as when an editor replaces it."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino
