"""The connection: what it says of itself, its clock, and its end."""

import time

import pytest

from transports.base import Fact, Kind, Transport
from transports.contract.place import ContractBase, Place, content, fill, names
from transports.errors import NotFound, Unreachable

TICK = 0.02  # seconds; a kernel stamps files by a clock that stands still between two of its ticks


class ConnectionContract(ContractBase):
    """`capabilities`, `server_time`, `free_space`, `same_volume`, `wait_for_change`, `close`."""

    def test_every_capability_has_its_evidence(self, transport: Transport) -> None:
        told = transport.capabilities
        for fact in (told.create, told.publish, told.claim, told.replace, told.durable):
            assert isinstance(fact, Fact)
            assert fact.evidence, "a guarantee says where the knowledge of it comes from"
        assert told.server
        assert told.longest_name >= 64
        assert 0 < told.time_resolution <= 10

    def test_connecting_leaves_nothing_behind(self, place: Place) -> None:
        for _ in range(2):
            with place.connect("") as transport:
                assert names(transport) == []

    def test_two_connections_see_one_directory(self, place: Place) -> None:
        with place.connect("") as one, place.connect("") as other:
            fill(one, "x", b"data")
            assert content(other, "x") == b"data"
            other.claim("x", "C_x")
            assert names(one) == ["C_x"]

    def test_a_connection_is_rooted_where_it_was_told(self, place: Place) -> None:
        with place.connect("") as outer:
            outer.make_dir("below")
            outer.make_dir("below/deep")
            fill(outer, "outside", b"outside")
            with place.connect("below/deep") as inner:
                assert names(inner) == []
                fill(inner, "x", b"data")
            assert content(outer, "below/deep/x") == b"data"

    def test_a_root_that_is_not_there_is_said_at_once(self, place: Place) -> None:
        with pytest.raises(NotFound) as caught:
            place.connect("not-there")
        assert "not-there" in str(caught.value), "the message names the directory"
        with place.connect("") as transport:
            assert names(transport) == [], "it is not made by the way"

    def test_a_root_that_is_a_file_is_refused(self, place: Place) -> None:
        with place.connect("") as transport:
            fill(transport, "file", b"data")
            with pytest.raises(NotFound):
                place.connect("file")
            assert content(transport, "file") == b"data"

    def test_the_clock_is_the_one_that_stamps_files(self, transport: Transport) -> None:
        transport.make_dir("folder")
        for folder in ("", "folder"):
            before = transport.server_time(folder)
            path = f"{folder}/x".lstrip("/")
            fill(transport, path)
            modified = transport.stat(path).modified
            after = transport.server_time(folder)
            slack = max(transport.capabilities.time_resolution, TICK)
            if modified is not None:
                assert before - slack <= modified <= after + slack
            transport.delete(path)
            assert names(transport, folder) == (["folder"] if not folder else []), "a scratch file is removed"

    def test_a_listing_and_stat_agree_on_the_time(self, transport: Transport) -> None:
        fill(transport, "x")
        (entry,) = transport.scan()
        assert entry.kind is Kind.FILE
        modified = transport.stat("x").modified
        if entry.modified is not None and modified is not None:
            assert abs(entry.modified - modified) <= transport.capabilities.time_resolution

    def test_free_space_is_bytes_or_unknown(self, transport: Transport) -> None:
        transport.make_dir("folder")
        for folder in ("", "folder"):
            space = transport.free_space(folder)
            assert space is None or space > 0

    def test_a_folder_is_not_on_another_volume_than_its_root(self, transport: Transport) -> None:
        transport.make_dir("folder")
        assert transport.same_volume("", "folder") is not False
        assert transport.same_volume("folder", "folder") is not False

    def test_waiting_for_a_change_ends(self, transport: Transport) -> None:
        for _ in range(3):
            started = time.monotonic()
            transport.wait_for_change("", 0.2)
            assert time.monotonic() - started < 5

    def test_a_change_ends_the_waiting_where_that_is_promised(self, place: Place) -> None:
        with place.connect("") as waiting, place.connect("") as changing:
            waiting.wait_for_change("", 0.1)
            waiting.wait_for_change("", 0.1)
            fill(changing, "x")
            started = time.monotonic()
            waiting.wait_for_change("", 20 if waiting.capabilities.notification else 0.1)
            assert time.monotonic() - started < 15

    def test_closing_twice_is_closing_once(self, place: Place) -> None:
        transport = place.connect("")
        transport.close()
        transport.close()

    def test_a_closed_connection_says_so(self, place: Place) -> None:
        with place.connect("") as transport:
            fill(transport, "x", b"data")
        for call in (
            lambda: transport.create("y"),
            lambda: transport.open_read("x"),
            lambda: transport.resume("x", 0),
            lambda: transport.publish("x", "y"),
            lambda: transport.claim("x", "y"),
            lambda: transport.replace("x", "y"),
            lambda: list(transport.scan()),
            lambda: transport.stat("x"),
            lambda: transport.delete("x"),
            lambda: transport.make_dir("y"),
            lambda: transport.server_time(),
            lambda: transport.wait_for_change("", 0),
        ):
            with pytest.raises(Unreachable):
                call()
        with place.connect("") as again:
            assert names(again) == ["x"]
