"""A forwarder that was killed leaves before files at the destination: the next one clears them, once nobody writes to them."""

import dataclasses
import os
from pathlib import Path

import pytest

from gateway.errors import NotYet
from gateway.handoff.abandoned import ABANDONED_AFTER
from gateway.handoff.clock import Clock
from gateway.handoff.contents import LocalFile
from gateway.handoff.producer import Producer, producer_fact
from protocol.procedures.publish import Draft, DraftFile
from tests.gateway.tools import GROUP, drop_at, names, put

CSV = "orders_0000000001.csv"


@dataclasses.dataclass
class Hours:
    now: float = 0.0

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now, sleep=lambda _: None)


def forward(producer: Producer, source: Path) -> object:
    draft = Draft(GROUP, (DraftFile("csv", LocalFile(source)),), "key", producer_fact(), {})
    return producer.forward(draft, 1, {"csv": "sha256:" + "0" * 64})


@pytest.fixture
def source(sources: Path) -> Path:
    path = sources / "a.csv"
    path.write_bytes(b"whole")
    return path


def test_what_stands_still_for_long_is_cleared_and_the_item_goes_through(folder: Path, source: Path) -> None:
    hours = Hours()
    put(folder, f"B_{CSV}", b"who")
    with dataclasses.replace(drop_at(folder), clock=hours.clock()).producer() as producer:
        with pytest.raises(NotYet, match="stood still"):
            forward(producer, source)
        hours.now += ABANDONED_AFTER - 1
        with pytest.raises(NotYet):
            forward(producer, source)
        hours.now += 2
        assert forward(producer, source) is not None
    assert names(folder) == [CSV, CSV.replace("csv", "manifest.json")]
    assert (folder / CSV).read_bytes() == b"whole"


def test_what_grows_or_is_written_anew_is_somebodys(folder: Path, source: Path) -> None:
    hours = Hours()
    part = put(folder, f"B_{CSV}", b"w")
    with dataclasses.replace(drop_at(folder), clock=hours.clock()).producer() as producer:
        for step in range(4):
            with pytest.raises(NotYet):
                forward(producer, source)
            hours.now += ABANDONED_AFTER - 1
            if step % 2:
                part.write_bytes(part.read_bytes() + b"h")
            else:
                os.utime(part, (step + 1, step + 1))
    assert names(folder) == [f"B_{CSV}"]
