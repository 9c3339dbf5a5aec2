"""Hints that a local folder has changed."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from transports.contract.place import fill
from transports.errors import (
    NotFound,
)
from transports.local import transport as local_transport
from transports.local import watch
from transports.local.transport import LocalTransport


class TestChanges:
    @pytest.fixture
    def waiting(self, folder: Path) -> Iterator[LocalTransport]:
        """A connection whose watch has begun."""
        with LocalTransport(str(folder)) as transport:
            transport.wait_for_change("", 0)
            yield transport

    def _wakes(self, waiting: LocalTransport, change: Callable[[], None]) -> bool:
        waiting.wait_for_change("", 0.01)  # whatever went before
        timer = threading.Timer(0.1, change)
        timer.start()
        started = time.monotonic()
        waiting.wait_for_change("", 20)
        timer.join()
        return time.monotonic() - started < 10

    def test_a_publication_wakes_in_each_way(self, by_each_way: LocalTransport, waiting: LocalTransport) -> None:
        fill(by_each_way, "B_x")
        assert self._wakes(waiting, lambda: by_each_way.publish("B_x", "x"))

    def test_a_publication_by_link_alone_wakes(self, waiting: LocalTransport, folder: Path) -> None:
        # What an SFTP server does for a rename: no event of a move, only of a new name.
        (folder / "B_x").write_bytes(b"data")
        assert self._wakes(waiting, lambda: os.link(folder / "B_x", folder / "x"))

    def test_a_change_between_two_waits_is_not_missed(self, waiting: LocalTransport, folder: Path) -> None:
        (folder / "x").touch()
        started = time.monotonic()
        waiting.wait_for_change("", 20)
        assert time.monotonic() - started < 10

    def test_a_quiet_folder_lets_the_time_pass(self, waiting: LocalTransport) -> None:
        started = time.monotonic()
        waiting.wait_for_change("", 0.2)
        assert 0.15 < time.monotonic() - started < 10

    def test_a_watched_folder_may_be_made_anew(self, transport: LocalTransport, folder: Path) -> None:
        transport.make_dir("in")
        transport.wait_for_change("in", 0)
        transport.remove_dir("in")
        transport.wait_for_change("in", 20)
        with pytest.raises(NotFound):
            transport.wait_for_change("in", 0.1)
        transport.make_dir("in")
        transport.wait_for_change("in", 0)
        (folder / "in" / "x").touch()
        started = time.monotonic()
        transport.wait_for_change("in", 20)
        assert time.monotonic() - started < 10

    def test_without_inotify_the_time_passes(self, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch) -> None:
        class InstancesUsedUp:
            """fs.inotify.max_user_instances."""

            def __init__(self, folder: int) -> None:
                raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(local_transport, "Watch", InstancesUsedUp)
        started = time.monotonic()
        transport.wait_for_change("", 0.2)
        assert time.monotonic() - started >= 0.2

    def test_a_watch_of_nothing_is_refused(self, tmp_path: Path) -> None:
        file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDONLY)
        try:
            with pytest.raises(NotADirectoryError):
                watch.Watch(file)
        finally:
            os.close(file)
