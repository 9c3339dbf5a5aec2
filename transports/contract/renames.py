"""Renames: `publish` never replaces, `claim` and `replace` move one file, and a refusal changes nothing."""

from collections.abc import Callable

import pytest

from transports.base import Guarantee, Kind, Transport
from transports.contract.place import ContractBase, content, fill, names, refused, same, some_bytes
from transports.errors import AlreadyExists, NotFound, Unsupported

Rename = Callable[[Transport, str, str], None]

RENAMES: dict[str, Rename] = {
    "publish": lambda transport, src, dst: transport.publish(src, dst),
    "claim": lambda transport, src, dst: transport.claim(src, dst),
    "replace": lambda transport, src, dst: transport.replace(src, dst),
}


class RenameContract(ContractBase):
    """`publish`, `claim`, `replace`."""

    @pytest.mark.parametrize("rename", RENAMES)
    def test_a_file_is_moved_whole(self, transport: Transport, rename: str) -> None:
        for size in (0, 100_000):
            fill(transport, "a", some_bytes(size))
            RENAMES[rename](transport, "a", "b")
            assert names(transport) == ["b"]
            assert same(content(transport, "b"), some_bytes(size))
            transport.delete("b")

    @pytest.mark.parametrize("rename", RENAMES)
    def test_a_file_is_moved_between_folders(self, transport: Transport, rename: str) -> None:
        transport.make_dir("temp")
        transport.make_dir("incoming")
        transport.make_dir("incoming/below")
        fill(transport, "temp/x", b"data")
        RENAMES[rename](transport, "temp/x", "incoming/below/y")
        assert names(transport, "temp") == []
        assert content(transport, "incoming/below/y") == b"data"

    @pytest.mark.parametrize("rename", RENAMES)
    def test_a_source_that_is_not_there(self, transport: Transport, rename: str) -> None:
        for source in ("nothing", "nowhere/nothing"):
            with pytest.raises(NotFound) as caught:
                RENAMES[rename](transport, source, "b")
            assert caught.value.operation == rename
            assert names(transport) == []

    @pytest.mark.parametrize("rename", RENAMES)
    def test_a_target_folder_that_is_not_there(self, transport: Transport, rename: str) -> None:
        fill(transport, "a", b"data")
        with pytest.raises(NotFound) as caught:
            RENAMES[rename](transport, "a", "nowhere/b")
        assert caught.value.operation == rename
        assert names(transport) == ["a"]
        assert content(transport, "a") == b"data"

    @pytest.mark.parametrize("rename", RENAMES)
    def test_a_folder_is_never_the_target(self, transport: Transport, rename: str) -> None:
        fill(transport, "a", b"data")
        transport.make_dir("folder")
        with refused(rename):
            RENAMES[rename](transport, "a", "folder")
        assert names(transport) == ["a", "folder"]
        assert names(transport, "folder") == []
        assert content(transport, "a") == b"data"

    def test_publish_replaces_nothing(self, transport: Transport) -> None:
        for held in (b"held", b""):
            fill(transport, "a", b"mine")
            fill(transport, "b", held)
            with pytest.raises(AlreadyExists) as caught:
                transport.publish("a", "b")
            assert (caught.value.operation, caught.value.path) == ("publish", "b")
            assert names(transport) == ["a", "b"]
            assert content(transport, "a") == b"mine"
            assert content(transport, "b") == held
            transport.delete("a")
            transport.delete("b")

    def test_publish_of_nothing_is_not_found_even_where_the_target_is_taken(self, transport: Transport) -> None:
        fill(transport, "b", b"held")
        with pytest.raises((NotFound, AlreadyExists)):
            transport.publish("nothing", "b")
        assert content(transport, "b") == b"held"

    @pytest.mark.parametrize("rename", RENAMES)
    def test_a_file_renamed_onto_itself_stays(self, transport: Transport, rename: str) -> None:
        fill(transport, "a", b"data")
        if rename == "publish":
            with refused("publish"):
                transport.publish("a", "a")
        else:
            RENAMES[rename](transport, "a", "a")
        assert names(transport) == ["a"]
        assert content(transport, "a") == b"data"

    def test_replace_takes_the_place_of_a_file(self, transport: Transport) -> None:
        fill(transport, "a", b"new")
        fill(transport, "b", some_bytes(100_000))
        try:
            transport.replace("a", "b")
        except Unsupported:
            assert transport.capabilities.replace.guarantee is Guarantee.NONE, "a step that is promised is there"
            assert content(transport, "a") == b"new"
            assert same(content(transport, "b"), some_bytes(100_000))
            return
        assert names(transport) == ["b"]
        assert content(transport, "b") == b"new"

    def test_replace_by_nothing_keeps_the_old(self, transport: Transport) -> None:
        fill(transport, "b", b"held")
        with pytest.raises(NotFound):
            transport.replace("nothing", "b")
        assert content(transport, "b") == b"held"

    def test_a_renamed_file_can_be_claimed_back_and_forth(self, transport: Transport) -> None:
        fill(transport, "x", b"data")
        for turn in range(10):
            transport.claim("x", f"C_{turn}_x")
            with pytest.raises(NotFound):
                transport.claim("x", "C_late_x")
            transport.publish(f"C_{turn}_x", "x")
        assert names(transport) == ["x"]
        assert transport.stat("x").kind is Kind.FILE
        assert content(transport, "x") == b"data"
