"""Where a measurement runs: a fresh folder on a local disk, on a real OpenSSH server or on a real Samba, all on 127.0.0.1."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testenv.control import KeeperProcess
from testenv.postgres import Postgres
from testenv.servers import sftp_from, smb_from
from testenv.spec import uid
from transports.endpoint import Endpoint
from transports.urls import parse_url

TRANSPORTS = ("local", "sftp", "smb")
LEDGERS = ("sqlite", "journal", "postgresql")
_FOLDER = "benchmark"


@dataclass(frozen=True, slots=True)
class Address:
    """How a process is told of a folder: a secret does not go to another process but as a part of its URL."""

    url: str
    host_key: str | None = None

    def endpoint(self) -> Endpoint:
        """The folder, with what it takes to log in there."""
        return Endpoint(parse_url(self.url), host_key=self.host_key)


@dataclass(frozen=True, slots=True)
class Place:
    """An empty folder, by its address and as this machine sees it."""

    address: Address
    seen: Path
    server: str  # which server it is, for the report


def say(text: str) -> None:
    """One line of the report."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextmanager
def place(transport: str) -> Iterator[Place]:
    """A folder on one transport; its server is started for it, and removed with it. Raises ServerNotAvailable."""
    if transport == "local":
        with tempfile.TemporaryDirectory(prefix="dropgate-benchmark-") as folder:
            yield Place(Address(folder), Path(folder), "local disk")
        return
    keeper = KeeperProcess()
    try:
        if transport == "sftp":
            sftp = sftp_from(keeper.start("sftp"), keeper.control)
            address, seen = Address(sftp.url(_FOLDER), sftp.host_key), sftp.local(_FOLDER)
            version = f"{sftp.version}, {sftp.kind}"
        else:
            smb = smb_from(keeper.start("smb"), keeper.control)
            address, seen = Address(smb.url("data", _FOLDER)), smb.local("data", _FOLDER)
            version = f"{smb.version}, {smb.kind}"
        assert seen is not None  # noqa: S101 - the folder is in volume 1
        seen.mkdir()
        if os.getuid() == 0:
            os.chown(seen, uid(), uid())
        yield Place(address, seen, version)
    finally:
        keeper.close()


@contextmanager
def ledger_url(kind: str) -> Iterator[str]:
    """An empty ledger that processes can share."""
    if kind == "postgresql":
        server = Postgres()
        try:
            yield server.empty_database()
        finally:
            server.close()
        return
    with tempfile.TemporaryDirectory(prefix="dropgate-ledger-") as folder:
        yield f"sqlite://{folder}/ledger.db" if kind == "sqlite" else f"journal://{folder}/ledger"
