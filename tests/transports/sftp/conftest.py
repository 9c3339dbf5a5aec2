"""Connections of the tests, closed after them: over a pipe, with a meddler between, and over SSH by either engine."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from testenv.servers import BareSftp, SftpServer
from tests.transports.sftp.helpers import Connect, M, Meddled
from tests.transports.sftp.sshd import ScratchSshd
from transports.endpoint import Timeouts
from transports.sftp import SftpTransport, connect_sftp
from transports.sftp.streams import PipeStream


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """What is entered here is closed after the test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def bare(bare_sftp: BareSftp, tmp_path: Path, opened: ExitStack) -> Callable[..., SftpTransport]:
    """Opens a new folder `drop` by a sftp-server without SSH; `options` are those of the server."""
    folder = tmp_path / "drop"
    folder.mkdir()

    def connect(*options: str, timeouts: Timeouts | None = None) -> SftpTransport:
        stream = PipeStream([*bare_sftp.command, *options])
        return opened.enter_context(SftpTransport.over_stream(stream, str(folder), timeouts=timeouts))

    return connect


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    """The folder that `bare` and `meddled` open, as this machine sees it."""
    return tmp_path / "drop"


@pytest.fixture
def meddled(bare_sftp: BareSftp, drop: Path, opened: ExitStack) -> Meddled:
    drop.mkdir(exist_ok=True)

    def connect(kind: type[M], *options: str, server: str = "") -> tuple[SftpTransport, M]:
        stream = kind([*bare_sftp.command, *options])
        return opened.enter_context(SftpTransport.over_stream(stream, str(drop), server=server)), stream

    return connect


@pytest.fixture
def connect(sftp_server: SftpServer, opened: ExitStack) -> Connect:
    """Opens a folder of the real server."""

    def connect_by(engine: str, path: str, **changes: Any) -> SftpTransport:
        login = {"password": None, "key_files": (sftp_server.key_file,)} if engine == "openssh" else {}
        endpoint = sftp_server.endpoint(path, **{"engine": engine, **login, **changes})
        return opened.enter_context(connect_sftp(endpoint))

    return connect_by


@pytest.fixture
def sshd(tmp_path: Path, opened: ExitStack) -> Callable[..., ScratchSshd]:
    """Starts an sshd of the test's own, with further lines for its configuration."""

    def start(*options: str, **settings: Any) -> ScratchSshd:
        folder = tmp_path / "sshd"
        folder.mkdir()
        return opened.enter_context(ScratchSshd(folder, *options, **settings))

    return start
