"""A disk that is filled while producers write: they end cleanly, and consumers do not notice."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.drop import Drop
from protocol.states import State
from testenv.servers import SftpServer
from tests.crash.checks import consume_here, history
from tests.crash.jobs import lines
from tests.crash.place import GROUP, Place
from tests.crash.processes import Crew
from tests.e2e.commands import DROPGATE, clean_environment
from transports.base import Kind, Transport
from transports.connect import connect

PIECE = 300 * 1024  # bytes; three fit


@pytest.fixture
def full(remote: Place) -> Iterator[Place]:
    """A drop on a volume of one MiB, which no other test's files are left on."""
    server = remote.server
    assert server is not None
    url = server.url(server.full) if isinstance(server, SftpServer) else server.url("full")
    place = remote.changed(url=url)
    with connect(place.endpoint) as transport:
        _clear(transport)
        yield place
        _clear(transport)


def _clear(transport: Transport) -> None:
    for entry in list(transport.scan()):
        if entry.kind is Kind.FILE:
            transport.delete(entry.name)


def send(place: Place, *files: Path) -> subprocess.CompletedProcess[str]:
    words = [place.url, *(["--host-key", place.host_key] if place.host_key else [])]
    return subprocess.run(
        [DROPGATE, "send", *words, "--group", GROUP, *map(str, files)],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.timeout(120)
def test_a_disk_that_is_full_takes_nothing_and_breaks_nothing(full: Place, hands: Crew) -> None:
    files = [full.scratch / f"{number}.bin" for number in range(5)]
    for number, path in enumerate(files):
        path.write_bytes(bytes([number]) * PIECE)
    ended = send(full, *files)
    hands.harm["filled disks"] += 1
    assert ended.returncode == 3, ended.stderr
    assert "full" in ended.stderr
    fitted = len(ended.stdout.splitlines())
    assert 1 <= fitted < 5
    shot = Drop(full.endpoint, full.rules).snapshot()
    assert [view.state for view in shot.items.values()] == [State.READY] * fitted, "an unfinished item was left"
    consume_here(full)
    assert len(lines(full.effects)) == fitted
    assert {event.entry.item.number for event in history(full)} == set(range(1, fitted + 1))
    with connect(full.endpoint) as transport:
        for entry in list(transport.scan(pattern="A_*.bin")):
            transport.delete(entry.name)
    assert send(full, files[4]).returncode == 0, "with room again everything works again"
