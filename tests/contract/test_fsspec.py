"""The contract, held by the fsspec bridge: over a file system it knows, and over one of which nothing is promised."""

from functools import partial
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from transports.base import Guarantee, Transport
from transports.contract import Place, PlantedContract, TransportContract
from transports.fsspec_bridge import FsspecTransport


def connect_local(folder: Path, below: str) -> Transport:
    return FsspecTransport(LocalFileSystem(skip_instance_cache=True), str(folder / below))


class TestFsspecLocal(TransportContract, PlantedContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        folder = tmp_path / "drop"
        folder.mkdir()
        return Place(connect=partial(connect_local, folder), folder=folder)

    def test_every_step_is_one_step(self, transport: Transport) -> None:
        told = transport.capabilities
        for fact in (told.create, told.publish, told.claim, told.replace):
            assert fact.guarantee is Guarantee.ATOMIC


class TestFsspecMemory(TransportContract):
    """Its move is a copy and a delete, so two may win: it says so, and the rest of the contract holds."""

    @pytest.fixture
    def place(self) -> Place:
        system = MemoryFileSystem(global_store=False, skip_instance_cache=True)
        system.mkdir("/drop")
        return Place(connect=lambda below: FsspecTransport(system, f"/drop/{below}".rstrip("/")), processes=False)

    def test_nothing_is_promised(self, transport: Transport) -> None:
        told = transport.capabilities
        assert told.create.guarantee is Guarantee.CHECKED
        for fact in (told.publish, told.claim, told.replace):
            assert fact.guarantee is Guarantee.NONE
