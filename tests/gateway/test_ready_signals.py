"""The three ways to say that an item is complete, in both layouts, by our producer and by a shell script."""

import subprocess
from pathlib import Path

import pytest

from gateway.handoff.producer import Outgoing
from protocol.layout import FolderLayout
from protocol.manifest import derived_key
from protocol.names import Grammar, ItemId
from protocol.rules import Rules, Signal
from tests.gateway.tools import GROUP, Taken, consume, drop_at, names, put, sha256
from transports.endpoint import Endpoint

# What a person would write who has coreutils and nothing of ours: arguments are the drop, the number, the file.
PRODUCE = """
set -eu
cd "$1"
name=orders_$2.csv
cp "$3" "B_$name"
mv -n "B_$name" "$name"
sha256sum "$name" > "B_$name.sha256"
mv -n "B_$name.sha256" "$name.sha256"
"""


def produce(folder: Path, number: int, source: Path) -> None:
    subprocess.run(["sh", "-c", PRODUCE, "sh", str(folder), f"{number:010}", str(source)], check=True, timeout=20)


def rules_of(signal: Signal, layout: str) -> Rules:
    return Rules(FolderLayout(), signal) if layout == "folders" else Rules(signal=signal)


@pytest.mark.parametrize("layout", ["prefix", "folders"])
@pytest.mark.parametrize("signal", Signal)
def test_what_is_sent_is_received(folder: Path, sources: Path, signal: Signal, layout: str) -> None:
    drop = drop_at(folder, rules_of(signal, layout))
    source = put(sources, "x.csv", b"content")
    with drop.producer() as producer:
        sent = [producer.send([Outgoing(source)], group=GROUP) for _ in range(2)]
    taken = Taken()
    assert consume(drop, taken) == 2
    assert sorted(taken.contents) == [(f"orders_000000000{number}.csv", b"content") for number in (1, 2)]
    mark = "archive/" if layout == "folders" else "A_"
    assert names(folder) == sorted(mark + name.rpartition("/")[2] for published in sent for name in published.names)
    if signal is Signal.MANIFEST:
        assert {delivery.key for delivery in taken.deliveries} == {published.key for published in sent}


def test_a_shell_script_can_produce(place: tuple[Endpoint, Path], sources: Path) -> None:
    endpoint, folder = place
    source = put(sources, "x.csv", b"from a script\n")
    for number in (1, 2):
        produce(folder, number, source)
    for path in folder.iterdir():
        put(folder, path.name, path.read_bytes())  # whose files they are is of no interest here
    taken = Taken()
    assert consume(drop_at(endpoint, Rules(signal=Signal.CHECKSUM)), taken) == 2
    assert sorted(taken.contents) == [(f"orders_000000000{number}.csv", b"from a script\n") for number in (1, 2)]
    assert names(folder) == [f"A_orders_000000000{n}.csv{suffix}" for n in (1, 2) for suffix in ("", ".sha256")]
    expected = derived_key(ItemId(GROUP, 1), Grammar(), [f"sha256:{sha256(b'from a script' + bytes([10]))}"])
    assert expected in {delivery.key for delivery in taken.deliveries}


def test_a_payload_without_its_checksum_file_waits(folder: Path) -> None:
    put(folder, "orders_0000000001.csv", b"x")
    assert consume(drop_at(folder, Rules(signal=Signal.CHECKSUM)), Taken()) == 0
    assert names(folder) == ["orders_0000000001.csv"]


def test_bare_payloads_are_taken_and_kept_in_one_rename_each(folder: Path) -> None:
    put(folder, "orders_0000000001.csv", b"x")
    put(folder, "B_orders_0000000002.csv", b"being written")
    taken = Taken()
    assert consume(drop_at(folder, Rules(signal=Signal.NONE)), taken) == 1
    assert names(folder) == ["A_orders_0000000001.csv", "B_orders_0000000002.csv"]


def test_many_files_of_one_number_are_many_items_where_there_is_no_manifest(folder: Path) -> None:
    put(folder, "orders_0000000001.csv", b"x")
    put(folder, "orders_0000000001.pdf", b"y")
    taken = Taken()
    drop = drop_at(folder, Rules(signal=Signal.NONE))
    # One number is one item, and it is for one worker at a time; both are taken in the end.
    assert consume(drop, taken) + consume(drop, taken) == 2
    assert sorted(data for _, data in taken.contents) == [b"x", b"y"]
    assert names(folder) == ["A_orders_0000000001.csv", "A_orders_0000000001.pdf"]
