"""What the processes of a crash test do, each until it is done, is told to stop, or dies."""

import json
import os
import signal
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gateway.handoff.heartbeat
from gateway.handoff.consumer import Consumer, Delivery, Event
from gateway.handoff.ledger.open import open_ledger
from gateway.handoff.producer import Outgoing
from gateway.service.loop import Loop
from protocol.errors import ProtocolError
from tests.crash.place import GROUP, TTL, Place
from tests.crash.steps import MortalDriver, Steps
from transports.errors import TransportError

CONSUMER = "the crash tests"


@dataclass(frozen=True)
class Work:
    """A job's orders. `die_at` is the number of the operation before which the process kills itself; 0: it does not."""

    place: Place
    first: int = 0  # of a producer: the first of its items,
    count: int = 1  # and how many
    size: int = 100  # bytes of each
    die_at: int = 0
    inside: bool = False  # not before that operation, but in its midst
    once: bool = False
    ttl: float = TTL
    poll: float = 0.2
    seconds: float = 0.0  # that a handler takes
    transaction: bool = False  # the effect is a row in the ledger's own database
    machine: str = ""  # where this process believes to run; "": here
    name: str = ""


def append(path: Path, line: dict[str, Any]) -> None:
    """One line, in one piece, whoever else appends."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)


def lines(path: Path) -> list[dict[str, Any]]:
    """All lines that were appended so far."""
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def key_of(number: int) -> str:
    """The idempotency key of an item."""
    return f"key-{number}"


def content_of(number: int, size: int) -> bytes:
    """The bytes of an item."""
    return (f"{number} ".encode() * size)[:size]


def produce(work: Work) -> None:
    """Sends items, each until it is handed over, as a producer does that knows how to retry: always under the same key."""
    with tempfile.TemporaryDirectory(dir=work.place.scratch) as folder:
        path = Path(folder) / "source.csv"
        sent = {line["key"] for line in lines(work.place.scratch / "sent")}
        for number in range(work.first, work.first + work.count):
            if key_of(number) in sent:
                continue
            path.write_bytes(content_of(number, work.size))
            _send(work, path, number)
            append(work.place.scratch / "sent", {"key": key_of(number)})


def _send(work: Work, path: Path, number: int) -> None:
    for attempt in range(100):
        try:
            with work.place.drop().producer() as producer:
                steps = Steps(work.die_at, work.inside)
                producer.driver = MortalDriver.instead_of(producer.driver, steps)
                producer.send([Outgoing(path)], group=GROUP, key=key_of(number))
            return
        except (TransportError, ProtocolError):
            time.sleep(0.05 * min(attempt, 10))
    raise AssertionError(f"{key_of(number)} could not be sent at all")


@dataclass
class Effect:
    """A handler whose effect is a line in a file, or a row in the ledger's database."""

    work: Work

    def __call__(self, delivery: Delivery) -> None:
        for payload in delivery.contents.payloads:
            delivery.fetch(payload, _Nowhere())
        append(self.work.place.scratch / "begun", {"pid": os.getpid(), "key": delivery.key})
        self._take_time()
        if self.work.transaction:
            self._in_transaction(delivery)
            return
        effect = {"key": delivery.key, "pid": os.getpid(), "redelivered": delivery.redelivered, "replay": delivery.replay}
        append(self.work.place.effects, effect)

    def _take_time(self) -> None:
        # In short naps: a process that is frozen meanwhile has that much less to do after it.
        for _ in range(round(self.work.seconds / 0.1)):
            time.sleep(0.1)

    def _in_transaction(self, delivery: Delivery) -> None:
        from sqlalchemy import text

        with delivery.transaction() as connection:
            connection.execute(text("INSERT INTO effects VALUES (:key)"), {"key": delivery.key})


class _Nowhere:
    """Takes bytes that were only to be read and verified."""

    def write(self, data: bytes) -> None:
        del data


def consume(work: Work) -> None:
    """Consumes until SIGTERM, or until nothing is left; tells each outcome in the file `events`."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    if work.machine:
        gateway.handoff.heartbeat.machine_id = lambda: work.machine  # type: ignore[attr-defined] # the fault: another host
    events = work.place.scratch / "events"
    consumer: Consumer

    def report(event: Event) -> None:
        told = {"result": event.result.value, "item": event.item.number, "error": event.error, "key": event.key}
        append(events, told | {"pid": os.getpid(), "owner": consumer.owner, "name": work.name})

    drop = work.place.drop()
    with open_ledger(work.place.ledger_url, CONSUMER, drop.clock) as ledger, drop.heartbeat(work.ttl) as heartbeat:
        consumer = _patiently(work, report, ledger=ledger, heartbeat=heartbeat)
        with consumer:
            consumer.driver = MortalDriver.instead_of(consumer.driver, Steps(work.die_at, work.inside))
            loop = Loop(stop, drop.clock, lambda error: None, work.poll)
            (loop.run_once if work.once else loop.run)(consumer)


def _patiently(work: Work, report: Any, **more: Any) -> Consumer:
    """A consumer, as soon as its server can be reached: a service manager would start it again."""
    for _ in range(100):
        try:
            return work.place.drop().consumer((GROUP,), Effect(work), report, **more)
        except (TransportError, ProtocolError):
            time.sleep(0.2)
    raise AssertionError("the drop could not be reached")
