"""The files of a local folder: read, written and listed, whatever goes wrong."""

import errno
import gc
import os
from pathlib import Path
from typing import NoReturn

import pytest

from tests.transports.local.helpers import raising
from transports.base import Entry, Kind
from transports.contract.place import fill, names
from transports.errors import (
    AlreadyExists,
    ChangedWhileReading,
    Denied,
    NoSpace,
    NotFound,
    ServerFailure,
    Unreachable,
)
from transports.local import transport as local_transport
from transports.local.files import LocalSink
from transports.local.transport import LocalTransport


class TestRoot:
    def test_a_missing_root_says_where_and_what_to_do(self, folder: Path) -> None:
        with pytest.raises(NotFound) as caught:
            LocalTransport(str(folder / "gone"))
        assert f"'{folder}/gone' is not there; make the folder" in str(caught.value)

    def test_a_relative_root_is_told_absolute(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)
        with pytest.raises(NotFound, match=f"'{folder}/gone'"):
            LocalTransport("gone")

    def test_a_root_that_goes_away_does_not_look_empty(self, folder: Path) -> None:
        root = folder / "drop"
        root.mkdir()
        with LocalTransport(str(root)) as transport:
            root.rmdir()
            for call in (lambda: names(transport), lambda: transport.stat("x"), lambda: transport.claim("x", "y")):
                with pytest.raises(Unreachable, match="drop"):
                    call()
            root.mkdir()
            assert names(transport) == []

    def test_links_on_the_way_to_the_root_are_the_operators_own(self, folder: Path) -> None:
        (folder / "real").mkdir()
        (folder / "link").symlink_to("real")
        with LocalTransport(str(folder / "link")) as transport:
            fill(transport, "x", b"data")
        assert (folder / "real" / "x").read_bytes() == b"data"


class TestFiles:
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
    def test_a_disk_that_is_full_only_at_the_flush_is_full(
        self, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        sink = transport.create("B_x")
        sink.write(b"data")
        monkeypatch.setattr(os, "fsync", raising(number))
        with pytest.raises(NoSpace):
            sink.commit()
        sink.abort()
        assert names(transport) == []

    def test_an_error_that_only_close_reports_is_reported(
        self, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = transport.create("B_x")
        sink.write(b"data")
        assert isinstance(sink, LocalSink)
        file, close = sink._file, os.close

        def over_quota_at_close(descriptor: int) -> None:
            """NFS: what was written is sent at the close, and refused there."""
            close(descriptor)
            if descriptor == file:
                raise OSError(errno.EDQUOT, "Disk quota exceeded")

        monkeypatch.setattr(os, "close", over_quota_at_close)
        with pytest.raises(NoSpace):
            sink.commit()
        monkeypatch.undo()
        sink.abort()
        assert names(transport) == []

    def test_a_file_that_lost_bytes_is_not_committed(self, transport: LocalTransport, folder: Path) -> None:
        sink = transport.create("B_x")
        sink.write(b"12345")
        os.truncate(folder / "B_x", 3)
        with pytest.raises(ServerFailure, match="5 bytes were written and 3 are there"):
            sink.commit()
        sink.abort()
        assert names(transport) == []

    def test_abort_removes_only_its_own_file(self, transport: LocalTransport, folder: Path) -> None:
        sink = transport.create("x")
        (folder / "x").rename(folder / "moved")
        (folder / "x").write_bytes(b"another's")
        sink.abort()
        assert names(transport) == ["moved", "x"]

    def test_a_file_gone_from_an_nfs_server_changed(self, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch) -> None:
        fill(transport, "x", b"data")
        with transport.open_read("x") as source:
            monkeypatch.setattr(os, "read", raising(errno.ESTALE))
            with pytest.raises(ChangedWhileReading):
                source.read()
            monkeypatch.undo()

    def test_a_name_that_went_stale_under_a_scan_is_skipped(self, transport: LocalTransport) -> None:
        class StaleEntry:
            """NFS: removed by another host since the folder was read."""

            name = "x"

            def stat(self, *, follow_symlinks: bool) -> NoReturn:
                raise OSError(errno.ESTALE, "Stale file handle")

        assert local_transport._listed(StaleEntry(), "*") is None  # type: ignore[arg-type]  # a DirEntry cannot be made

    def test_a_name_that_cannot_be_looked_at_is_counted(self) -> None:
        class UnreadableEntry:
            """A folder that may be listed and not entered."""

            name = "x"

            def stat(self, *, follow_symlinks: bool) -> NoReturn:
                raise PermissionError(errno.EACCES, "Permission denied")

        entry = local_transport._listed(UnreadableEntry(), "*")  # type: ignore[arg-type]  # a DirEntry cannot be made
        assert entry == Entry("x", Kind.OTHER, None, None)

    def test_nothing_stays_open(self, transport: LocalTransport, folder: Path) -> None:
        def use() -> None:
            fill(transport, "x", b"data")
            with pytest.raises(AlreadyExists):
                transport.create("x")
            with pytest.raises(NotFound):
                transport.open_read("nowhere/x")
            with pytest.raises(NotFound):
                transport.claim("x", "nowhere/x")
            with pytest.raises(Denied):
                transport.open_read("folder")
            transport.create("y").abort()
            listing = transport.scan()
            next(listing)
            del listing
            with transport.open_read("x") as source:
                source.read(1)
            transport.server_time()
            transport.delete("x")

        (folder / "folder").mkdir()
        use()
        gc.collect()
        before = os.listdir("/proc/self/fd")
        for _ in range(20):
            use()
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == len(before)
