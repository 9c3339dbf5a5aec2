"""Local facts: interrupted publications, lost answers, errors of every kind, hints of changes, and nothing left open."""

import errno
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from transports.base import Entry, Guarantee, Kind, Transport
from transports.contract.place import content, fill, names
from transports.errors import (
    AlreadyExists,
    Busy,
    ChangedWhileReading,
    CrossVolume,
    Denied,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    ServerFailure,
    TransportError,
    Unreachable,
    UnsafePath,
    Unsupported,
)
from transports.local import publish, watch
from transports.local import transport as local_transport
from transports.local.errors import error_for
from transports.local.files import LocalSink
from transports.local.publish import link_and_unlink, rename_noreplace, reserve_and_rename, tried
from transports.local.transport import LocalTransport
from transports.local.volume import Volume

WAYS = {"renameat2": rename_noreplace, "link": link_and_unlink, "reservation": reserve_and_rename}


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
        monkeypatch.setattr(publish, WAYS[name].__name__, _raising(errno.EOPNOTSUPP))
    return LocalTransport(str(folder))


def _raising(number: int) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return refuse


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


class TestPublish:
    def test_the_ways_are_what_they_are_called(self, by_each_way: LocalTransport) -> None:
        fill(by_each_way, "B_x", b"data")
        by_each_way.publish("B_x", "x")
        assert names(by_each_way) == ["x"]
        assert content(by_each_way, "x") == b"data"

    def test_one_that_was_cut_between_link_and_unlink_is_finished(self, by_each_way: LocalTransport, folder: Path) -> None:
        fill(by_each_way, "B_x", b"data")
        os.link(folder / "B_x", folder / "x")
        by_each_way.publish("B_x", "x")
        assert names(by_each_way) == ["x"]
        assert content(by_each_way, "x") == b"data"

    def test_two_files_of_one_content_are_still_two(self, by_each_way: LocalTransport) -> None:
        fill(by_each_way, "B_x", b"data")
        fill(by_each_way, "x", b"data")
        with pytest.raises(AlreadyExists):
            by_each_way.publish("B_x", "x")
        assert names(by_each_way) == ["B_x", "x"]

    def test_a_file_with_a_link_elsewhere_keeps_its_own_name(self, by_each_way: LocalTransport, folder: Path) -> None:
        fill(by_each_way, "x", b"data")
        os.link(folder / "x", folder / "kept")
        with pytest.raises(AlreadyExists):
            by_each_way.publish("x", "x")
        by_each_way.replace("x", "x")
        assert names(by_each_way) == ["kept", "x"]

    def test_a_refused_publication_leaves_no_reservation(self, by_each_way: LocalTransport) -> None:
        with pytest.raises(NotFound):
            by_each_way.publish("nothing", "x")
        assert names(by_each_way) == []

    @pytest.mark.parametrize(("number", "kind"), [(errno.EBUSY, Busy), (errno.EXDEV, CrossVolume), (errno.EIO, OutcomeUnknown)])
    def test_a_reservation_is_given_back_where_the_rename_fails(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[TransportError]
    ) -> None:
        for way in ("rename_noreplace", "link_and_unlink"):
            monkeypatch.setattr(publish, way, _raising(errno.EOPNOTSUPP))
        transport = LocalTransport(str(folder))
        fill(transport, "B_x", b"data")
        monkeypatch.setattr(os, "rename", _raising(number))
        with pytest.raises(kind):
            transport.publish("B_x", "x")
        assert names(transport) == ["B_x"]

    def test_a_c_library_without_renameat2_is_one_way_less(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(publish, "_LIBC", object())
        with LocalTransport(str(folder)) as transport:
            assert transport.capabilities.publish.evidence.startswith("link")
            assert transport.capabilities.publish.guarantee is Guarantee.ATOMIC

    def test_replace_between_two_names_of_one_file_leaves_one(self, transport: LocalTransport, folder: Path) -> None:
        # rename(2) alone would do nothing, and succeed.
        fill(transport, "new", b"data")
        os.link(folder / "new", folder / "old")
        transport.replace("new", "old")
        assert names(transport) == ["old"]

    @pytest.mark.parametrize("answer", [errno.EEXIST, errno.EIO, errno.ENOENT])
    def test_a_link_that_was_made_and_reported_as_refused(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, answer: int
    ) -> None:
        monkeypatch.setattr(publish, "rename_noreplace", _raising(errno.EINVAL))
        transport = LocalTransport(str(folder))
        fill(transport, "B_x", b"data")
        link = os.link

        def lost_reply(src: bytes, dst: bytes, **options: Any) -> None:
            """NFS: the first answer is lost, and the repeated request is refused."""
            link(src, dst, **options)
            raise OSError(answer, os.strerror(answer))

        monkeypatch.setattr(os, "link", lost_reply)
        transport.publish("B_x", "x")
        assert names(transport) == ["x"]

    def test_a_source_that_cannot_be_removed_after_the_link_is_told(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publish, "rename_noreplace", _raising(errno.EINVAL))
        transport = LocalTransport(str(folder))
        fill(transport, "B_x", b"data")
        monkeypatch.setattr(os, "unlink", _raising(errno.EACCES))
        with pytest.raises(OutcomeUnknown, match="the target is made"):
            transport.publish("B_x", "x")
        assert names(transport) == ["B_x", "x"]

    def test_a_folder_that_cannot_be_flushed_leaves_it_unknown(
        self, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(transport, "B_x")
        monkeypatch.setattr(os, "fsync", _raising(errno.EIO))
        with pytest.raises(OutcomeUnknown, match="not flushed"):
            transport.publish("B_x", "x")
        assert names(transport) == ["x"]


class TestTrial:
    def test_the_facts_of_a_disk(self, transport: LocalTransport, folder: Path) -> None:
        told = transport.capabilities
        assert told.publish.evidence.startswith("renameat2")
        assert told.longest_name == os.pathconf(folder, "PC_NAME_MAX")
        assert os.uname().release in told.server
        assert list(folder.iterdir()) == []

    def test_what_is_behind_a_mount_is_only_checked(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            for kind in ("cifs", "smb3", "fuse.sshfs", "9p"):
                ways = tried(descriptor, Volume(1, 1, kind))
                for fact in (ways.create, ways.publish, ways.claim, ways.replace):
                    assert fact.guarantee is Guarantee.CHECKED
                    assert kind in fact.evidence
            assert tried(descriptor, Volume(1, 1, "tmpfs")).durable.guarantee is Guarantee.NONE
        finally:
            os.close(descriptor)

    @pytest.mark.parametrize(
        ("kind", "tells_changes", "behind_a_mount"),
        [
            ("ext4", True, False),
            ("xfs", True, False),
            ("overlay", True, False),
            ("nfs", False, False),
            ("nfs4", False, False),
            ("cifs", False, True),
            ("smb3", False, True),
            ("fuse.sshfs", False, True),
            ("unknown", True, False),
        ],
    )
    def test_what_a_kind_of_file_system_is_known_for(self, kind: str, tells_changes: bool, behind_a_mount: bool) -> None:
        volume = Volume(1, 1, kind)
        assert (volume.tells_changes, volume.behind_a_mount) == (tells_changes, behind_a_mount)

    def test_without_proc_the_device_number_has_to_do(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("builtins.open", _raising(errno.ENOENT))
        with LocalTransport(str(folder)) as transport:
            assert transport.capabilities.server.startswith("unknown on Linux")
            assert transport.capabilities.claim.guarantee is Guarantee.ATOMIC
            assert transport.same_volume("", "") is True

    def test_a_folder_without_a_flush_of_its_own_is_said(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "fsync", _raising(errno.EINVAL))
        with LocalTransport(str(folder)) as transport:
            assert transport.capabilities.durable.guarantee is Guarantee.CHECKED
            fill_without_flush(transport, monkeypatch)
            transport.publish("B_x", "x")

    def test_a_trial_that_fails_oddly_is_an_error(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(publish, "rename_noreplace", _raising(errno.EIO))
        with pytest.raises(ServerFailure):
            LocalTransport(str(folder))
        assert list(folder.iterdir()) == []

    def test_a_rename_that_replaces_all_the_same_is_found_out(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def replacing(src_folder: int, src: bytes, dst_folder: int, dst: bytes) -> None:
            os.rename(src, dst, src_dir_fd=src_folder, dst_dir_fd=dst_folder)

        monkeypatch.setattr(publish, "rename_noreplace", replacing)
        with LocalTransport(str(folder)) as transport:
            assert transport.capabilities.publish.guarantee is Guarantee.NONE


def fill_without_flush(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        fill(transport, "B_x")


class TestErrors:
    @pytest.mark.parametrize(
        ("number", "kind"),
        [
            (errno.ENOENT, NotFound),
            (errno.ESTALE, NotFound),
            (errno.ENOTDIR, NotFound),
            (errno.EEXIST, AlreadyExists),
            (errno.EACCES, Denied),
            (errno.EPERM, Denied),
            (errno.EROFS, Denied),
            (errno.EBUSY, Busy),
            (errno.ETXTBSY, Busy),
            (errno.ENOTEMPTY, Busy),
            (errno.ENOSPC, NoSpace),
            (errno.EDQUOT, NoSpace),
            (errno.EFBIG, NoSpace),
            (errno.EXDEV, CrossVolume),
            (errno.ELOOP, UnsafePath),
            (errno.ENAMETOOLONG, Unsupported),
            (errno.ENOSYS, Unsupported),
            (errno.ETIMEDOUT, Unreachable),
            (errno.ENOTCONN, Unreachable),
            (errno.EIO, ServerFailure),
            (errno.EMFILE, ServerFailure),
        ],
    )
    def test_an_errno_has_its_class(self, number: int, kind: type[TransportError]) -> None:
        failure = error_for("stat", "x", OSError(number, os.strerror(number)))
        assert type(failure) is kind
        assert os.strerror(number) in str(failure)

    @pytest.mark.parametrize("number", [errno.EIO, errno.ETIMEDOUT, errno.ENOTCONN, errno.EINTR])
    def test_a_server_lost_inside_a_change_leaves_it_unknown(
        self, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        fill(transport, "x")
        monkeypatch.setattr(os, "rename", _raising(number))
        with pytest.raises(OutcomeUnknown) as caught:
            transport.claim("x", "C_x")
        assert isinstance(caught.value.__cause__, OSError), "the system's own error is kept"

    def test_sshfs_is_told_its_mount_option(self) -> None:
        refused = OSError(errno.EPERM, "Operation not permitted")
        failure = local_transport._rename_error("replace", "new", "old", refused, "fuse.sshfs on Linux")
        assert isinstance(failure, Denied)
        assert "-o workaround=rename" in str(failure)


class TestFiles:
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
    def test_a_disk_that_is_full_only_at_the_flush_is_full(
        self, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        sink = transport.create("B_x")
        sink.write(b"data")
        monkeypatch.setattr(os, "fsync", _raising(number))
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
            monkeypatch.setattr(os, "read", _raising(errno.ESTALE))
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
