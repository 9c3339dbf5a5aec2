"""What the tests of this folder share beside their fixtures."""

from typing import Any, Protocol, TypeVar

from tests.transports.sftp.meddler import Meddler
from transports.base import Source, Transport
from transports.sftp import SftpTransport

ENGINES = ("paramiko", "openssh")

M = TypeVar("M", bound=Meddler)


class Connect(Protocol):
    """Opens a folder of the real server by an engine; `changes` are fields of Endpoint or Location."""

    def __call__(self, engine: str, path: str, **changes: Any) -> SftpTransport: ...


class Meddled(Protocol):
    """Opens the folder `drop` with a meddler of the class between; `options` are those of sftp-server."""

    def __call__(self, kind: type[M], *options: str, server: str = "") -> tuple[SftpTransport, M]: ...


def put(transport: Transport, path: str, data: bytes) -> None:
    with transport.create(path) as sink:
        sink.write(data)
        sink.commit()


def got(source: Source) -> bytes:
    with source:
        return b"".join(source)


def names(transport: Transport, folder: str = "") -> list[str]:
    return sorted(entry.name for entry in transport.scan(folder))
