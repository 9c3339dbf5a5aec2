"""The processes of a measurement: producers and workers, which may be killed at any moment, and what they tell at their end."""

import itertools
import json
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from benchmarks.places import Address
from gateway.drop import Drop
from gateway.handoff.consumer import Delivery, Event
from gateway.handoff.driver import Driver
from gateway.handoff.ledger.open import open_ledger
from gateway.handoff.producer import Outgoing
from gateway.service.loop import Loop
from protocol.names import Name
from protocol.operations import Claim, Operation, Outcome, Scan
from protocol.rules import Rules
from protocol.states import State

GROUP = "tasks_"
_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Job:
    """What a process is to do. Handlers append a line each to `effects`, and workers what they did to `told`."""

    address: Address
    rules: Rules
    effects: Path
    told: Path
    ledger: str = ""
    ttl: float = 10.0
    poll: float = 0.5
    first: int = 0  # of a producer: the tasks that it makes,
    count: int = 0  # and how many


@dataclass(slots=True)
class Counts:
    """What one worker did. A claim that finds the token gone is a conflict."""

    claims: int = 0
    conflicts: int = 0
    listings: int = 0
    results: Counter[str] = field(default_factory=Counter)


class CountingDriver(Driver):
    """Counts claims, conflicts and listings; everything else is the driver's own."""

    counts: Counts
    rules: Rules

    def _carry_out(self, operation: Operation[Any]) -> Any:
        result = super()._carry_out(operation)
        if isinstance(operation, Scan):
            self.counts.listings += 1
        if isinstance(operation, Claim) and self._is_claim(operation):
            self.counts.claims += 1
            self.counts.conflicts += result is Outcome.GONE
        return result

    def _is_claim(self, operation: Claim) -> bool:
        src, dst = map(self.rules.layout.parse, (operation.src, operation.dst))
        names = isinstance(src, Name) and isinstance(dst, Name)
        return names and src.state is State.READY and dst.state is State.CLAIMED  # type: ignore[union-attr] # looked at above


@dataclass(slots=True)
class Effect:
    """A handler whose effect is one line in a file. Told that an earlier run was cut, it looks before it repeats."""

    path: Path
    looked: int = 0

    def __call__(self, delivery: Delivery) -> None:
        for payload in delivery.contents.payloads:
            delivery.fetch(payload, _Nowhere())
        if delivery.redelivered:
            self.looked += 1
            if any(line["key"] == delivery.key for line in read_lines(self.path)):
                delivery.outcome = "its effect was there"
                return
        append(self.path, {"key": delivery.key, "pid": os.getpid(), "redelivered": delivery.redelivered})


class _Nowhere:
    """Takes bytes that were only to be read and verified."""

    def write(self, data: bytes) -> None:
        del data


def append(path: Path, line: dict[str, Any]) -> None:
    """One line, in one piece, whoever else appends."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Every line that was appended."""
    if path.exists():
        yield from map(json.loads, path.read_bytes().splitlines())


def key_of(number: int) -> str:
    """The idempotency key of a task."""
    return f"task-{number}"


def produce(job: Job) -> None:
    """Sends so many tasks of a few bytes, each under a key of its own."""
    with tempfile.TemporaryDirectory() as folder, Drop(job.address.endpoint(), job.rules).producer() as producer:
        path = Path(folder) / "task.json"
        for number in range(job.first, job.first + job.count):
            path.write_text(json.dumps({"task": number}))
            producer.send([Outgoing(path)], group=GROUP, key=key_of(number))


def work(job: Job) -> None:
    """Consumes until SIGTERM, then tells what it did."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    drop, counts, handler = Drop(job.address.endpoint(), job.rules), Counts(), Effect(job.effects)

    def report(event: Event) -> None:
        counts.results[event.result.value] += 1

    with (
        open_ledger(job.ledger, "benchmark", drop.clock) as ledger,
        drop.heartbeat(job.ttl) as heartbeat,
        drop.consumer((GROUP,), handler, report, ledger=ledger, heartbeat=heartbeat) as consumer,
    ):
        driver = CountingDriver(consumer.driver.connection, drop.clock, ledger=ledger)
        driver.counts, driver.rules = counts, job.rules
        consumer.driver = driver
        Loop(stop, drop.clock, lambda error: None, job.poll).run(consumer)
    told = {"claims": counts.claims, "conflicts": counts.conflicts, "listings": counts.listings, "looked": handler.looked}
    append(job.told, told | {"results": dict(counts.results)})


def start(target: Callable[[Job], None], job: Job) -> BaseProcess:
    """A process of its own, as new as one that was started from a shell."""
    process = _CONTEXT.Process(target=target, args=(job,), daemon=True)
    process.start()
    return process


def shares(total: int, among: int) -> list[tuple[int, int]]:
    """The first and the count of each part of a row of tasks."""
    ends = [total * part // among for part in range(among + 1)]
    return [(begin, end - begin) for begin, end in itertools.pairwise(ends)]
