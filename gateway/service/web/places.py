"""The drops as the page reaches them: each look or action over a connection of its own, and few of them at a time."""

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from gateway.drop import Drop
from gateway.errors import GatewayError
from gateway.handoff.driver import Driver
from gateway.handoff.ledger.base import Ledger
from protocol.errors import Anomaly
from protocol.names import FileKind, Grammar, ItemId, Name
from protocol.procedures.discard import discard
from protocol.procedures.look import find_item
from protocol.procedures.replay import replay
from protocol.states import State
from transports.base import Source
from transports.errors import NotFound

MOST = 4  # connections at a time for looks and actions, and as many for downloads, which may be slow
_FRESH = 3.0  # seconds
_USUAL = Grammar()
_PATIENCE = 10.0  # seconds that one is waited for


class TooBusy(Exception):
    """All of the page's connections were in use for too long; nothing was begun."""


class NoSuchDrop(Exception):
    """This drop is not configured (any more)."""


def item_of(grammar: Grammar, title: str) -> ItemId | None:
    """An item by its title, such as orders_0000000042; None where that is no title of this drop."""
    parsed = grammar.parse(f"{title}.x")
    return parsed.item if isinstance(parsed, Name) and parsed.state is State.READY else None


@dataclass(frozen=True, slots=True)
class Places:
    """For any number of threads. `ledger` is that of `Context`."""

    drops: Callable[[], Mapping[str, Drop]]
    ledger: Callable[[str], Ledger | None]
    monotonic: Callable[[], float]
    _grammars: dict[str, Grammar] = field(default_factory=dict)
    _fresh_until: list[float] = field(default_factory=lambda: [-math.inf])
    _free: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST))
    _free_for_downloads: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST))

    def drop(self, name: str) -> Drop:
        """A drop by its name. Raises NoSuchDrop."""
        drop = self.drops().get(name)
        if drop is None:
            raise NoSuchDrop(name)
        return drop

    def grammar(self, name: str) -> Grammar:
        """How a drop writes names; as is usual where it is not configured any more, and still on the board.

        Every view asks for that, and opening all drops takes a while; so it is a few seconds old.
        """
        now = self.monotonic()
        if now >= self._fresh_until[0]:
            self._fresh_until[0] = now + _FRESH
            # A configuration that cannot be opened just now is told where something is done with it.
            with contextlib.suppress(GatewayError):
                self._grammars.update({known: drop.rules.grammar for known, drop in self.drops().items()})
        return self._grammars.get(name, _USUAL)

    @contextlib.contextmanager
    def driver(self, name: str, ledger: Ledger | None = None, *, download: bool = False) -> Iterator[Driver]:
        """A driver over a connection of its own. Raises NoSuchDrop, TooBusy and transport errors."""
        drop = self.drop(name)
        free = self._free_for_downloads if download else self._free
        if not free.acquire(timeout=_PATIENCE):
            what = "downloads at a time" if download else "connections to drops"
            raise TooBusy(f"the page has {MOST} {what}, and all are in use; try again")
        try:
            with drop.driver(ledger) as driver:
                yield driver
        finally:
            free.release()

    def replay(self, name: str, item: ItemId) -> tuple[str, ...]:
        """Asks for an item again; its ready names. Raises as the procedure does, LedgerUnavailable, and as `driver`."""
        with contextlib.ExitStack() as stack:
            ledger = self.ledger(name)
            if ledger is not None:
                stack.enter_context(ledger)
            driver = stack.enter_context(self.driver(name, ledger))
            return driver.run(replay(self.drop(name).rules, item))

    def discard(self, name: str, item: ItemId) -> tuple[str, ...]:
        """Moves an error image into quarantine; where it is now. Raises as the procedure does, and as `driver`."""
        with self.driver(name) as driver:
            return driver.run(discard(self.drop(name).rules, item))

    def open_file(self, name: str, item: ItemId, suffix: str) -> "OpenFile":
        """Opens one payload of an item, wherever it stands just now. The caller closes it.

        Raises NotFound, Anomaly where it is still being written, and as `driver`.
        """
        rules = self.drop(name).rules
        stack = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            undo.push(stack)
            driver = stack.enter_context(self.driver(name, download=True))
            found = [n for n in driver.run(find_item(rules, item)) if n.suffix == suffix and n.kind is FileKind.PAYLOAD]
            if not found:
                raise NotFound("open_read", f"{item.group}{rules.grammar.digits(item.number)}.{suffix}", "no such file")
            # Of an item that stands there twice, the later state; never a double of an earlier one.
            chosen = min(found, key=lambda n: (n.again, n.state is State.BEFORE))
            if chosen.state is State.BEFORE:
                raise Anomaly(f"{rules.layout.path(chosen)} is still being written")
            path = rules.layout.path(chosen)
            source = stack.enter_context(driver.connection.retrying(lambda transport: transport.open_read(path)))
            undo.pop_all()
            return OpenFile(path.rpartition("/")[2], source, stack)


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is being read, and the connection that it is read over."""

    name: str
    source: Source
    _stack: contextlib.ExitStack

    def close(self) -> None:
        """Gives the connection back."""
        self._stack.close()
