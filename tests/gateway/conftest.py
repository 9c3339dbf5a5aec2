"""Fixtures of the gateway's tests: folders for drops, and file systems that are small, or are another volume."""

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testenv.servers import SftpServer, SmbServer
from transports.endpoint import Endpoint
from transports.urls import parse_url

SMALL = 256 * 1024  # bytes that fit on the small volume


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A local drop's folder."""
    path = tmp_path / "drop"
    path.mkdir()
    return path


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder for files to be sent."""
    path = tmp_path / "sources"
    path.mkdir()
    return path


@contextmanager
def _mounted(path: Path, size: int) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True, timeout=20)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True, timeout=20)


@contextmanager
def _files_end_at(size: int) -> Iterator[None]:
    """What anybody may have without a mount: the kernel refuses a file that grows beyond a limit, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.fixture
def small_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on a volume that is full after SMALL bytes: a tmpfs where we may mount one, else by the process' own limit."""
    path = tmp_path / "small"
    path.mkdir()
    with _mounted(path, SMALL) if os.getuid() == 0 else _files_end_at(SMALL):
        yield path


@pytest.fixture
def other_volume() -> Iterator[Path]:
    """A folder on another volume than the test's own."""
    path = Path("/dev/shm") / f"dropgate-{os.getpid()}"
    path.mkdir()
    try:
        yield path
    finally:
        subprocess.run(["rm", "-r", str(path)], check=True, timeout=20)


@pytest.fixture(params=["local", "sftp", "smb"])
def place(request: pytest.FixtureRequest) -> tuple[Endpoint, Path]:
    """An empty folder on each kind of endpoint, and the same one as this machine sees it."""
    if request.param == "local":
        folder: Path = request.getfixturevalue("folder")
        return Endpoint(parse_url(str(folder))), folder
    server: SftpServer | SmbServer = request.getfixturevalue(f"{request.param}_server")
    path: str = request.getfixturevalue(f"{request.param}_dir")
    if isinstance(server, SftpServer):
        endpoint, seen = server.endpoint(path), server.local(path)
    else:
        endpoint, seen = server.endpoint("data", path), server.local("data", path)
    assert seen is not None
    return endpoint, seen


@pytest.fixture
def no_settings_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file and no variable of whoever runs the tests is read."""
    for name in ("DROPGATE_CONFIG", "DROPGATE_SECRETS_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
