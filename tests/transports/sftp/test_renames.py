"""Renames over SFTP: which requests they are made of, and what a refusal or a cut between two of them leaves."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from testenv.servers import SftpServer
from tests.transports.sftp.helpers import ENGINES, Connect, Meddled, got, names, put
from tests.transports.sftp.meddler import CutBeforeRename, Meddler, NoExtensions, NoLinkAllowed
from transports.base import Guarantee, Kind
from transports.errors import AlreadyExists, CrossVolume, Denied, NotFound, OutcomeUnknown, Unsupported
from transports.sftp import SftpTransport
from transports.sftp.packets import Op


class CutAndNoLink(NoLinkAllowed, CutBeforeRename):
    """Both at once: the reservation is made, and the connection breaks before the rename over it."""


def test_a_claim_costs_one_request_won_or_lost(meddled: Meddled) -> None:
    """Case sftp-rename-two-names-visible: posix-rename is one step; RENAME shows two names for a moment."""
    transport, server = meddled(Meddler)
    put(transport, "x", b"data")
    server.asked.clear()
    server.extensions.clear()
    transport.claim("x", "C_me_x")
    with pytest.raises(NotFound):
        transport.claim("x", "C_other_x")
    assert server.asked == [Op.EXTENDED, Op.EXTENDED]
    assert server.extensions == ["posix-rename@openssh.com"] * 2


def test_publish_is_a_link_and_a_removal_and_replaces_nothing(meddled: Meddled) -> None:
    """Cases sftp-posix-rename-clobbers, sftp-rename-eperm-fallback: neither posix-rename nor RENAME is used."""
    transport, server = meddled(Meddler)
    put(transport, "B_x", b"data")
    server.asked.clear()
    transport.publish("B_x", "x")
    assert server.asked == [Op.EXTENDED, Op.REMOVE]
    assert server.extensions[-1] == "hardlink@openssh.com"
    put(transport, "B_x", b"other")
    with pytest.raises(AlreadyExists) as caught:
        transport.publish("B_x", "x")
    assert caught.value.path == "x"
    assert got(transport.open_read("x")) == b"data"
    assert Op.RENAME not in server.asked


def test_openssh_is_left_to_link_and_unlink_by_itself_what_this_account_owns(meddled: Meddled) -> None:
    """A client that slept between two requests of its own could remove a name that has come back meanwhile."""
    transport, server = meddled(Meddler, server="OpenSSH_9.2p1")
    for name in ("one", "two", "three"):
        put(transport, f"B_{name}", name.encode())
    transport.publish("B_one", "one")  # the first shows that this file system has hard links
    server.asked.clear()
    transport.publish("B_two", "two")
    assert server.asked == [Op.LSTAT, Op.RENAME]
    with pytest.raises(AlreadyExists):
        transport.publish("B_three", "two")
    assert got(transport.open_read("two")) == b"two"


def test_an_unknown_server_is_not_trusted_to_link_inside_a_rename(meddled: Meddled) -> None:
    transport, server = meddled(Meddler, server="SomeSFTP_1.0")
    for name in ("one", "two"):
        put(transport, f"B_{name}", name.encode())
        transport.publish(f"B_{name}", name)
    assert Op.RENAME not in server.asked


def test_a_taken_name_is_found_by_looking_and_not_by_the_answer(meddled: Meddled, drop: Path) -> None:
    """Case spring-replace-failure-code: OpenSSH says plain FAILURE."""
    transport, _ = meddled(Meddler)
    put(transport, "B_x", b"data")
    (drop / "file").touch()
    (drop / "folder").mkdir()
    (drop / "link").symlink_to("nowhere")
    for name, kind in (("file", "a file"), ("folder", "a folder"), ("link", "a link")):
        for call in (transport.create, transport.make_dir, lambda taken: transport.publish("B_x", taken)):
            with pytest.raises(AlreadyExists, match=kind) as caught:
                call(name)
            assert caught.value.path == name


def test_two_names_of_one_file_are_told_and_both_left(bare: Callable[..., SftpTransport], drop: Path) -> None:
    """Case hardlink-pair-stuck: a server died between the two steps; the caller compares, and removes the source name."""
    transport = bare()
    put(transport, "B_x", b"data")
    os.link(drop / "B_x", drop / "x")
    with pytest.raises(AlreadyExists) as caught:
        transport.publish("B_x", "x")
    assert caught.value.path == "x"
    assert names(transport) == ["B_x", "x"]
    transport.delete("B_x")
    assert got(transport.open_read("x")) == b"data"


def test_a_cut_between_link_and_removal_leaves_one_file_under_both_names(meddled: Meddled, drop: Path) -> None:
    transport, _ = meddled(CutBeforeRename)
    put(transport, "B_x", b"data")
    with pytest.raises(OutcomeUnknown, match="'x' is published") as caught:
        transport.publish("B_x", "x")
    assert caught.value.path == "B_x"
    assert os.path.samefile(drop / "B_x", drop / "x")


def test_a_source_that_another_removed_meanwhile_is_published_all_the_same(meddled: Meddled, drop: Path) -> None:
    """Whoever finds both names removes the source: to take the target back then would remove the last name of the file."""

    class Rival(Meddler):
        """Somebody who tidies up between the two steps."""

        def ask(self, op: Op, fields: object) -> None:
            if op is Op.REMOVE:
                (drop / "B_x").unlink()

    transport, _ = meddled(Rival)
    put(transport, "B_x", b"data")
    transport.publish("B_x", "x")
    assert got(transport.open_read("x")) == b"data"


def test_where_links_are_refused_the_target_is_reserved(meddled: Meddled) -> None:
    transport, server = meddled(NoLinkAllowed)
    put(transport, "B_x", b"data")
    server.asked.clear()
    transport.publish("B_x", "x")
    assert server.asked == [Op.EXTENDED, Op.SYMLINK, Op.EXTENDED]
    assert server.extensions[-1] == "posix-rename@openssh.com"
    assert names(transport) == ["x"]
    assert got(transport.open_read("x")) == b"data"
    put(transport, "B_x", b"other")
    with pytest.raises(AlreadyExists) as caught:
        transport.publish("B_x", "x")
    assert caught.value.path == "x"
    assert got(transport.open_read("x")) == b"data"
    with pytest.raises(NotFound) as missing:
        transport.publish("nothing", "y")
    assert missing.value.path == "nothing"
    assert names(transport) == ["B_x", "x"], "a reservation that came to nothing is removed"


def test_a_cut_reservation_is_no_file_that_anybody_could_take(meddled: Meddled, drop: Path) -> None:
    """A reservation that was an empty file would be read as a published one."""
    transport, _ = meddled(CutAndNoLink)
    put(transport, "B_x", b"data")
    with pytest.raises(OutcomeUnknown, match="only reserved"):
        transport.publish("B_x", "x")
    assert (drop / "B_x").read_bytes() == b"data"
    assert (drop / "x").is_symlink()
    with pytest.raises(OSError, match="symbolic links"):
        (drop / "x").open("wb")
    again, _ = meddled(Meddler)
    assert again.stat("x").kind is Kind.LINK
    with pytest.raises(AlreadyExists):
        again.publish("B_x", "x")
    again.delete("x")
    again.publish("B_x", "x")
    assert names(again) == ["x"]


def test_where_no_link_of_any_kind_can_be_made_the_reservation_is_an_empty_file(meddled: Meddled) -> None:
    transport, server = meddled(Meddler, "-P", "hardlink,symlink")
    assert transport.capabilities.publish.guarantee is Guarantee.CHECKED
    put(transport, "B_x", b"data")
    server.asked.clear()
    transport.publish("B_x", "x")
    assert Op.RENAME not in server.asked
    assert got(transport.open_read("x")) == b"data"
    put(transport, "B_x", b"other")
    with pytest.raises(AlreadyExists):
        transport.publish("B_x", "x")
    assert names(transport) == ["B_x", "x"]


def race(publishers: list[SftpTransport], items: int) -> list[int]:
    """Each publishes its own `B_<n>_<item>` to the one name; returns the number of winners of each item."""
    won = [0] * items
    lock, start = threading.Lock(), threading.Barrier(len(publishers))

    def run(number: int) -> None:
        for item in range(items):
            start.wait(30)
            try:
                publishers[number].publish(f"B_{number}_{item}", f"x_{item}")
            except AlreadyExists:
                continue
            with lock:
                won[item] += 1

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(publishers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return won


def test_exactly_one_publishes_also_what_another_account_owns(
    connect: Connect, sftp_server: SftpServer, opened: object
) -> None:
    """Case sftp-rename-eperm-fallback: RENAME had two winners for 90 of 400 such files."""
    folder = sftp_server.local(sftp_server.foreign)
    assert folder is not None
    where = folder / f"race-{os.urandom(4).hex()}"
    where.mkdir()
    where.chmod(0o777)
    items, rivals = 60, 4
    for number in range(rivals):
        for item in range(items):
            (where / f"B_{number}_{item}").write_bytes(b"%d" % number)
    path = f"{sftp_server.foreign}/{where.name}"
    stranger = {"user": sftp_server.foreign_user, "password": sftp_server.foreign_password}
    publishers = [connect("paramiko", path, **stranger) for _ in range(rivals)]
    assert race(publishers, items) == [1] * items
    left = names(publishers[0])
    assert sum(name.startswith("B_") for name in left) == items * (rivals - 1)
    assert all(publishers[0].stat(f"x_{item}").kind is Kind.FILE for item in range(items))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rename_to_another_volume_is_refused_and_never_a_copy(
    connect: Connect, sftp_server: SftpServer, sftp_dir: str, engine: str
) -> None:
    """Cases exdev-commit, sshfs-mv-deletes-source."""
    root = connect(engine, "/srv")
    here, there = sftp_server.path(sftp_dir).removeprefix("/srv/"), sftp_server.other.removeprefix("/srv/")
    put(root, f"{here}/x", b"data")
    before = names(root, there)
    for rename in (root.publish, root.claim, root.replace):
        with pytest.raises(CrossVolume, match="different volumes"):
            rename(f"{here}/x", f"{there}/x")
    assert got(root.open_read(f"{here}/x")) == b"data"
    assert names(root, there) == before
    assert root.same_volume(here, there) is False
    assert root.same_volume(here, here) is True


def test_without_posix_rename_nothing_is_ever_removed_first(meddled: Meddled) -> None:
    """Cases rclone-remove-before-rename, win-posix-rename-eexist, borg-sshfs-replace, op-unsupported-no-errno."""
    transport, server = meddled(Meddler, "-P", "posix-rename")
    put(transport, "new", b"new")
    put(transport, "old", b"old")
    with pytest.raises(Unsupported, match="posix-rename"):
        transport.replace("new", "old")
    assert got(transport.open_read("old")) == b"old"
    assert transport.capabilities.replace.guarantee is Guarantee.NONE
    assert transport.capabilities.claim.guarantee is Guarantee.CHECKED
    transport.claim("new", "C_me_new")
    assert Op.REMOVE not in server.asked
    assert names(transport) == ["C_me_new", "old"]


def test_a_denied_extension_is_not_asked_for(meddled: Meddled) -> None:
    """Case sftp-denied-ext-eacces: its answer could not be told from a forbidden file."""
    transport, server = meddled(Meddler, "-P", "posix-rename,hardlink,fsync,statvfs,limits")
    put(transport, "B_x", b"data")
    transport.publish("B_x", "x")
    transport.claim("x", "C_x")
    assert server.extensions == []


def test_a_server_without_extensions_is_used_by_looking_first(meddled: Meddled) -> None:
    """Case spring-rename-v3-overwrite-flag: version 3's RENAME has no flags."""
    transport, server = meddled(NoExtensions)
    assert transport.capabilities.publish.guarantee is Guarantee.CHECKED
    put(transport, "B_x", b"data")
    server.asked.clear()
    transport.publish("B_x", "x")
    assert server.asked == [Op.LSTAT, Op.RENAME]
    put(transport, "B_x", b"other")
    with pytest.raises(AlreadyExists):
        transport.publish("B_x", "x")
    assert got(transport.open_read("x")) == b"data"


def test_a_server_that_forbids_renames_says_so_at_the_start(meddled: Meddled) -> None:
    """Case server-forbids-rename: not after the first upload."""
    transport, _ = meddled(Meddler, "-P", "rename,posix-rename,hardlink")
    for fact in (transport.capabilities.claim, transport.capabilities.publish, transport.capabilities.replace):
        assert fact.guarantee is Guarantee.NONE
        assert "refuses RENAME" in fact.evidence
    assert names(transport) == []


def test_a_link_that_is_refused_is_not_replaced_by_a_rename_that_could_have_two_winners(meddled: Meddled) -> None:
    transport, server = meddled(NoLinkAllowed, "-P", "posix-rename")
    put(transport, "B_x", b"data")
    with pytest.raises(Unsupported):
        transport.publish("B_x", "x")
    assert Op.RENAME not in server.asked[5:]
    assert names(transport) == ["B_x"]


def test_a_folder_that_may_not_be_written_to_is_denied(connect: Connect, sftp_server: SftpServer) -> None:
    folder = sftp_server.local(sftp_server.foreign)
    assert folder is not None
    where = folder / f"closed-{os.urandom(4).hex()}"
    where.mkdir()
    (where / "x").write_bytes(b"data")
    where.chmod(0o755)
    stranger = {"user": sftp_server.foreign_user, "password": sftp_server.foreign_password}
    transport = connect("paramiko", f"{sftp_server.foreign}/{where.name}", **stranger)
    for call in (
        lambda: transport.publish("x", "y"),
        lambda: transport.claim("x", "y"),
        lambda: transport.replace("x", "y"),
        lambda: transport.delete("x"),
        lambda: transport.create("y"),
        lambda: transport.make_dir("y"),
    ):
        with pytest.raises(Denied):
            call()
    assert names(transport) == ["x"]


def test_a_name_that_is_too_long_is_told_as_such(bare: Callable[..., SftpTransport]) -> None:
    transport = bare()
    assert transport.capabilities.longest_name == 255
    put(transport, "x" * 255, b"data")
    with pytest.raises(Exception, match="too long") as caught:
        transport.create("x" * 256)
    assert type(caught.value).__name__ == "ServerFailure"


def test_the_root_itself_is_never_changed(bare: Callable[..., SftpTransport], drop: Path) -> None:
    transport = bare()
    for call in (
        lambda: transport.create(""),
        lambda: transport.delete(""),
        lambda: transport.remove_dir(""),
        lambda: transport.claim("", "x"),
        lambda: transport.publish("", "x"),
        lambda: transport.replace("", "x"),
    ):
        with pytest.raises(Exception, match="root itself"):
            call()
    assert drop.is_dir()
