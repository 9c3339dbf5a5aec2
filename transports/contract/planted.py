"""What strangers leave in a directory: odd names, links, pipes, and files that change while they are read.

None of it can be made through the contract, so this part of the suite needs the directory as a folder of this machine.
"""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from transports.base import Kind, Transport
from transports.contract.place import REFUSALS, ContractBase, Place, content, fill, names, refused, some_bytes
from transports.errors import ChangedWhileReading
from transports.paths import unsafe_because

MANY = 3000
ODD_BYTES = (b"bad\xff\xfename.csv", b"\xc3", b"back\\slash", b"new\nline", b"\x1b[31mred", b"del\x7f")


class PlantedContract(ContractBase):
    """Run it beside `TransportContract`, with `Place.folder` set."""

    @pytest.fixture
    def folder(self, place: Place) -> Path:
        assert place.folder is not None, "PlantedContract needs Place.folder"
        return place.folder

    def test_strange_names_end_no_scan_and_cannot_be_used(self, place: Place, folder: Path, transport: Transport) -> None:
        ordinary = [f"x_{number:02}" for number in range(20)]
        for name in ordinary:
            (folder / name).write_bytes(b"data")
        for raw in ODD_BYTES:
            Path(os.fsdecode(os.fsencode(folder) + b"/" + raw)).write_bytes(b"odd")
        entries = list(transport.scan())
        odd = [entry for entry in entries if entry.name not in ordinary]
        assert len(entries) - len(odd) == len(ordinary), "every ordinary name is there once"
        if not place.aliases:
            assert len(odd) == len(ODD_BYTES), "a strange name is counted"
        for entry in odd:
            assert entry.kind is Kind.OTHER or (place.aliases and not unsafe_because(entry.name))
            assert entry.name.isprintable(), "it can be shown, and upsets no terminal"
        assert names(transport, pattern="x_*") == ordinary

    def test_many_names_are_listed_and_one_is_found(self, folder: Path, transport: Transport) -> None:
        expected = [f"orders_{number:010}.csv" for number in range(MANY)]
        for name in expected:
            (folder / name).touch()
        assert names(transport) == expected
        assert names(transport, pattern=f"*{MANY - 1}.csv") == [expected[-1]]
        listing = transport.scan()
        next(listing)
        transport.delete(expected[0])
        del listing
        assert len(names(transport)) == MANY - 1

    def test_a_file_that_shrinks_is_no_whole_file(self, folder: Path, transport: Transport) -> None:
        path = folder / "x"
        path.write_bytes(b"")
        os.truncate(path, 48 * 1024 * 1024)
        with transport.open_read("x") as source:
            assert source.read(1000)
            os.truncate(path, 2000)
            with pytest.raises(ChangedWhileReading):
                for _ in source:
                    pass

    def test_a_file_that_grows_is_read_to_the_size_it_had(self, folder: Path, transport: Transport) -> None:
        data = some_bytes(600_000)
        (folder / "x").write_bytes(data)
        with transport.open_read("x") as source:
            first = source.read(1000)
            with (folder / "x").open("ab") as grown:
                grown.write(some_bytes(600_001))
            assert first + b"".join(source) == data

    def test_a_link_is_not_followed(self, place: Place, folder: Path, transport: Transport, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.write_bytes(b"not of this drop")
        (folder / "link").symlink_to(outside)
        if not place.hides_kinds:
            assert [entry.kind for entry in transport.scan()] == [Kind.LINK]
            assert transport.stat("link").kind is Kind.LINK
        with refused("open_read"):
            transport.open_read("link")
        with refused("create"):
            transport.create("link")
        with refused("resume"):
            transport.resume("link", 0)
        assert outside.read_bytes() == b"not of this drop"

    def test_a_link_inside_is_refused_too(self, place: Place, folder: Path, transport: Transport) -> None:
        (folder / "target").write_bytes(b"data")
        (folder / "link").symlink_to("target")
        if not place.hides_kinds:
            with refused("open_read"):
                transport.open_read("link")
            transport.delete("link")
            assert not (folder / "link").is_symlink()
        assert (folder / "target").read_bytes() == b"data"

    def test_a_dangling_link_takes_its_name(self, folder: Path, transport: Transport) -> None:
        (folder / "dangling").symlink_to("nothing")
        with refused("create"):
            transport.create("dangling")
        assert not (folder / "nothing").exists(), "nothing is made behind a link"

    def test_a_link_to_a_folder_leads_nowhere(self, folder: Path, transport: Transport, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "x").write_bytes(b"not of this drop")
        (folder / "out").symlink_to(outside)
        fill(transport, "mine", b"data")
        with refused("open_read"):
            transport.open_read("out/x")
        with refused("scan"):
            list(transport.scan("out"))
        with refused("create"):
            transport.create("out/y")
        with refused("claim"):
            transport.claim("out/x", "x")
        with refused("publish"):
            transport.publish("mine", "out/mine")
        assert sorted(path.name for path in outside.iterdir()) == ["x"]
        assert content(transport, "mine") == b"data"

    @pytest.mark.timeout(60)
    def test_a_pipe_is_refused_and_not_waited_for(self, place: Place, folder: Path, transport: Transport) -> None:
        os.mkfifo(folder / "pipe")
        if place.hides_kinds:
            with suppress(*REFUSALS):
                assert content(transport, "pipe") == b"", "shown as an empty file, it is one"
            return
        assert transport.stat("pipe").kind is Kind.OTHER
        assert [entry.kind for entry in transport.scan()] == [Kind.OTHER]
        with refused("open_read"):
            transport.open_read("pipe")
