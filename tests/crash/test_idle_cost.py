"""What an idle consumer costs: at most one listing a poll, and one lease write each third of its ttl."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gateway.handoff.clock import Clock
from gateway.handoff.connection import Connection
from gateway.handoff.consumer import Consumer, Delivery, Ordering
from gateway.handoff.driver import Driver
from gateway.handoff.heartbeat import Heartbeat
from gateway.handoff.owner import new_owner
from gateway.handoff.stop import Stop
from gateway.service.loop import Loop
from protocol.rules import Rules
from transports.base import Entry
from transports.local.transport import LocalTransport

TTL = 3.0
POLL = 0.5
SECONDS = 6.5


class CountingTransport(LocalTransport):
    """Counts listings, and files put in place of others, as leases are."""

    def __init__(self, folder: Path, counts: Counter[str]) -> None:
        super().__init__(str(folder))
        self._counts = counts

    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        self._counts["listings"] += 1
        return super().scan(folder, pattern)

    def replace(self, src: str, dst: str) -> None:
        self._counts["lease writes"] += 1
        super().replace(src, dst)

    def wait_for_change(self, folder: str, timeout: float) -> None:
        self._counts["waits"] += 1
        time.sleep(timeout)


class CountingConsumer(Consumer):
    """Counts polls."""

    def __init__(self, counts: Counter[str], *words: Any, **settings: Any) -> None:
        super().__init__(*words, **settings)
        self._counts = counts

    def sweep_once(self, stop: Stop) -> int:
        self._counts["polls"] += 1
        return super().sweep_once(stop)


def refuse(delivery: Delivery) -> None:
    """There is nothing to be handled."""
    raise AssertionError(delivery.item)


def idle(folder: Path, stop: threading.Event, ordering: Ordering, groups: tuple[str, ...]) -> Counter[str]:
    """What a consumer of an empty drop does until it is stopped."""
    counts: Counter[str] = Counter()
    clock, rules = Clock(), Rules()

    def driver() -> Driver:
        return Driver(Connection(lambda: CountingTransport(folder, counts), clock), clock)

    heartbeat = Heartbeat(driver, rules, "host", clock, TTL)
    settings: dict[str, Any] = {"ordering": ordering, "heartbeat": heartbeat}
    consumer = CountingConsumer(counts, driver(), rules, new_owner(clock), groups, refuse, lambda event: None, **settings)
    with heartbeat, consumer:
        Loop(stop, clock, lambda error: None, POLL).run(consumer)
    return counts


@pytest.mark.timeout(60)
def test_an_idle_consumer_lists_once_a_poll_and_writes_its_lease_once_a_third_of_its_ttl(tmp_path: Path) -> None:
    """Whatever its order, and however many groups it takes."""
    kinds = list(itertools.product(Ordering, (("a_",), ("a_", "b_", "c_"))))
    stop = threading.Event()
    with ThreadPoolExecutor(len(kinds)) as pool:
        ends = []
        for number, (ordering, groups) in enumerate(kinds):
            (folder := tmp_path / str(number)).mkdir()
            ends.append(pool.submit(idle, folder, stop, ordering, groups))
        time.sleep(SECONDS)
        stop.set()
        found = [end.result() for end in ends]
    for counts in found:
        assert SECONDS / POLL / 2 < counts["polls"] < SECONDS / POLL * 1.5
        assert 0 < counts["listings"] <= counts["polls"]
        assert 0 < counts["lease writes"] <= SECONDS / (TTL / 3) + 1
