"""The pytest plug-in: real servers for tests, started on first use, and named at the end of the run.

Each test process has servers of its own (with xdist, each worker), so that a test may restart one or fill its disk.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from testenv.control import KeeperProcess, ServerNotAvailable
from testenv.proxy import Proxy
from testenv.servers import BareSftp, SftpServer, SmbServer, find_bare_sftp, sftp_from, smb_from
from testenv.spec import Name, uid

_USED = pytest.StashKey[list[str]]()
_WORKER_KEY = "dropgate_servers"  # in what an xdist worker tells its controller


def pytest_configure(config: pytest.Config) -> None:
    """Makes room for what is told at the end."""
    config.stash[_USED] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tells the controller of a worker which servers it used."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_WORKER_KEY] = session.config.stash[_USED]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Takes what a worker used."""
    del error
    # A worker that crashed tells nothing.
    node.config.stash[_USED].extend(getattr(node, "workeroutput", {}).get(_WORKER_KEY, []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which servers the tests ran against."""
    used = terminalreporter.config.stash[_USED]
    if used:
        terminalreporter.write_sep("=", "servers")
        for line in sorted(used):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def server_keeper() -> Iterator[KeeperProcess]:
    """The process that owns this test process' servers."""
    keeper = KeeperProcess()
    yield keeper
    keeper.close()


def _started(keeper: KeeperProcess, name: Name, config: pytest.Config) -> dict[str, Any]:
    try:
        facts = keeper.start(name)
    except ServerNotAvailable as error:
        config.stash[_USED].append(f"{name:<6} NOT AVAILABLE: {str(error).splitlines()[0]}")
        # A pytest failure, not an exception: the reason is what matters, not the way to here.
        pytest.fail(f"the {name} test server is not available: {error}", pytrace=False)
    config.stash[_USED].append(f"{name:<6} {facts['version']}, {facts['kind']} ({facts['why']}), 127.0.0.1:{facts['port']}")
    return facts


@pytest.fixture(scope="session")
def sftp_server(server_keeper: KeeperProcess, pytestconfig: pytest.Config) -> SftpServer:
    """A real OpenSSH server."""
    return sftp_from(_started(server_keeper, "sftp", pytestconfig), server_keeper.control)


@pytest.fixture(scope="session")
def smb_server(server_keeper: KeeperProcess, pytestconfig: pytest.Config) -> SmbServer:
    """A real Samba server."""
    return smb_from(_started(server_keeper, "smb", pytestconfig), server_keeper.control)


@pytest.fixture(scope="session")
def bare_sftp(pytestconfig: pytest.Config) -> BareSftp:
    """This machine's sftp-server, over a pipe."""
    try:
        server = find_bare_sftp()
    except FileNotFoundError as error:
        pytestconfig.stash[_USED].append(f"{'pipe':<6} NOT AVAILABLE: {error}")
        pytest.fail(str(error), pytrace=False)
    pytestconfig.stash[_USED].append(f"{'pipe':<6} {server.version}, {server.command[0]} without SSH")
    return server


@pytest.fixture
def proxy_factory() -> Iterator[Callable[[str, int], Proxy]]:
    """Makes TCP proxies in front of a server; those that the test leaves open are closed after it."""
    made: list[Proxy] = []

    def make(host: str, port: int) -> Proxy:
        made.append(Proxy(host, port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


def _fresh_folder(data: Path) -> Path:
    folder = data / f"t-{uuid.uuid4().hex[:12]}"
    folder.mkdir()
    if os.getuid() == 0:
        os.chown(folder, uid(), uid())
    return folder


@pytest.fixture
def sftp_dir(sftp_server: SftpServer) -> Iterator[str]:
    """A new empty folder in the SFTP server's `data`, removed after the test."""
    folder = _fresh_folder(cast(Path, sftp_server.local()))
    yield folder.name
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def smb_dir(smb_server: SmbServer) -> Iterator[str]:
    """A new empty folder in the SMB server's share `data`, removed after the test."""
    folder = _fresh_folder(cast(Path, smb_server.local()))
    yield folder.name
    shutil.rmtree(folder, ignore_errors=True)
