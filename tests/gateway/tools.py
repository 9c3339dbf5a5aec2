"""What the gateway's tests share: drops made by hand, a clock that never waits, and manifests as strangers write them."""

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.drop import Drop
from gateway.handoff.clock import Backoff, Clock
from gateway.handoff.connection import Connection, Patience
from gateway.handoff.consumer import Consumer, Delivery, Event, Handler
from gateway.handoff.driver import Driver
from protocol.rules import Rules
from transports.base import Transport
from transports.endpoint import Endpoint
from transports.urls import parse_url

GROUP = "orders_"


@dataclass
class Waits:
    """A sleep that does not wait: what it was asked for, in seconds."""

    asked: list[float] = field(default_factory=list)
    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        self.now += seconds

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now, sleep=self.sleep)


def driver_over(
    open_transport: Callable[[], Transport], waits: Waits | None = None, patience: Patience | None = None
) -> Driver:
    """A driver whose pauses take no time."""
    clock = (waits or Waits()).clock()
    return Driver(Connection(open_transport, clock, patience), clock)


def drop_at(place: Path | str | Endpoint, rules: Rules | None = None, **more: Any) -> Drop:
    """A drop at a folder, a URL or an endpoint, whose pauses are short."""
    endpoint = place if isinstance(place, Endpoint) else Endpoint(parse_url(str(place)))
    return Drop(endpoint, rules or Rules(), clock=Clock(sleep=lambda seconds: time.sleep(seconds / 20)), **more)


def names(folder: Path) -> list[str]:
    """What `ls` shows, less the counters, leases and folders."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    return sorted(name for name in found if not name.rpartition("/")[2].startswith(("S_", "L_")))


def put(folder: Path, name: str, data: bytes) -> Path:
    """Writes a file as any program would, and lets whoever owns the folder have it."""
    path = folder / name
    path.write_bytes(data)
    if os.getuid() == 0:
        owner = folder.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
    return path


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest(name: str, data: bytes, **changes: Any) -> dict[str, Any]:
    """A manifest for one payload, made by none of our code. `name` is that of the payload; `changes` are keys of it."""
    stem = name.partition(".")[0]
    value = {
        "manifest": 1,
        "group": stem.rstrip("0123456789"),
        "sequence": stem[len(stem.rstrip("0123456789")) :],
        "key": f"key of {stem}",
        "created": "2026-11-30T15:01:02.123456Z",
        "producer": {"host": "elsewhere", "software": "by hand"},
        "files": [{"name": name, "size": len(data), "hash": f"sha256:{sha256(data)}"}],
    }
    return value | changes


def hand_over(folder: Path, number: int, data: bytes = b"content\n", *, suffix: str = "csv", **changes: Any) -> str:
    """Publishes an item by hand, payload first; returns its name without a suffix."""
    stem = f"{GROUP}{number:010}"
    put(folder, f"{stem}.{suffix}", data)
    put(folder, f"{stem}.manifest.json", json.dumps(manifest(f"{stem}.{suffix}", data, **changes)).encode())
    return stem


@dataclass
class Taken:
    """A handler that reads every payload and remembers it, and a report that remembers every outcome."""

    contents: list[tuple[str, bytes]] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        for payload in delivery.contents.payloads:
            into = _Collected()
            delivery.fetch(payload, into)
            self.contents.append((delivery.rules.grammar.format(payload.name), bytes(into.data)))

    def report(self, event: Event) -> None:
        self.events.append(event)

    @property
    def results(self) -> list[str]:
        return [event.result.value for event in self.events]


@dataclass
class _Collected:
    data: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> None:
        self.data += data


def consumer_of(drop: Drop, taken: Taken, handler: Handler | None = None, **settings: Any) -> Consumer:
    """A consumer of the group, by default for one sweep in order, whose failed items are due again at once."""
    chosen: dict[str, Any] = {"once": True, "backoff": Backoff(base=0.0)} | settings
    return drop.consumer((GROUP,), handler or taken, taken.report, **chosen)


def consume(drop: Drop, taken: Taken, handler: Handler | None = None, **settings: Any) -> int:
    """One sweep; the number of items that it dealt with."""
    with consumer_of(drop, taken, handler, **settings) as consumer:
        return consumer.sweep_once(threading.Event())


def reason(folder: Path, stem: str) -> dict[str, Any]:
    """The reason file of an error image."""
    value: dict[str, Any] = json.loads((folder / f"E_{stem}.reason.json").read_bytes())
    return value


def stems(found: Iterable[str]) -> set[str]:
    """Names without marks and suffixes."""
    return {name.partition(".")[0] for name in found}
