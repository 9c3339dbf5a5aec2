"""What the page shows in these tests: real drops on the local disk, a real board, hub, journal and metrics, real listings."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gateway.drop import Drop
from gateway.handoff.clock import Clock
from gateway.handoff.ledger.base import Ledger
from gateway.service.alarms.alarm import Alarm
from gateway.service.board import Board, DropView, Moving, RouteState, RouteView
from gateway.service.journal import Journal
from gateway.service.metrics import Metrics
from gateway.service.transitions import Hub, Transition, What
from gateway.service.web.context import Context
from protocol.operations import ServerTime

GROUP = "orders_"


@dataclass
class OnNow:
    """The alarms that are on."""

    alarms: list[Alarm] = field(default_factory=list)

    def current(self) -> tuple[Alarm, ...]:
        return tuple(self.alarms)


def ago(**span: float) -> str:
    """ISO 8601 in UTC, so long ago."""
    return (datetime.now(UTC) - timedelta(**span)).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass
class World:
    """A service without its routes: what they would have written is written by hand, and what is in the drops is real."""

    folder: Path
    drops: dict[str, Drop] = field(default_factory=dict)
    alarms: OnNow = field(default_factory=OnNow)
    hub: Hub = field(default_factory=Hub)
    board: Board = field(default_factory=lambda: Board(Clock().utc, Clock().utc()))
    journal: Journal = field(init=False)
    well: bool = True
    ledger: Callable[[str], Ledger | None] = lambda drop: None

    def __post_init__(self) -> None:
        self.journal = Journal(self.folder / "journal.jsonl", 16 * 1024 * 1024, 2, board=self.board)
        self.hub.listeners.append(self.journal.record)

    def context(self) -> Context:
        metrics = Metrics(self.board, None, "9.9")
        self.hub.listeners.append(metrics.listen)

        def health() -> tuple[bool, dict[str, object]]:
            return self.well, {"ok": self.well}

        return Context(
            self.board,
            self.journal,
            self.alarms,
            lambda: self.drops,
            self.hub,
            metrics.text,
            health,
            health,
            lambda drop: self.ledger(drop),  # as it is when it is asked for
            version="9.9",
        )

    def add(self, name: str) -> Path:
        """A new empty drop."""
        folder = self.folder / name
        folder.mkdir()
        self.drops[name] = Drop.at(str(folder))
        return folder

    def look(self, *names: str) -> None:
        """Lists drops, as an observer does, and tells the board."""
        for name in names or self.drops:
            drop = self.drops[name]
            looked_at = Clock().utc()
            with drop.driver() as driver:
                server_time = driver.run(_server_time())
            view = DropView(
                name,
                str(drop),
                drop.snapshot(),
                looked_at,
                server_time,
                0.01,
                0.0,
                free_space=213_000_000_000,
            )
            self.board.set_drop(view)

    def route(self, title: str, source: str, *destinations: str, groups: tuple[str, ...] = (GROUP,), **more: Any) -> None:
        """A route, which runs unless `state` says otherwise."""
        more = {"state": RouteState.RUNNING, "since": ago(hours=5), **more}
        self.board.add_route(RouteView(title, source, destinations, groups, **more))

    def move(self, route: str, item: str, destination: str, done: int, total: int | None) -> None:
        """An item on its way."""
        moving = Moving(item, "gate-4711-9f3a2c", ago(seconds=42), 1, destination, done, total)
        self.board.set_moving(route, item, moving)

    def tell(self, what: What, item: str, drop: str, *, at: str = "", **more: Any) -> None:
        """A step of an item, told to the hub."""
        group, sequence = item[:-10], item[-10:]
        self.hub.tell(Transition(at or Clock().utc(), what, more.pop("route", ""), drop, group, sequence, **more))


async def _server_time() -> float:
    return await ServerTime()


def title(number: int, group: str = GROUP) -> str:
    """An item as people write it."""
    return f"{group}{number:010}"


def put(folder: Path, name: str, data: bytes, old: float = 0.0) -> Path:
    """A file, `old` seconds old."""
    path = folder / name
    path.write_bytes(data)
    if old:
        moment = time.time() - old
        os.utime(path, (moment, moment))
    return path


def item(
    folder: Path,
    number: int,
    mark: str = "",
    *,
    group: str = GROUP,
    data: bytes = b"order;amount\n1;10.00\n",
    source_name: str = "today.csv",
    payload_mark: str | None = None,
    old: float = 0.0,
    **more: Any,
) -> str:
    """An item in some state: its payload and its manifest, written by hand."""
    stem = title(number, group)
    manifest = {
        "manifest": 1,
        "group": group,
        "sequence": f"{number:010}",
        "key": f"key-{group}{number}",
        "created": ago(seconds=old),
        "producer": {"host": "shop", "software": "dropgate 0.1.0"},
        "files": [
            {
                "name": f"{stem}.csv",
                "size": len(data),
                "hash": f"sha256:{hashlib.sha256(data).hexdigest()}",
                "source_name": source_name,
            }
        ],
        "meta": {},
        **more,
    }
    put(folder, f"{mark if payload_mark is None else payload_mark}{stem}.csv", data, old)
    put(folder, f"{mark}{stem}.manifest.json", json.dumps(manifest).encode(), old)
    return stem


def error_image(folder: Path, number: int, error: str, *, old: float = 0.0, **more: Any) -> str:
    """An error image with its reason."""
    stem = item(folder, number, "E_", old=old, **more)
    reason = {
        "item": f"{stem}.manifest.json",
        "error": error,
        "kind": "HandlerFailed",
        "attempts": 5,
        "host": "gate",
        "owner": "gate-4711-9f3a2c",
        "time": ago(seconds=old),
    }
    put(folder, f"E_{stem}.reason.json", json.dumps(reason).encode(), old)
    return stem


def many_after_images(folder: Path, numbers: Iterable[int]) -> None:
    """After images of which only the token is left: cheap to make."""
    now = time.time()
    for count, number in enumerate(numbers):
        descriptor = os.open(folder / f"A_{title(number)}.manifest.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(descriptor, b"{}\n")
        os.utime(descriptor, (now - 100_000 + count, now - 100_000 + count))
        os.close(descriptor)
