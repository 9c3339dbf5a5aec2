"""The contract, held by the SFTP backend: over both SSH layers to a real server, and over a bare sftp-server."""

from functools import partial
from pathlib import Path

import pytest

from testenv.servers import BareSftp, SftpServer
from transports.base import Guarantee, Transport
from transports.connect import connect
from transports.contract import Place, PlantedContract, TransportContract
from transports.sftp.backend import SftpTransport
from transports.sftp.streams import PipeStream


def connect_by(engine: str, server: SftpServer, folder: str, below: str) -> Transport:
    endpoint = server.endpoint(f"{folder}/{below}".rstrip("/"), engine=engine)
    if engine == "openssh":
        endpoint = server.endpoint(f"{folder}/{below}".rstrip("/"), engine=engine, password=None, key_files=(server.key_file,))
    return connect(endpoint)


def connect_bare(server: BareSftp, folder: Path, below: str) -> Transport:
    return SftpTransport.over_stream(PipeStream(server.command), str(folder / below), server=server.version)


class TestSftpOverParamiko(TransportContract, PlantedContract):
    @pytest.fixture
    def place(self, sftp_server: SftpServer, sftp_dir: str) -> Place:
        return Place(connect=partial(connect_by, "paramiko", sftp_server, sftp_dir), folder=sftp_server.local(sftp_dir))

    def test_every_rename_is_one_step(self, transport: Transport) -> None:
        told = transport.capabilities
        for fact in (told.create, told.publish, told.claim, told.replace):
            assert fact.guarantee is Guarantee.ATOMIC, fact.evidence


class TestSftpOverOpenSSH(TransportContract, PlantedContract):
    @pytest.fixture
    def place(self, sftp_server: SftpServer, sftp_dir: str) -> Place:
        return Place(connect=partial(connect_by, "openssh", sftp_server, sftp_dir), folder=sftp_server.local(sftp_dir))


class TestBareSftp(TransportContract, PlantedContract):
    """The protocol alone, without SSH: the same server program, on this machine's file system."""

    @pytest.fixture
    def place(self, bare_sftp: BareSftp, tmp_path: Path) -> Place:
        folder = tmp_path / "drop"
        folder.mkdir()
        return Place(connect=partial(connect_bare, bare_sftp, folder), folder=folder)
