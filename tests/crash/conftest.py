"""Fixtures of the crash tests: an empty drop on each kind of endpoint, and processes that end with their test."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from testenv.servers import SftpServer, SmbServer
from tests.crash.place import Place
from tests.crash.processes import Crew, Nursery


def make_place(request: pytest.FixtureRequest, kind: str) -> Place:
    """An empty drop on one kind of endpoint."""
    scratch: Path = request.getfixturevalue("tmp_path") / "scratch"
    scratch.mkdir()
    if kind == "local":
        folder = scratch.parent / "drop"
        folder.mkdir()
        return Place(kind, str(folder), folder, scratch)
    server: SftpServer | SmbServer = request.getfixturevalue(f"{kind}_server")
    path: str = request.getfixturevalue(f"{kind}_dir")
    if isinstance(server, SftpServer):
        seen, url, key = server.local(path), server.url(path), server.host_key
    else:
        seen, url, key = server.local("data", path), server.url("data", path), None
    assert seen is not None
    return Place(kind, url, seen, scratch, server, key)


@pytest.fixture(params=["local", "sftp", "smb"])
def place(request: pytest.FixtureRequest) -> Place:
    """An empty drop on each kind of endpoint."""
    return make_place(request, request.param)


@pytest.fixture(params=["local-prefix", "local-folders", "sftp-prefix", "smb-folders"])
def laid_out(request: pytest.FixtureRequest) -> Place:
    """An empty drop on each kind of endpoint, in one of the two layouts."""
    kind, _, layout = request.param.partition("-")
    return make_place(request, kind).with_layout(layout)


@pytest.fixture(params=["sftp", "smb"])
def remote(request: pytest.FixtureRequest) -> Place:
    """An empty drop on each kind of server."""
    return make_place(request, request.param)


@pytest.fixture
def local(request: pytest.FixtureRequest) -> Place:
    """An empty drop in a folder of this machine."""
    return make_place(request, "local")


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where processes come from."""
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def hands(nursery: Nursery, harm: Counter[str]) -> Iterator[Crew]:
    """Processes that end with the test."""
    made = Crew(nursery, harm)
    yield made
    made.end()
