"""Delivery into a folder: what a file is called there, that nothing is replaced, and that a full disk loses nothing."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import DeliveryFailed, HandlerFailed
from gateway.handoff.clock import Backoff
from gateway.handoff.consumer import Delivery
from gateway.handoff.deliver import ToFolder
from tests.gateway.faulty import Passing, Refuses
from tests.gateway.tools import GROUP, Taken, consume, consumer_of, drop_at, hand_over, manifest, names
from transports import errors
from transports.local.transport import LocalTransport

CSV = "orders_0000000001.csv"


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    path = tmp_path / "inbox"
    path.mkdir()
    return path


@pytest.fixture
def delivering(inbox: Path) -> Iterator[ToFolder]:
    with LocalTransport(str(inbox)) as transport:
        yield ToFolder(transport)


def to(inbox: Path, **more: Any) -> ToFolder:
    return ToFolder(LocalTransport(str(inbox)), **more)


def called(folder: Path, source_name: object, data: bytes = b"content") -> None:
    """An item whose producer called its file so."""
    record = manifest(CSV, data)["files"][0] | {"source_name": source_name}
    hand_over(folder, 1, data, files=[record])


def test_files_get_the_drop_s_names(folder: Path, inbox: Path, delivering: ToFolder) -> None:
    hand_over(folder, 1, b"one")
    hand_over(folder, 2, b"two")
    taken = Taken()
    consume(drop_at(folder), taken, delivering)
    assert {path.name: path.read_bytes() for path in inbox.iterdir()} == {CSV: b"one", "orders_0000000002.csv": b"two"}
    assert sorted(event.outcome for event in taken.events) == [CSV, "orders_0000000002.csv"]


@pytest.mark.parametrize("name", ["Rechnung März (2).csv", "a b.csv", "x" * 200, "日本.txt", "-rf", "no suffix"])
def test_the_producer_s_name_is_kept_if_that_is_wanted(folder: Path, inbox: Path, name: str) -> None:
    called(folder, name)
    consume(drop_at(folder), Taken(), to(inbox, original_names=True))
    assert names(inbox) == [name]


@pytest.mark.parametrize(
    "name",
    ["../evil.csv", "/etc/cron.d/evil", "a/b.csv", "..", ".", ".bashrc", "a\\b.csv", "a\nb.csv", "x\x1b[2J.csv", " a.csv",
     "a.csv ", "x" * 201, "ü" * 150, ""],
)  # fmt: skip
def test_a_name_that_is_not_safe_is_not_used(folder: Path, inbox: Path, name: str) -> None:
    called(folder, name)
    consume(drop_at(folder), Taken(), to(inbox, original_names=True))
    assert names(inbox) == [CSV]
    assert not (inbox.parent / "evil.csv").exists()


def test_a_file_that_is_there_with_other_content_stays(folder: Path, inbox: Path) -> None:
    (inbox / "a.tar.gz").write_bytes(b"precious")
    (inbox / "a+1.tar.gz").write_bytes(b"precious too")
    called(folder, "a.tar.gz")
    taken = Taken()
    consume(drop_at(folder), taken, to(inbox, original_names=True))
    assert taken.events[0].outcome == "a+2.tar.gz"
    assert {path.name: path.read_bytes() for path in inbox.iterdir()} == {
        "a.tar.gz": b"precious",
        "a+1.tar.gz": b"precious too",
        "a+2.tar.gz": b"content",
    }


def test_a_file_that_is_there_with_the_same_content_was_delivered_before(folder: Path, inbox: Path) -> None:
    (inbox / CSV).write_bytes(b"x" * 600_000)
    hand_over(folder, 1, b"x" * 600_000)
    taken = Taken()
    consume(drop_at(folder), taken, to(inbox))
    assert taken.results == ["processed"]
    assert names(inbox) == [CSV]


@pytest.mark.parametrize("what", ["a folder", "a dangling link", "a link to itself"])
def test_what_is_there_and_is_no_file_is_left_alone(folder: Path, inbox: Path, what: str) -> None:
    if what == "a folder":
        (inbox / CSV).mkdir()
    else:
        (inbox / CSV).symlink_to("nowhere" if what == "a dangling link" else CSV)
    hand_over(folder, 1)
    taken = Taken()
    consume(drop_at(folder), taken, to(inbox))
    assert taken.results == ["processed"]
    assert taken.events[0].outcome == "orders_0000000001+1.csv"
    assert sorted(path.name for path in inbox.iterdir()) == ["orders_0000000001+1.csv", CSV]


def test_nothing_shows_before_it_is_verified(folder: Path, inbox: Path) -> None:
    hand_over(folder, 1, b"damaged", files=[manifest(CSV, b"changed")["files"][0]])
    seen: set[str] = set()
    taken = Taken()
    consume(drop_at(folder), taken, to(inbox, progress=lambda _: seen.update(names(inbox))))
    assert taken.results == ["failed"]
    assert all(name.startswith(".") and name.endswith(".part") for name in seen)
    assert seen
    assert names(inbox) == []


def test_a_part_that_an_earlier_run_left_is_taken_away_by_the_next_one(folder: Path, inbox: Path) -> None:
    hand_over(folder, 1)
    left = inbox / f".{CSV}.host-1-aaaaaa.part"
    left.write_bytes(b"left over")
    deliver, attempts = to(inbox), 0

    def handler(delivery: Delivery) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise HandlerFailed("cut")
        deliver(delivery)

    taken = Taken()
    drop = drop_at(folder)
    with drop.consumer((GROUP,), handler, taken.report, backoff=Backoff(base=0, largest=0)) as consumer:
        while consumer.sweep_once(threading.Event()):
            pass
    assert taken.results == ["returned", "processed"]
    assert names(inbox) == [CSV]


def test_a_full_disk_gives_the_item_back_and_loses_nothing(folder: Path, small_folder: Path) -> None:
    large = hand_over(folder, 1, b"x" * 400_000)
    taken = Taken()
    for _ in range(3):
        with pytest.raises(DeliveryFailed, match=f"{CSV} cannot be written: .*No space|File too large"):
            consume(drop_at(folder), taken, to(small_folder), max_attempts=1)
    assert taken.results == ["returned"] * 3
    assert names(small_folder) == []
    assert names(folder) == [f"{large}.csv", f"{large}.manifest.json"]
    small = hand_over(folder, 2, b"x" * 1000)
    (folder / f"{large}.manifest.json").rename(folder / "held back")
    consume(drop_at(folder), taken, to(small_folder))
    assert names(small_folder) == [f"{small}.csv"]


@pytest.mark.parametrize("operation", ["create", "publish", "stat"])
def test_a_folder_that_refuses_gives_the_item_back(folder: Path, inbox: Path, operation: str) -> None:
    (inbox / CSV).write_bytes(b"other")
    stem = hand_over(folder, 1)
    refusing = Refuses(LocalTransport(str(inbox)), operation=operation, error=errors.Denied)
    with pytest.raises(DeliveryFailed, match="so the test says"):
        consume(drop_at(folder), Taken(), ToFolder(refusing))
    assert names(inbox) == [CSV], "no part is left"
    assert names(folder) == [f"{stem}.csv", f"{stem}.manifest.json"]


def test_ctrl_c_while_a_file_is_delivered_gives_the_item_back(folder: Path, inbox: Path) -> None:
    stem = hand_over(folder, 1)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consume(drop_at(folder), Taken(), to(inbox, progress=interrupt))
    assert names(inbox) == []
    assert names(folder) == [f"{stem}.csv", f"{stem}.manifest.json"]


def test_a_payload_is_read_once(folder: Path, inbox: Path) -> None:
    hand_over(folder, 1, b"x" * 1_000_000)
    taken = Taken()
    with consumer_of(drop_at(folder), taken, to(inbox)) as consumer:
        counted = Passing(consumer.driver.connection.use())
        consumer.driver.connection._transport = counted
        consumer.sweep_once(threading.Event())
    reads = [path for operation, path in counted.calls if operation == "open_read"]
    assert reads.count(CSV) == 1
    assert [operation for operation, _ in counted.calls].count("claim") == 2, "one rename to claim, one to commit"
