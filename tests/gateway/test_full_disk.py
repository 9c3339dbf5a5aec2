"""A full disk stops producers and nobody else (PROTOCOL section 10): consumers make room, they do not need it."""

import contextlib
import threading
from pathlib import Path

import pytest

from gateway.handoff.consumer import Result
from gateway.handoff.producer import Outgoing
from tests.gateway.conftest import SMALL
from tests.gateway.tools import GROUP, Taken, drop_at, names
from transports.errors import NoSpace


def fill(folder: Path) -> None:
    """Writes until nothing fits any more; a full disk may still have room for names."""
    with contextlib.suppress(OSError), (folder / "filler").open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()


def test_a_consumer_processes_what_is_there_and_a_producer_leaves_nothing(small_folder: Path, sources: Path) -> None:
    drop = drop_at(small_folder)
    (sources / "small.csv").write_bytes(b"a;b\n")
    (sources / "large.csv").write_bytes(bytes(2 * SMALL))
    with drop.producer() as producer:
        producer.send([Outgoing(sources / "small.csv")], group=GROUP)
        with pytest.raises(NoSpace):
            producer.send([Outgoing(sources / "large.csv")], group=GROUP)
    fill(small_folder)
    taken = Taken()
    with (
        drop.heartbeat(3.0) as heartbeat,
        drop.consumer((GROUP,), taken, taken.report, heartbeat=heartbeat) as consumer,
    ):
        consumer.sweep_once(threading.Event())
        assert not heartbeat.is_lost(consumer.owner)
    assert [event.result for event in taken.events] == [Result.PROCESSED]
    assert names(small_folder) == ["A_orders_0000000001.csv", "A_orders_0000000001.manifest.json", "filler"]
