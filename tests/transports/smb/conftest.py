"""What the SMB tests share: connections to a folder of their own, another client beside them, and a look at what is sent."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from smbprotocol.connection import Connection

from testenv.servers import SmbServer
from tests.transports.smb.beside import Connect, Other
from transports.smb import SmbTransport, connect_smb


@pytest.fixture
def connect(smb_server: SmbServer, smb_dir: str) -> Iterator[Connect]:
    made: list[SmbTransport] = []

    def make(share: str = "data", path: str | None = None, **changes: Any) -> SmbTransport:
        made.append(connect_smb(smb_server.endpoint(share, smb_dir if path is None else path, **changes)))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


@pytest.fixture
def drop(connect: Connect) -> SmbTransport:
    """A connection to the test's own folder."""
    return connect()


@pytest.fixture
def folder(smb_server: SmbServer, smb_dir: str) -> Path:
    """The test's own folder, as it is on the server's disk."""
    return cast(Path, smb_server.local("data", smb_dir))


@pytest.fixture
def other(smb_server: SmbServer, smb_dir: str) -> Iterator[Other]:
    client = Other(smb_server, smb_dir)
    yield client
    client.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Every batch of messages that is sent from now on; one batch is one round trip."""
    batches: list[list[Any]] = []
    real: Callable[..., Any] = Connection._send

    def send(self: Any, messages: list[Any], **options: Any) -> Any:
        batches.append(list(messages))
        return real(self, messages, **options)

    monkeypatch.setattr(Connection, "_send", send)
    return batches


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Every connection's receiving thread ends with it, however the connection ended."""
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("msg_worker")]
    assert not left
