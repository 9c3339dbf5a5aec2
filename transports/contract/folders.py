"""Entries: what is there, and how it is made and removed."""

import pytest

from transports.base import Kind, Transport
from transports.contract.place import ContractBase, content, fill, names, refused
from transports.errors import AlreadyExists, Busy, NotFound


class FolderContract(ContractBase):
    """`stat`, `delete`, `make_dir`, `remove_dir`."""

    def test_stat_tells_what_is_there(self, transport: Transport) -> None:
        fill(transport, "x", b"12345")
        transport.make_dir("folder")
        fill(transport, "folder/y", b"123")
        assert (transport.stat("x").kind, transport.stat("x").size) == (Kind.FILE, 5)
        assert (transport.stat("folder").name, transport.stat("folder").kind) == ("folder", Kind.FOLDER)
        assert (transport.stat("folder/y").name, transport.stat("folder/y").size) == ("y", 3)
        assert transport.stat("").kind is Kind.FOLDER

    def test_stat_of_nothing(self, transport: Transport) -> None:
        fill(transport, "x")
        for path in ("nothing", "nowhere/nothing", "x/below"):
            with pytest.raises(NotFound) as caught:
                transport.stat(path)
            assert (caught.value.operation, caught.value.path) == ("stat", path)

    def test_delete_removes_a_file_and_only_once(self, transport: Transport) -> None:
        fill(transport, "x")
        transport.delete("x")
        assert names(transport) == []
        with pytest.raises(NotFound) as caught:
            transport.delete("x")
        assert (caught.value.operation, caught.value.path) == ("delete", "x")
        with pytest.raises(NotFound):
            transport.delete("nowhere/x")

    def test_delete_leaves_a_folder_alone(self, transport: Transport) -> None:
        transport.make_dir("folder")
        with refused("delete"):
            transport.delete("folder")
        assert transport.stat("folder").kind is Kind.FOLDER

    def test_a_folder_is_made_once(self, transport: Transport) -> None:
        transport.make_dir("folder")
        transport.make_dir("folder/below")
        fill(transport, "x", b"data")
        for taken in ("folder", "folder/below", "x"):
            with pytest.raises(AlreadyExists) as caught:
                transport.make_dir(taken)
            assert (caught.value.operation, caught.value.path) == ("make_dir", taken)
        assert names(transport, "folder") == ["below"]
        assert content(transport, "x") == b"data"

    def test_a_folder_has_a_parent(self, transport: Transport) -> None:
        with pytest.raises(NotFound):
            transport.make_dir("nowhere/folder")
        assert names(transport) == []

    def test_only_an_empty_folder_is_removed(self, transport: Transport) -> None:
        transport.make_dir("folder")
        fill(transport, "folder/x", b"data")
        with pytest.raises(Busy) as caught:
            transport.remove_dir("folder")
        assert (caught.value.operation, caught.value.path) == ("remove_dir", "folder")
        assert content(transport, "folder/x") == b"data"
        transport.delete("folder/x")
        transport.remove_dir("folder")
        assert names(transport) == []
        with pytest.raises(NotFound):
            transport.remove_dir("folder")

    def test_remove_dir_leaves_a_file_alone(self, transport: Transport) -> None:
        fill(transport, "x", b"data")
        with refused("remove_dir"):
            transport.remove_dir("x")
        assert content(transport, "x") == b"data"
