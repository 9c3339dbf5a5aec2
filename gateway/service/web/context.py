"""What the page is given of the service: small contracts, so that it depends on nobody's inner workings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gateway.drop import Drop
from gateway.handoff.clock import Clock
from gateway.handoff.ledger.base import Ledger
from gateway.service.board import Picture
from gateway.service.transitions import Listener, Transition

Health = Callable[[], tuple[bool, Mapping[str, object]]]  # whether it is well, and what is known, for JSON


class Board(Protocol):
    """What is known of routes and drops."""

    def picture(self) -> Picture: ...


class Journal(Protocol):
    """What was recorded, oldest first. `since` is ISO 8601 in UTC."""

    def read(
        self, item: str | None = None, route: str | None = None, since: str | None = None, limit: int | None = None
    ) -> Iterator[Transition]: ...


class Alarm(Protocol):
    """Something that is wrong just now. `since` is ISO 8601 in UTC; `severity` is "warning" or "critical"."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def since(self) -> str: ...
    @property
    def severity(self) -> str: ...


class Alarms(Protocol):
    """The alarms that are on."""

    def current(self) -> Sequence[Alarm]: ...


class Hub(Protocol):
    """Passes transitions on. The page listens, and tells what its buttons did."""

    listeners: list[Listener]

    def tell(self, transition: Transition) -> None: ...


def _no_ledger(drop: str) -> Ledger | None:
    del drop
    return None


@dataclass(frozen=True, slots=True)
class Context:
    """All that the page is given. Every member may be called by any thread.

    `ledger` opens what the consumers of a drop share, so that a replay is told to them; the page closes it. None, where they
    keep theirs in memory.
    """

    board: Board
    journal: Journal
    alarms: Alarms
    drops: Callable[[], Mapping[str, Drop]]
    hub: Hub
    metrics: Callable[[], bytes]
    healthz: Health
    readyz: Health
    ledger: Callable[[str], Ledger | None] = _no_ledger
    clock: Clock = field(default_factory=Clock)
    version: str = ""
