"""What the SMB tests use: another client beside the transport, and the few steps that all of them take."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import smbclient

from testenv.servers import SmbServer
from transports.smb import SmbTransport


class Connect(Protocol):
    """Makes connections that are closed after the test. The arguments are those of `SmbServer.endpoint`."""

    def __call__(self, share: str = "data", path: str | None = None, **changes: Any) -> SmbTransport: ...


class Other:
    """Another SMB client, which opens files as the caller says: smbprotocol's own `smbclient`, with a session of its own."""

    def __init__(self, server: SmbServer, folder: str) -> None:
        self._root = rf"\\{server.host}\{server.data}\{folder}"
        self._login: dict[str, Any] = {
            "username": server.user,
            "password": server.password,
            "port": server.port,
            "connection_cache": {},
        }

    @contextmanager
    def holding(self, name: str, mode: str, share: str) -> Iterator[Any]:
        """A file, open in a mode of Python and shared with others for "r", "w" and "d"."""
        path = rf"{self._root}\{name}"
        with smbclient.open_file(path, mode=mode, share_access=share, buffering=0, **self._login) as file:
            yield file

    def rename(self, src: str, dst: str) -> None:
        """As people do it first."""
        smbclient.rename(rf"{self._root}\{src}", rf"{self._root}\{dst}", **self._login)

    def close(self) -> None:
        smbclient.reset_connection_cache(connection_cache=self._login["connection_cache"])


def fill(transport: SmbTransport, path: str, data: bytes = b"content") -> None:
    """Makes a whole file."""
    with transport.create(path) as sink:
        sink.write(data)
        sink.commit()


def content(transport: SmbTransport, path: str) -> bytes:
    """A whole file."""
    with transport.open_read(path) as source:
        return b"".join(source)


def names(transport: SmbTransport, folder: str = "", pattern: str = "*") -> list[str]:
    """The names of a folder, sorted."""
    return sorted(entry.name for entry in transport.scan(folder, pattern))
