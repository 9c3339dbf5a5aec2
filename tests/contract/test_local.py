"""The contract, held by the local backend: as it is, and in the ways it takes where renameat2 or hard links are missing."""

import errno
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from transports.base import Guarantee, Transport
from transports.contract import Place, PlantedContract, TransportContract
from transports.local import publish
from transports.local.transport import LocalTransport

ANOTHER_FILE_SYSTEM = Path("/dev/shm")


def connect(folder: Path, below: str) -> Transport:
    return LocalTransport(str(folder / below))


def no_such_call(*_: object) -> NoReturn:
    """What NFS says to renameat2, and FAT to link; neither file system can be had everywhere."""
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


def connect_without(calls: tuple[str, ...], folder: Path, below: str) -> Transport:
    with pytest.MonkeyPatch.context() as patch:
        for call in calls:
            patch.setattr(publish, call, no_such_call)
        return connect(folder, below)


class TestLocal(TransportContract, PlantedContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        folder = tmp_path / "drop"
        folder.mkdir()
        return Place(connect=partial(connect, folder), folder=folder)

    def test_everything_is_one_step(self, transport: Transport) -> None:
        told = transport.capabilities
        for fact in (told.create, told.publish, told.claim, told.replace):
            assert fact.guarantee is Guarantee.ATOMIC
        assert told.publish.evidence.startswith("renameat2")


class TestLocalByLink(TransportContract, PlantedContract):
    """Without renameat2, as on NFS; on a second file system of this machine."""

    @pytest.fixture
    def place(self) -> Iterator[Place]:
        with tempfile.TemporaryDirectory(dir=ANOTHER_FILE_SYSTEM) as folder:
            yield Place(connect=partial(connect_without, ("rename_noreplace",), Path(folder)), folder=Path(folder))

    def test_the_link_is_the_one_step(self, transport: Transport) -> None:
        assert transport.capabilities.publish.guarantee is Guarantee.ATOMIC
        assert transport.capabilities.publish.evidence.startswith("link")


class TestLocalByReservation(TransportContract, PlantedContract):
    """Without renameat2 and without hard links, as on some FUSE mounts."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        folder = tmp_path / "drop"
        folder.mkdir()
        return Place(connect=partial(connect_without, ("rename_noreplace", "link_and_unlink"), folder), folder=folder)

    def test_it_is_told_that_an_empty_file_shows(self, transport: Transport) -> None:
        assert transport.capabilities.publish.guarantee is Guarantee.CHECKED
        assert "empty file" in transport.capabilities.publish.evidence
