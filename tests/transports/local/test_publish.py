"""Publishing in a local folder: interrupted, lost, and found out by a trial at connect."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tests.transports.local.helpers import raising
from transports.base import Guarantee, Transport
from transports.contract.place import content, fill, names
from transports.errors import (
    AlreadyExists,
    Busy,
    CrossVolume,
    NotFound,
    OutcomeUnknown,
    ServerFailure,
    TransportError,
)
from transports.local import publish
from transports.local.publish import tried
from transports.local.transport import LocalTransport
from transports.local.volume import Volume


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
            monkeypatch.setattr(publish, way, raising(errno.EOPNOTSUPP))
        transport = LocalTransport(str(folder))
        fill(transport, "B_x", b"data")
        monkeypatch.setattr(os, "rename", raising(number))
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
        monkeypatch.setattr(publish, "rename_noreplace", raising(errno.EINVAL))
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
        monkeypatch.setattr(publish, "rename_noreplace", raising(errno.EINVAL))
        transport = LocalTransport(str(folder))
        fill(transport, "B_x", b"data")
        monkeypatch.setattr(os, "unlink", raising(errno.EACCES))
        with pytest.raises(OutcomeUnknown, match="the target is made"):
            transport.publish("B_x", "x")
        assert names(transport) == ["B_x", "x"]

    def test_a_folder_that_cannot_be_flushed_leaves_it_unknown(
        self, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(transport, "B_x")
        monkeypatch.setattr(os, "fsync", raising(errno.EIO))
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
        monkeypatch.setattr("builtins.open", raising(errno.ENOENT))
        with LocalTransport(str(folder)) as transport:
            assert transport.capabilities.server.startswith("unknown on Linux")
            assert transport.capabilities.claim.guarantee is Guarantee.ATOMIC
            assert transport.same_volume("", "") is True

    def test_a_folder_without_a_flush_of_its_own_is_said(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "fsync", raising(errno.EINVAL))
        with LocalTransport(str(folder)) as transport:
            assert transport.capabilities.durable.guarantee is Guarantee.CHECKED
            fill_without_flush(transport, monkeypatch)
            transport.publish("B_x", "x")

    def test_a_trial_that_fails_oddly_is_an_error(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(publish, "rename_noreplace", raising(errno.EIO))
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
