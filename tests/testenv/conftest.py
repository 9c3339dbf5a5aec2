"""Both servers in each way that they can run here, apart from those that the other tests use."""

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from testenv import choice
from testenv.control import KeeperProcess
from testenv.servers import SftpServer, SmbServer, sftp_from, smb_from
from testenv.spec import Kind


@functools.cache
def _kinds() -> list[Kind]:
    return choice.possible_kinds() or ["process"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeats what asks for a `kind` for each that is possible; where none is, for the one that `make test` would name."""
    if "kind" in metafunc.fixturenames:
        # A group goes to one xdist worker, so that each kind is started once.
        kinds = [pytest.param(kind, marks=pytest.mark.xdist_group(f"{metafunc.module.__name__}-{kind}")) for kind in _kinds()]
        metafunc.parametrize("kind", kinds, scope="module")


@pytest.fixture(scope="session")
def some_kind() -> Kind:
    """One kind that is possible, where it does not matter which."""
    return _kinds()[0]


@dataclass(frozen=True)
class Servers:
    """An SFTP and an SMB server of one kind, and who keeps them."""

    keeper: KeeperProcess
    sftp: SftpServer
    smb: SmbServer


@pytest.fixture(scope="module")
def servers(kind: str) -> Iterator[Servers]:
    """Both servers, as containers or as processes."""
    keeper = KeeperProcess({**os.environ, choice.VARIABLE: kind})
    try:
        sftp, smb = keeper.start("sftp"), keeper.start("smb")
        yield Servers(keeper, sftp_from(sftp, keeper.control), smb_from(smb, keeper.control))
    finally:
        keeper.close()
