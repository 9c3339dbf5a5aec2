"""What the local backend says on real file systems: full, out of inodes, read-only, two of them, mounted meanwhile."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from tests.transports.isolated import make_read_only, mount_bind, mount_tmpfs, run_as_nobody, run_isolated, unmount
from transports.base import Guarantee, Transport
from transports.contract.place import content, fill, names
from transports.errors import Busy, CrossVolume, Denied, NoSpace, Unreachable
from transports.fsspec_bridge import FsspecTransport
from transports.local import publish
from transports.local.transport import LocalTransport


def full_disk(folder: Path) -> None:
    mount_tmpfs(folder, "size=512k")
    with LocalTransport(str(folder)) as transport:
        fill(transport, "x", b"before")
        sink = transport.create("B_y")
        sink.write(b"x" * 100_000)
        with pytest.raises(NoSpace) as caught:
            sink.write(b"x" * 4_000_000)
        assert caught.value.path == "B_y"
        assert transport.free_space() == 0
        transport.claim("x", "C_x")  # a consumer of a full disk goes on
        sink.abort()
        assert names(transport) == ["C_x"]
        assert (transport.free_space() or 0) > 400_000
        fill(transport, "z", b"x" * 100_000)


def test_a_full_disk_is_said_and_the_half_file_removed(tmp_path: Path) -> None:
    run_isolated(full_disk, tmp_path)


def no_inodes(folder: Path) -> None:
    mount_tmpfs(folder, "nr_inodes=20")
    (folder / "x").write_bytes(b"data")
    for number in range(os.statvfs(folder).f_ffree):
        (folder / f"fill_{number}").touch()
    with LocalTransport(str(folder)) as transport:
        told = transport.capabilities.publish
        assert told.guarantee is Guarantee.NONE
        assert "No space" in told.evidence
        with pytest.raises(NoSpace):
            transport.create("B_y")
        with pytest.raises(NoSpace):
            transport.make_dir("folder")
        transport.claim("x", "C_x")
        assert content(transport, "C_x") == b"data"


def test_a_disk_without_room_for_a_name_can_still_be_consumed_from(tmp_path: Path) -> None:
    run_isolated(no_inodes, tmp_path)


def read_only(folder: Path) -> None:
    mount_tmpfs(folder, "size=512k")
    (folder / "x").write_bytes(b"data")
    (folder / "folder").mkdir()
    make_read_only(folder)
    with LocalTransport(str(folder)) as transport:
        assert names(transport) == ["folder", "x"]
        assert content(transport, "x") == b"data"
        assert transport.capabilities.claim.guarantee is Guarantee.NONE
        for change in (
            lambda: transport.create("y"),
            lambda: transport.publish("x", "y"),
            lambda: transport.claim("x", "y"),
            lambda: transport.replace("x", "y"),
            lambda: transport.delete("x"),
            lambda: transport.make_dir("z"),
            lambda: transport.remove_dir("folder"),
            lambda: transport.server_time(),
        ):
            with pytest.raises(Denied, match="mounted read-only"):
                change()


def test_a_read_only_drop_can_be_looked_at_and_says_what_it_is(tmp_path: Path) -> None:
    run_isolated(read_only, tmp_path)


def two_volumes(folder: Path, bind: bool) -> None:
    for name in ("incoming", "processing", "origin"):
        (folder / name).mkdir()
    if bind:
        mount_bind(folder / "origin", folder / "processing")
    else:
        mount_tmpfs(folder / "processing", "size=512k")
    for transport in (LocalTransport(str(folder)), FsspecTransport(LocalFileSystem(), str(folder))):
        _refuses_to_cross(transport, device_tells=not bind or isinstance(transport, LocalTransport))


def _refuses_to_cross(transport: Transport, *, device_tells: bool) -> None:
    fill(transport, "incoming/x", b"source")
    fill(transport, "processing/y", b"target")
    if device_tells:
        assert transport.same_volume("incoming", "processing") is False
        assert transport.same_volume("", "incoming") is True
    for rename in (transport.publish, transport.claim, transport.replace):
        with pytest.raises(CrossVolume):
            rename("incoming/x", "processing/x")
    assert names(transport, "incoming") == ["x"]
    assert names(transport, "processing") == ["y"], "nothing was copied"
    with pytest.raises(CrossVolume):
        transport.replace("incoming/x", "processing/y")
    assert content(transport, "incoming/x") == b"source"
    assert content(transport, "processing/y") == b"target"
    transport.delete("incoming/x")
    transport.delete("processing/y")


def test_nothing_crosses_volumes_by_copying(tmp_path: Path) -> None:
    run_isolated(two_volumes, tmp_path, False)


def test_a_bind_mount_is_another_volume_though_its_device_is_the_same(tmp_path: Path) -> None:
    run_isolated(two_volumes, tmp_path, True)


def both_are_named(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    mount_tmpfs(folder / "out", "size=512k")
    with LocalTransport(str(folder)) as transport:
        fill(transport, "in/x")
        with pytest.raises(CrossVolume) as caught:
            transport.claim("in/x", "out/x")
        assert "'in/x' and 'out/x' are on different volumes" in str(caught.value)
        with pytest.raises(Busy):
            transport.remove_dir("out")


def test_the_message_names_both_sides(tmp_path: Path) -> None:
    run_isolated(both_are_named, tmp_path)


def remounted(folder: Path) -> None:
    (folder / "x").write_bytes(b"on the disk below")
    transport = LocalTransport(str(folder))
    mount_tmpfs(folder, "size=512k")
    for call in (lambda: names(transport), lambda: transport.claim("x", "C_x"), lambda: transport.stat("x")):
        with pytest.raises(Unreachable, match="another file system"):
            call()
    unmount(folder)
    assert names(transport) == ["x"], "and nothing kept the disk from being unmounted"


def test_a_disk_mounted_over_the_drop_is_noticed(tmp_path: Path) -> None:
    run_isolated(remounted, tmp_path)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder on the way to which every user may go; `tmp_path` is closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="dropgate-test-"))
    folder.chmod(0o777)
    yield folder
    for path in (folder, folder / "closed"):
        if path.exists():
            path.chmod(0o700)
    shutil.rmtree(folder)


def not_permitted(folder: Path) -> None:
    with LocalTransport(str(folder)) as transport:
        assert content(transport, "x") == b"data"
        assert transport.capabilities.create.guarantee is Guarantee.NONE
        for refused in (
            lambda: transport.create("y"),
            lambda: transport.claim("x", "y"),
            lambda: transport.delete("x"),
            lambda: transport.open_read("secret"),
            lambda: list(transport.scan("closed")),
            lambda: transport.create("closed/y"),
        ):
            with pytest.raises(Denied):
                refused()
        assert names(transport) == ["closed", "secret", "x"]


def test_what_is_not_permitted_is_denied(reachable: Path) -> None:
    (reachable / "x").write_bytes(b"data")
    (reachable / "closed").mkdir(mode=0)
    (reachable / "secret").write_bytes(b"not yours")
    (reachable / "secret").chmod(0)
    reachable.chmod(0o555)
    if os.getuid() == 0:
        run_as_nobody(not_permitted, reachable)
    else:
        not_permitted(reachable)


def no_such_call(*_: object) -> None:
    """As NFS says to renameat2."""
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


def protected_hard_link(*_: object, **__: object) -> None:
    """As the kernel says to link(2), where fs.protected_hardlinks is set and the file is a stranger's."""
    raise OSError(errno.EPERM, "Operation not permitted")


def link_of_a_stranger(folder: Path, pretended: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publish, "rename_noreplace", no_such_call)
        transport = LocalTransport(str(folder))
        if pretended:
            patch.setattr(os, "link", protected_hard_link)
        with pytest.raises(Denied):
            transport.publish("B_x", "x")
    assert names(transport) == ["B_x"], "what may not be linked is not renamed in a weaker way"


def test_a_protected_hard_link_is_denied(reachable: Path) -> None:
    (reachable / "B_x").write_bytes(b"of another")
    if os.getuid() == 0:
        assert Path("/proc/sys/fs/protected_hardlinks").read_text().strip() == "1"
        run_as_nobody(link_of_a_stranger, reachable, False)
    else:  # who is not root has no file of a stranger
        link_of_a_stranger(reachable, True)
