"""Servers restarted in the midst of a transfer, and connections cut between a request and its reply."""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.handoff.driver import Driver
from gateway.handoff.ledger.open import open_ledger
from gateway.handoff.producer import Outgoing
from gateway.service.loop import Loop
from protocol.operations import Claim, Operation, Publish, Replace, Store
from testenv.proxy import Proxy
from tests.crash.checks import check_effects, check_healed, heal
from tests.crash.jobs import CONSUMER, Effect, Work, consume, content_of, key_of, lines, produce
from tests.crash.place import GROUP, TTL, Place
from tests.crash.processes import Crew, wait_until
from transports.errors import OutcomeUnknown, Unreachable

LARGE = 6 << 20  # bytes: some time on the way


@pytest.mark.timeout(180)
def test_a_server_restarted_and_its_sessions_killed_in_the_midst_of_transfers(remote: Place, hands: Crew) -> None:
    assert remote.server is not None
    items = 8
    maker = hands.start(produce, Work(remote, count=items, size=LARGE))
    takers = [hands.start(consume, Work(remote)) for _ in range(2)]
    for harm in ("restarts", "killed sessions", "restarts", "killed sessions"):
        time.sleep(1.0)
        if harm == "restarts":
            remote.server.restart()
        else:
            remote.server.kill_sessions()
        hands.harm[harm] += 1
    assert maker.join() == 0, "a producer that retries comes to its end"
    wait_until(lambda: len({line["key"] for line in lines(remote.effects)}) == items, "all items processed")
    hands.stop(*takers)
    heal(remote)
    check_healed(remote, range(items))
    check_effects(remote, range(items), interruptions=4)


class CuttingDriver(Driver):
    """A driver whose connection is cut at one of its operations: the server is asked, and the reply never comes."""

    proxy: Proxy
    is_wanted: Callable[[Operation[Any]], bool]
    at: int  # the number of that among those that are wanted, from 1
    piece: int  # of what the client sends for it, from 1: a rename may take several requests
    seen = 0

    def _carry_out(self, operation: Operation[Any]) -> Any:
        if not self.is_wanted(operation):
            return super()._carry_out(operation)
        self.seen += 1
        if self.seen == self.at:
            self.proxy.cut_reply_after(after_pieces(self.piece))
        try:
            return super()._carry_out(operation)
        finally:
            self.proxy.heal()  # nothing but this operation, also where it takes fewer pieces than that

    @classmethod
    def instead_of(
        cls, driver: Driver, proxy: Proxy, is_wanted: Callable[[Operation[Any]], bool], at: int = 1, piece: int = 1
    ) -> "CuttingDriver":
        """Takes over another driver's connection and ledger."""
        cutting = cls(driver.connection, driver.clock, ledger=driver.ledger)
        cutting.proxy, cutting.is_wanted, cutting.at, cutting.piece = proxy, is_wanted, at, piece
        return cutting


def is_rename(operation: Operation[Any]) -> bool:
    return isinstance(operation, Publish | Claim | Replace)


def is_lease(operation: Operation[Any]) -> bool:
    return isinstance(operation, Store) and operation.path.startswith("L_")


def after_pieces(count: int) -> Callable[[bytes], bool]:
    """True of so many-eth of the pieces that a client sends."""
    seen = 0

    def trigger(data: bytes) -> bool:
        nonlocal seen
        seen += 1
        return seen == count

    return trigger


def send_one(place: Place, number: int, cutting: Callable[[Driver], CuttingDriver], folder: Path) -> int:
    """Hands one item over, and says which rename was the last one."""
    path = folder / f"{number}.csv"
    path.write_bytes(content_of(number, 1000))
    with place.drop().producer() as producer:
        producer.driver = driver = cutting(producer.driver)
        producer.send([Outgoing(path)], group=GROUP, key=key_of(number))
    return driver.seen


def take_one(place: Place, cutting: Callable[[Driver], CuttingDriver]) -> int:
    """Consumes what there is, and says which rename was the last one."""
    drop, stop = place.drop(), threading.Event()
    with (
        open_ledger(place.ledger_url, CONSUMER) as ledger,
        drop.heartbeat(TTL) as heartbeat,
        drop.consumer((GROUP,), Effect(Work(place)), lambda event: None, ledger=ledger, heartbeat=heartbeat) as consumer,
    ):
        consumer.driver = driver = cutting(consumer.driver)
        Loop(stop, drop.clock, lambda error: None).run_once(consumer)
    return driver.seen


@pytest.mark.timeout(240)
def test_a_rename_whose_reply_is_lost_is_looked_up_and_made_once(
    remote: Place, hands: Crew, proxy_factory: Callable[[str, int], Proxy], tmp_path: Path
) -> None:
    """Every rename of a publication and of a consumer, cut at each of its requests."""
    assert remote.server is not None
    proxy = proxy_factory(remote.server.host, remote.server.port)
    place = remote.through(proxy.port)
    produce(Work(remote))  # so that the counter is there
    number = 1
    for job in ("send", "take"):
        for piece in (1, 2):
            at, renames = 1, 1
            while at <= renames:

                def cutting(driver: Driver, at: int = at, piece: int = piece) -> CuttingDriver:
                    return CuttingDriver.instead_of(driver, proxy, is_rename, at, piece)

                if job == "send":
                    renames = send_one(place, number, cutting, tmp_path)
                else:
                    produce(Work(remote, first=number))
                    renames = take_one(place, cutting)
                proxy.heal()
                number += 1
                at += 1
    hands.harm["cuts"] += proxy.replies_cut
    assert proxy.replies_cut >= number // 3
    heal(remote)
    check_healed(remote, range(number))
    assert len(remote.snapshot().items) == number, "an item was handed over twice"
    assert len(lines(remote.effects)) == number, "an item was processed twice"
    check_effects(remote, range(number), interruptions=0)


@pytest.mark.timeout(120)
def test_a_worker_whose_lease_lost_its_reply_begins_all_the_same(
    remote: Place, hands: Crew, proxy_factory: Callable[[str, int], Proxy]
) -> None:
    """Its own file must not look to it like that of a rival."""
    assert remote.server is not None
    proxy = proxy_factory(remote.server.host, remote.server.port)
    produce(Work(remote))
    drop, stop = remote.through(proxy.port).drop(), threading.Event()
    with (
        drop.heartbeat(TTL) as heartbeat,
        drop.consumer((GROUP,), Effect(Work(remote)), lambda event: None, heartbeat=heartbeat) as consumer,
    ):
        consumer.driver = CuttingDriver.instead_of(consumer.driver, proxy, is_lease)
        # As the loop of a consumer does: again, when an endpoint was away.
        for _ in range(3):
            with contextlib.suppress(OutcomeUnknown, Unreachable):
                consumer.sweep_once(stop)
    assert len(lines(remote.effects)) == 1
    hands.harm["cuts"] += proxy.replies_cut
    assert proxy.replies_cut == 1
