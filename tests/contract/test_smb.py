"""The contract, held by the SMB backend against a real Samba."""

from functools import partial

import pytest

from testenv.servers import SmbServer
from transports.base import Guarantee, Transport
from transports.connect import connect
from transports.contract import Place, PlantedContract, TransportContract


def connect_to(server: SmbServer, folder: str, below: str) -> Transport:
    return connect(server.endpoint("data", f"{folder}/{below}".rstrip("/")))


class TestSmb(TransportContract, PlantedContract):
    @pytest.fixture
    def place(self, smb_server: SmbServer, smb_dir: str) -> Place:
        return Place(
            connect=partial(connect_to, smb_server, smb_dir),
            folder=smb_server.local("data", smb_dir),
            aliases=True,
            hides_kinds=True,
        )

    def test_every_rename_is_one_step(self, transport: Transport) -> None:
        told = transport.capabilities
        for fact in (told.create, told.publish, told.claim, told.replace):
            assert fact.guarantee is Guarantee.ATOMIC, fact.evidence
