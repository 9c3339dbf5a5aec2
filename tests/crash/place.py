"""Where a crash test happens: an empty folder on one kind of endpoint, as every process of it is told."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gateway.drop import Drop
from protocol.layout import FolderLayout, PrefixLayout
from protocol.names import Name
from protocol.rules import Rules
from protocol.snapshot import Listed, Snapshot, take_snapshot
from protocol.states import State
from testenv.servers import SftpServer, SmbServer
from transports.endpoint import Endpoint, Timeouts
from transports.urls import parse_url

GROUP = "orders_"
TTL = 3.0  # seconds: the shortest that a worker may have


@dataclass(frozen=True)
class Place:
    """A drop, and the files beside it that its processes share. It can be given to other processes."""

    kind: str
    url: str
    seen: Path  # the drop as this machine sees it
    scratch: Path
    server: SftpServer | SmbServer | None = None
    host_key: str | None = None
    rules: Rules = field(default_factory=lambda: Rules(busy_patience=2.0))
    ledger: str = ""

    @property
    def endpoint(self) -> Endpoint:
        """Where the drop is, and how to log in there."""
        return Endpoint(parse_url(self.url), host_key=self.host_key, timeouts=Timeouts(reply=10.0))

    @property
    def effects(self) -> Path:
        """The file that every handler appends one line to."""
        return self.scratch / "effects"

    @property
    def ledger_url(self) -> str:
        return self.ledger or f"sqlite://{self.scratch}/ledger.db"

    def drop(self) -> Drop:
        """The drop, with nothing of it open yet."""
        return Drop(self.endpoint, self.rules)

    def through(self, port: int) -> "Place":
        """The same drop, reached by a proxy on this port."""
        assert self.server is not None
        return replace(self, url=self.url.replace(f":{self.server.port}/", f":{port}/", 1))

    def with_layout(self, layout: str) -> "Place":
        """The same drop in the layout of this name."""
        return replace(self, rules=replace(self.rules, layout=FolderLayout() if layout == "folders" else PrefixLayout()))

    def changed(self, **changes: Any) -> "Place":
        return replace(self, **changes)

    # What `ls` shows.

    def names(self) -> list[str]:
        """Every file of the drop, by its path."""
        return sorted(p.relative_to(self.seen).as_posix() for p in self.seen.rglob("*") if not p.is_dir())

    def snapshot(self) -> Snapshot:
        return take_snapshot([Listed(name, True, False, 0, None) for name in self.names()], self.rules)

    def tokens(self, state: State) -> list[Name]:
        """The tokens that stand in one state."""
        names = map(self.rules.layout.parse, self.names())
        return [n for n in names if isinstance(n, Name) and n.state is state and self.rules.is_token(n.kind)]

    def claims_of(self, pid: int) -> list[Name]:
        """What one process holds just now."""
        return [name for name in self.tokens(State.CLAIMED) if f"-{pid}-" in name.owner]
