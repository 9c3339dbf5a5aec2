"""Fixtures of the tests of local folders: one folder, and a transport of each kind over it."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transports.local.helpers import WAYS, raising
from transports.local import publish
from transports.local.transport import LocalTransport


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def transport(folder: Path) -> Iterator[LocalTransport]:
    with LocalTransport(str(folder)) as transport:
        yield transport


@pytest.fixture(params=WAYS)
def by_each_way(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> LocalTransport:
    """Connections that publish in each of the three ways."""
    for name in list(WAYS)[: list(WAYS).index(request.param)]:
        monkeypatch.setattr(publish, WAYS[name].__name__, raising(errno.EOPNOTSUPP))
    return LocalTransport(str(folder))
