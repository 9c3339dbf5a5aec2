"""What is around the routes: journal, metrics, alarms, observers, traces and the page.

All of it is begun before the first route, and ended after the last.
"""

import contextlib
import importlib.util
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gateway.drop import Drop
from gateway.errors import ConfigurationError
from gateway.handoff.clock import Clock
from gateway.handoff.ledger.base import Ledger
from gateway.ledgers import default_ledger, open_configured, state_folder
from gateway.service.alarms import Alarms, default_state_file
from gateway.service.board import Board
from gateway.service.health import healthz, readyz
from gateway.service.journal import Journal, default_journal
from gateway.service.metrics import Metrics
from gateway.service.metrics_server import MetricsServer
from gateway.service.observer import Observers
from gateway.service.tracing import Tracing, open_tracing
from gateway.service.transitions import Hub
from gateway.settings import Settings

if TYPE_CHECKING:
    from gateway.service.web.server import WebServer  # an extra, and slow to import

_MIB = 1024 * 1024


@dataclass(slots=True)
class Surroundings:
    """Everything but the routes. `page` is where the page is, "" without one."""

    settings: Settings
    board: Board
    hub: Hub
    clock: Clock
    tracing: Tracing = field(init=False)
    page: str = ""
    _alarms: Alarms = field(init=False)
    _observers: Observers = field(init=False)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        """Begins all that is configured. Raises ConfigurationError: an address that is taken, an extra that is missing."""
        with contextlib.ExitStack() as stack:
            self._begin(stack)
            self._stack = stack.pop_all()
        return self

    def _begin(self, stack: contextlib.ExitStack) -> None:
        settings, board = self.settings, self.board
        journal = stack.enter_context(contextlib.closing(self._journal()))
        self.hub.listeners.append(journal.record)
        self.tracing = stack.enter_context(
            contextlib.closing(open_tracing(settings.tracing.endpoint if settings.tracing else None, version("dropgate")))
        )
        self._alarms = Alarms(
            settings.alarms,
            settings.expect,
            board,
            self.clock,
            default_state_file(),
            platform.node(),
            folder=settings.folder,
        )
        metrics = Metrics(board, self._alarms.current, version("dropgate"), journal)
        self.hub.listeners.append(metrics.listen)
        self._observers = stack.enter_context(contextlib.closing(Observers(board, self.clock, settings.service.observe)))
        self._alarms.start()
        stack.callback(self._alarms.close)
        if settings.metrics is not None:
            server = MetricsServer(settings.metrics.listen, metrics, board)
            server.start()
            stack.callback(server.close)
        if settings.web is not None:
            page = self._page(journal, metrics)
            page.start()
            stack.callback(page.close)
            self.page = page.url
        self._observers.watch(drops_of(settings))

    def reconfigure(self, settings: Settings) -> tuple[str, ...]:
        """Goes on by other settings; the tables whose change takes effect at the next start. Raises ConfigurationError."""
        self._alarms.reconfigure(settings.alarms, settings.expect, settings.folder)
        before, self.settings = self.settings, settings
        self._observers.watch(drops_of(settings))
        tables = ("service", "web", "metrics", "tracing", "journal")
        return tuple(f"[{name}]" for name in tables if getattr(before, name) != getattr(settings, name))

    def _journal(self) -> Journal:
        settings = self.settings
        file = default_journal() if settings.journal.file is None else settings.resolved(settings.journal.file)
        url = settings.ledger.url.get_secret_value() if settings.ledger.url is not None else default_ledger()
        database = url if settings.journal.database else None
        return Journal(file, int(settings.journal.max_mib * _MIB), settings.journal.keep, database, self.board)

    def _page(self, journal: Journal, metrics: Metrics) -> "WebServer":
        if importlib.util.find_spec("starlette") is None or importlib.util.find_spec("uvicorn") is None:
            raise ConfigurationError("[web] needs the extra: pip install 'dropgate[web]'")
        from gateway.service.web.access import kept_key
        from gateway.service.web.app import create_app
        from gateway.service.web.context import Context
        from gateway.service.web.server import WebServer

        assert self.settings.web is not None  # noqa: S101 - asked before
        context = Context(
            self.board,
            journal,
            self._alarms,
            lambda: drops_of(self.settings),
            self.hub,
            metrics.text,
            partial(healthz, self.board),
            partial(readyz, self.board),
            self._ledger,
            self.clock,
            version("dropgate"),
        )
        key = kept_key(state_folder() / "web.key")
        return WebServer(
            create_app(context, self.settings.web, session_key=key, folder=self.settings.folder), self.settings.web.listen
        )

    def _ledger(self, name: str) -> Ledger | None:
        """What the routes that take from a drop share; of a drop that others take from nothing is known here."""
        if all(route.from_ != name for route in self.settings.route):
            return None
        return open_configured(self.settings.ledger, self.settings.open_drop(name))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, trace)


def drops_of(settings: Settings) -> Mapping[str, Drop]:
    """Every drop that a route uses, or of which something is expected; a plain folder that is a route's end is none."""
    names = [name for route in settings.route for name in (route.from_, *(() if route.original_names else route.to))]
    names = list(dict.fromkeys([*names, *(expect.drop for expect in settings.expect)]))
    return {name: settings.open_drop(name) for name in names}
