"""The producer: numbers, what an item looks like when it is there, and what cannot be sent."""

import json
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.errors import SourceChanged, UnfitSource
from gateway.handoff.producer import Outgoing, Producer, producer_fact, suffix_of
from protocol.errors import (
    InvalidManifest,
    InvalidName,
    SequenceExhausted,
    SequenceTaken,
)
from protocol.layout import FolderLayout
from protocol.manifest import parse_manifest
from protocol.names import Grammar
from protocol.rules import Rules, Signal
from protocol.signature import check_signature, public_text
from tests.gateway.tools import GROUP, drop_at, names, sha256


@pytest.fixture
def table(sources: Path) -> Path:
    path = sources / "table.csv"
    path.write_bytes(b"a;b\n1;2\n")
    return path


@pytest.fixture
def producer(folder: Path) -> Iterator[Producer]:
    with drop_at(folder).producer() as producer:
        yield producer


def send(producer: Producer, *paths: Path, **more: Any) -> str:
    """Sends the files as one item; the name of its token."""
    return producer.send([Outgoing(path) for path in paths], group=GROUP, **more).names[-1]


def read_manifest(folder: Path, name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / name).read_bytes())
    return value


class TestNumbers:
    def test_they_ascend_from_one(self, producer: Producer, folder: Path, table: Path) -> None:
        sent = [send(producer, table) for _ in range(3)]
        assert sent == [f"orders_{number:010}.manifest.json" for number in (1, 2, 3)]
        assert (folder / "S_orders_0000000004.next").exists()

    def test_producers_at_the_same_time_never_share_one(self, folder: Path, table: Path) -> None:
        def send_ten(_: int) -> list[str]:
            with drop_at(folder).producer() as producer:
                return [send(producer, table) for _ in range(10)]

        with ThreadPoolExecutor(4) as pool:
            sent = [name for part in pool.map(send_ten, range(4)) for name in part]
        assert len(set(sent)) == 40
        assert len(names(folder)) == 80

    def test_they_go_on_after_whatever_is_there(self, producer: Producer, folder: Path, table: Path) -> None:
        (folder / "A_orders_0000000041.csv").touch()
        assert send(producer, table) == "orders_0000000042.manifest.json"

    def test_a_number_in_use_is_passed_over(self, producer: Producer, folder: Path, table: Path) -> None:
        send(producer, table)
        (folder / "orders_0000000002.csv").write_bytes(b"put there by hand")
        assert send(producer, table) == "orders_0000000003.manifest.json"
        assert (folder / "orders_0000000002.csv").read_bytes() == b"put there by hand"

    @pytest.mark.parametrize("name", ["orders_{}.csv", "B_orders_{}.csv", "A_orders_{}.txt", "E_orders_{}.manifest.json"])
    def test_a_given_number_is_refused_in_whatever_state(
        self, producer: Producer, folder: Path, table: Path, name: str
    ) -> None:
        taken = folder / name.format("0000000007")
        taken.write_bytes(b"other")
        with pytest.raises(SequenceTaken, match=r"number 0000000007 of group 'orders_' is in use: \S+ is there"):
            send(producer, table, sequence=7)
        assert names(folder) == [taken.name]
        assert taken.read_bytes() == b"other"

    def test_a_given_number_is_refused_while_it_is_claimed_or_done(self, folder: Path, table: Path) -> None:
        for mark in ("C_host-1-a_", "D_"):
            token = folder / f"{mark}orders_0000000007.manifest.json"
            token.touch()
            with drop_at(folder).producer() as producer, pytest.raises(SequenceTaken):
                send(producer, table, sequence=7)
            token.unlink()

    def test_a_given_number_asks_no_counter(self, producer: Producer, folder: Path, table: Path) -> None:
        assert send(producer, table, sequence=7) == "orders_0000000007.manifest.json"
        assert not list(folder.glob("S_*"))
        assert send(producer, table) == "orders_0000000008.manifest.json", "the counter begins after it"

    def test_of_many_with_one_given_number_one_wins(self, folder: Path, table: Path) -> None:
        barrier = threading.Barrier(4)

        def send_it(_: int) -> str:
            with drop_at(folder).producer() as producer:
                barrier.wait()
                try:
                    return send(producer, table, sequence=9)
                except SequenceTaken:
                    return ""

        with ThreadPoolExecutor(4) as pool:
            sent = [name for name in pool.map(send_it, range(4)) if name]
        # All may also lose, each having seen another's before file; what may never be is two.
        assert len(sent) <= 1
        assert len(names(folder)) == 2 * len(sent)

    def test_numbers_come_to_an_end(self, folder: Path, table: Path) -> None:
        rules = Rules(FolderLayout(Grammar(2)))
        with drop_at(folder, rules).producer() as producer:
            assert send(producer, table, sequence=98) == "incoming/orders_98.manifest.json"
            with pytest.raises(SequenceExhausted, match="begin a new group prefix"):
                send(producer, table)


class TestItems:
    def test_what_its_manifest_says(self, producer: Producer, folder: Path, table: Path) -> None:
        published = producer.send([Outgoing(table)], group=GROUP, key="order 4711", meta={"batch": "7", "ü": "€"})
        assert published.names == ("orders_0000000001.csv", "orders_0000000001.manifest.json")
        assert (published.size, published.key) == (8, "order 4711")
        assert published.hashes == (f"sha256:{sha256(table.read_bytes())}",)
        manifest = read_manifest(folder, "orders_0000000001.manifest.json")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", manifest.pop("created"))
        assert manifest == {
            "manifest": 1,
            "group": "orders_",
            "sequence": "0000000001",
            "key": "order 4711",
            "producer": {"host": producer_fact().host, "software": producer_fact().software},
            "files": [
                {"name": "orders_0000000001.csv", "size": 8, "hash": published.hashes[0], "source_name": "table.csv"},
            ],
            "meta": {"batch": "7", "ü": "€"},
        }
        assert (folder / "orders_0000000001.csv").read_bytes() == table.read_bytes()

    def test_each_hand_off_has_a_key_of_its_own(self, producer: Producer, table: Path) -> None:
        keys = {producer.send([Outgoing(table)], group=GROUP).key for _ in range(3)}
        assert len(keys) == 3

    def test_a_bundle_is_one_item(self, producer: Producer, folder: Path, sources: Path) -> None:
        for name in ("a.csv", "b.pdf", "c.tar.gz"):
            (sources / name).write_bytes(name.encode())
        token = send(producer, *sorted(sources.iterdir()))
        assert names(folder) == sorted([token, *(f"orders_0000000001.{suffix}" for suffix in ("csv", "pdf", "tar.gz"))])
        files = read_manifest(folder, token)["files"]
        assert [file["source_name"] for file in files] == ["a.csv", "b.pdf", "c.tar.gz"]

    def test_two_files_of_one_suffix_are_no_bundle(self, producer: Producer, folder: Path, table: Path) -> None:
        with pytest.raises(InvalidName, match="the suffix is what tells them apart"):
            producer.send([Outgoing(table), Outgoing(table, "CSV")], group=GROUP)
        assert list(folder.iterdir()) == []

    def test_an_item_needs_a_file(self, producer: Producer) -> None:
        with pytest.raises(InvalidName, match="at least one file"):
            producer.send([], group=GROUP)

    def test_an_empty_file_is_an_item(self, producer: Producer, folder: Path, sources: Path) -> None:
        (sources / "empty.dat").touch()
        token = send(producer, sources / "empty.dat")
        assert read_manifest(folder, token)["files"][0]["size"] == 0

    @pytest.mark.parametrize("signal", Signal)
    @pytest.mark.parametrize("layout", ["prefix", "folders"])
    def test_the_names_of_every_kind_of_drop(self, folder: Path, table: Path, signal: Signal, layout: str) -> None:
        rules = Rules(FolderLayout(), signal) if layout == "folders" else Rules(signal=signal)
        with drop_at(folder, rules).producer() as producer:
            send(producer, table)
        token = {
            Signal.MANIFEST: ["orders_0000000001.manifest.json"],
            Signal.CHECKSUM: ["orders_0000000001.csv.sha256"],
            Signal.NONE: [],
        }
        place = "incoming/" if layout == "folders" else ""
        assert names(folder) == sorted(place + name for name in ["orders_0000000001.csv", *token[signal]])
        if signal is Signal.CHECKSUM:
            line = f"{sha256(table.read_bytes())}  orders_0000000001.csv\n"
            assert (folder / f"{place}orders_0000000001.csv.sha256").read_text() == line

    def test_a_bare_drop_has_no_bundles(self, folder: Path, sources: Path) -> None:
        for name in ("a.csv", "b.pdf"):
            (sources / name).touch()
        with drop_at(folder, Rules(signal=Signal.NONE)).producer() as producer, pytest.raises(InvalidName, match="manifest"):
            send(producer, *sources.iterdir())
        assert list(folder.iterdir()) == []

    def test_a_signed_item_can_be_checked_and_not_be_changed(self, folder: Path, table: Path) -> None:
        key = Ed25519PrivateKey.generate()
        with drop_at(folder, signing_key=key).producer() as producer:
            token = send(producer, table, meta={"x": [1, 2.5, None, "ü"]})
        manifest = parse_manifest((folder / token).read_bytes())
        check_signature(manifest, {public_text(key)})
        with pytest.raises(InvalidManifest):
            parse_manifest((folder / token).read_bytes()[:-40])

    def test_a_hash_of_the_drop_s_choice(self, folder: Path, table: Path) -> None:
        with drop_at(folder, Rules(algorithm="blake2b")).producer() as producer:
            token = send(producer, table)
        assert read_manifest(folder, token)["files"][0]["hash"].startswith("blake2b:")


@dataclass
class Meddling:
    """A source that something happens to while it is read."""

    path: Path
    what: str

    def __call__(self, _: int) -> None:
        if self.what == "grows":
            with self.path.open("ab") as file:
                file.write(b"more")
        elif self.what == "shrinks":
            os.truncate(self.path, 100_000)
        elif self.what == "is written to":
            with self.path.open("r+b") as file:
                file.write(b"XX")
        else:
            raise KeyboardInterrupt


class TestSources:
    @pytest.mark.parametrize("what", ["grows", "shrinks", "is written to"])
    def test_a_file_that_changes_while_it_is_sent(self, producer: Producer, folder: Path, sources: Path, what: str) -> None:
        path = sources / "log.txt"
        path.write_bytes(b"x" * 1_000_000)
        os.utime(path, (1, 1))
        with pytest.raises(SourceChanged, match=r"changed while it was sent: .*Nothing was published; send it once its writer"):
            producer.send([Outgoing(path, progress=Meddling(path, what))], group=GROUP)
        assert names(folder) == []

    def test_a_file_that_is_replaced_while_it_is_sent_is_sent_as_it_was(
        self, producer: Producer, folder: Path, sources: Path
    ) -> None:
        path = sources / "log.txt"
        path.write_bytes(b"old" * 300_000)

        def replace(_: int) -> None:
            (sources / "new").write_bytes(b"new")
            (sources / "new").replace(path)

        producer.send([Outgoing(path, progress=replace)], group=GROUP)
        assert (folder / "orders_0000000001.txt").read_bytes() == b"old" * 300_000

    def test_ctrl_c_while_sending_leaves_nothing(self, producer: Producer, folder: Path, table: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            producer.send([Outgoing(table, progress=Meddling(table, "is interrupted"))], group=GROUP)
        assert names(folder) == []

    def test_what_cannot_be_sent_takes_no_number(self, producer: Producer, folder: Path, sources: Path) -> None:
        (sources / "folder.csv").mkdir()
        os.mkfifo(sources / "pipe.csv")
        odd = sources / os.fsdecode(b"odd\xff.csv")
        for path in (odd, sources / "no-suffix", sources / "x.sha256"):
            path.touch()
        expected: list[tuple[Path, type[Exception], str]] = [
            (sources / "nope.csv", FileNotFoundError, "No such file"),
            (sources / "folder.csv", UnfitSource, "is a folder; send the files in it"),
            (sources / "pipe.csv", UnfitSource, "is a pipe or a device and no file; write it to a file, and send that"),
            (odd, UnfitSource, "the name is not valid UTF-8, and no manifest can say it; rename the file"),
            (sources / "no-suffix", InvalidName, "has no suffix that a drop can use; give one with --suffix"),
            (sources / "x.sha256", InvalidName, "is reserved for dropgate's own files"),
        ]
        for path, error, message in expected:
            with pytest.raises(error, match=message):
                send(producer, path)
        assert list(folder.iterdir()) == [], "neither a file nor a counter"

    def test_a_file_that_may_not_be_read_takes_no_number(
        self, producer: Producer, folder: Path, table: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def denied(self: Path, *_: object) -> None:
            raise PermissionError(13, "Permission denied", str(self))

        # Root may read everything, so the refusal is made here.
        monkeypatch.setattr(Path, "open", denied)
        with pytest.raises(PermissionError):
            send(producer, table)
        assert list(folder.iterdir()) == []

    def test_what_does_not_fit_a_manifest_leaves_nothing(self, producer: Producer, folder: Path, table: Path) -> None:
        for more in ({"key": ""}, {"key": "two\nlines"}, {"key": "k" * 2000}, {"meta": {"x": "y" * 2**21}}):
            with pytest.raises(InvalidManifest):
                send(producer, table, **more)
        assert names(folder) == []

    @pytest.mark.parametrize(
        ("name", "suffix"),
        [
            ("a.csv", "csv"),
            ("a.CSV", "CSV"),
            ("backup.tar.gz", "tar.gz"),
            ("report.2024-05.csv", "csv"),
            ("v1.2.csv", "csv"),
            (".profile.sh", "sh"),
            ("Rechnung März.pdf", "pdf"),
            ("x.7z", "7z"),
        ],
    )
    def test_the_suffix_is_the_file_s_own(self, name: str, suffix: str) -> None:
        assert suffix_of(Path("somewhere.d") / name) == suffix

    @pytest.mark.parametrize("name", ["noext", ".hidden", "a.", "a.b-c", "a.ü", "a.c v"])
    def test_a_file_without_a_usable_suffix_is_told_how_to_give_one(self, name: str) -> None:
        with pytest.raises(InvalidName, match="give one with --suffix, such as --suffix csv"):
            suffix_of(Path(name))
