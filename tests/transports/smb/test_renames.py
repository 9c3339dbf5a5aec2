"""Names that change hands over SMB: one winner, nothing replaced, and a name that is held is Busy until it is let go."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from smbprotocol.file_info import FileInformationClass

from testenv.servers import SmbServer
from tests.transports.smb.beside import Connect, Other, content, fill, names
from transports.base import Guarantee, Kind
from transports.errors import AlreadyExists, Busy, Denied, NotFound, OutcomeUnknown, TransportError, UnsafePath
from transports.smb import SmbTransport, messages, renames
from transports.smb.link import Link


def until_free(call: Callable[[], None], patience: float = 10.0) -> None:
    """As a caller does it: Busy is tried again."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return call()
        except Busy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_a_rival_in_the_middle_of_a_claim_keeps_everybody_out(drop: SmbTransport, connect: Connect, smb_dir: str) -> None:
    """smb-claim-double-winner: a rival who shares delete is overtaken, and then renames the winner's file away."""
    fill(drop, "x")
    rival = connect()
    opening = messages.open_(rf"{smb_dir}\x", messages.DELETE, messages.SHARE_READ, messages.FILE)
    handle = rival._link.enter(opening)[0].file_id
    with pytest.raises(Busy):
        drop.claim("x", "C_late_x")
    rival._link.leave(handle, messages.rename(rf"{smb_dir}\C_rival_x", handle, replace=False))
    with pytest.raises(NotFound) as caught:
        drop.claim("x", "C_late_x")
    assert caught.value.path == "x"
    assert names(drop) == ["C_rival_x"]


def test_a_claim_is_one_round_trip_and_a_publication_two(drop: SmbTransport, sent: list[list[Any]]) -> None:
    fill(drop, "x")
    sent.clear()
    drop.claim("x", "y")
    assert len(sent) == 1
    sent.clear()
    drop.publish("y", "z")
    assert len(sent) == 2


RENAMES: dict[str, Callable[[SmbTransport], None]] = {
    "claim": lambda drop: drop.claim("x", "y"),
    "publish": lambda drop: drop.publish("x", "y"),
    "replace": lambda drop: drop.replace("x", "y"),
    "delete": lambda drop: drop.delete("x"),
}


@pytest.mark.parametrize("member", RENAMES)
def test_an_open_handle_blocks_and_its_closing_frees(drop: SmbTransport, other: Other, member: str) -> None:
    """camel-rename-lock-windows: the producer still has the file open, and does not share delete."""
    fill(drop, "x", b"data")
    opened, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with other.holding("x", "rb", "rw"):
            opened.set()
            let_go.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert opened.wait(10)
    try:
        with pytest.raises(Busy) as caught:
            RENAMES[member](drop)
        assert (caught.value.operation, caught.value.path) == (member, "x")
        assert names(drop) == ["x"]
    finally:
        let_go.set()
    until_free(lambda: RENAMES[member](drop))
    holder.join(timeout=10)
    assert names(drop) == ([] if member == "delete" else ["y"])


def test_a_file_that_we_read_ourselves_is_busy_too(drop: SmbTransport) -> None:
    fill(drop, "x")
    with drop.open_read("x"):
        for call in RENAMES.values():
            with pytest.raises(Busy):
                call(drop)
    drop.claim("x", "y")


def test_replacing_a_file_that_is_open_is_busy_and_not_denied(drop: SmbTransport) -> None:
    """smb-replace-target-open: Samba says ACCESS_DENIED when the target is open on the same connection."""
    fill(drop, "old", b"old")
    fill(drop, "new", b"new")
    with drop.open_read("old") as source:
        with pytest.raises(Busy) as caught:
            drop.replace("new", "old")
        assert caught.value.path == "old"
        assert source.read() == b"old"
    drop.replace("new", "old")
    assert content(drop, "old") == b"new"


def test_a_target_that_must_not_be_executed_is_replaced_or_told_of(drop: SmbTransport, folder: Path) -> None:
    """smb-rename-needs-execute, smb-replace-flag: smbclient opens the target for execute, which mode 0644 denies."""
    for name in ("replaced", "kept"):
        (folder / name).write_bytes(b"made elsewhere")
        (folder / name).chmod(0o644)
    fill(drop, "x", b"new")
    with pytest.raises(AlreadyExists) as caught:
        drop.publish("x", "kept")
    assert caught.value.path == "kept"
    drop.replace("x", "replaced")
    assert content(drop, "replaced") == b"new"
    assert content(drop, "kept") == b"made elsewhere"


def test_what_is_deleted_and_still_open_is_gone_for_a_claim_and_busy_for_all_else(
    drop: SmbTransport, connect: Connect, smb_dir: str
) -> None:
    """smb-delete-pending: listed, and yet every call fails, with errno 0."""
    fill(drop, "x", b"old")
    fill(drop, "new", b"new")
    reader, remover = connect(), connect()
    opening = messages.open_(rf"{smb_dir}\x", messages.READ_DATA, messages.SHARE_ALL, messages.FILE)
    handle = reader._link.enter(opening)[0].file_id
    opening = messages.open_(rf"{smb_dir}\x", messages.DELETE, messages.SHARE_ALL, messages.FILE)
    remover._link.visit(opening, messages.remove())
    with pytest.raises(NotFound):
        drop.claim("x", "C_x")
    for call in (
        lambda: drop.stat("x"),
        lambda: drop.open_read("x"),
        lambda: drop.create("x"),
        lambda: drop.publish("new", "x"),
        lambda: drop.delete("x"),
    ):
        with pytest.raises(Busy):
            call()
    with pytest.raises(Busy):
        # Samba would do it, and remove our file when the reader closes.
        drop.replace("new", "x")
    reader._link.leave(handle)
    assert names(drop) == ["new"]
    drop.replace("new", "x")
    assert content(drop, "x") == b"new"


@pytest.mark.parametrize("target", ["gone", "/etc/passwd"])
def test_a_name_that_a_hidden_link_has_is_told_to_be_taken(drop: SmbTransport, folder: Path, target: str) -> None:
    """dangling-symlink-blocks-smb: invisible, and yet creating that name fails with "no such file"."""
    (folder / "A_x").symlink_to(target)
    fill(drop, "x", b"data")
    assert names(drop) == ["x"]
    for call in (lambda: drop.create("A_x"), lambda: drop.make_dir("A_x"), lambda: drop.publish("x", "A_x")):
        with pytest.raises(AlreadyExists, match="symbolic link") as caught:
            call()
        assert caught.value.path == "A_x"
    with pytest.raises(UnsafePath, match="symbolic link"):
        drop.replace("x", "A_x")
    assert content(drop, "x") == b"data"
    assert (folder / "A_x").is_symlink()


def test_a_folder_is_never_claimed(drop: SmbTransport) -> None:
    """smb-rename-dir-open-child: a folder cannot be renamed while anybody has a file in it open."""
    drop.make_dir("folder")
    for rename in (drop.claim, drop.publish, drop.replace):
        with pytest.raises(Denied):
            rename("folder", "y")
    assert drop.stat("folder").kind is Kind.FOLDER


def test_a_file_of_another_account_is_published_all_the_same(connect: Connect, smb_server: SmbServer, folder: Path) -> None:
    """Linux refuses a hard link to a file that one neither owns nor may write (fs.protected_hardlinks)."""
    folder.chmod(0o777)
    owner = connect()
    stranger = connect(user=smb_server.foreign_user, password=smb_server.foreign_password)
    fill(owner, "x", b"of the owner")
    fill(owner, "taken", b"held")
    with pytest.raises(AlreadyExists):
        stranger.publish("x", "taken")
    stranger.claim("x", "C_x")
    stranger.publish("C_x", "D_x")
    assert names(owner) == ["D_x", "taken"]
    assert content(owner, "D_x") == b"of the owner"
    assert content(owner, "taken") == b"held"


# --- a server without hard links: it is asked for a kind of information that it does not know


@pytest.fixture
def no_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "LINK_INFORMATION", FileInformationClass.FILE_STREAM_INFORMATION)


@pytest.mark.usefixtures("no_hard_links")
def test_without_hard_links_an_exclusive_empty_file_decides(drop: SmbTransport) -> None:
    assert drop.capabilities.publish.guarantee is Guarantee.CHECKED
    assert "refused" in drop.capabilities.publish.evidence
    fill(drop, "x", b"one")
    fill(drop, "y", b"other")
    drop.publish("x", "dst")
    with pytest.raises(AlreadyExists) as caught:
        drop.publish("y", "dst")
    assert caught.value.path == "dst"
    with pytest.raises(NotFound) as missing:
        drop.publish("nothing", "free")
    assert missing.value.path == "nothing"
    assert names(drop) == ["dst", "y"]
    assert content(drop, "dst") == b"one"


@pytest.mark.usefixtures("no_hard_links")
def test_without_hard_links_a_refused_rename_takes_its_reservation_back(
    drop: SmbTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(drop, "x", b"data")
    monkeypatch.setattr(messages, "RENAME_INFORMATION", FileInformationClass.FILE_STREAM_INFORMATION)
    with pytest.raises(TransportError) as caught:
        drop.publish("x", "dst")
    assert not isinstance(caught.value, OutcomeUnknown)
    assert names(drop) == ["x"]


@pytest.mark.usefixtures("no_hard_links")
def test_without_hard_links_a_reservation_that_cannot_be_taken_back_is_told(
    drop: SmbTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(drop, "x", b"data")
    monkeypatch.setattr(messages, "RENAME_INFORMATION", FileInformationClass.FILE_STREAM_INFORMATION)
    monkeypatch.setattr(renames, "_withdraw", withdraw_too_late)
    with pytest.raises(OutcomeUnknown, match="empty file"):
        drop.publish("x", "dst")
    assert names(drop) == ["dst", "x"]


def withdraw_too_late(link: Link, wire: str) -> None:
    """Somebody has moved the reservation away already."""
    link.visit(messages.open_(f"{wire}.moved", messages.DELETE, messages.SHARE_NONE))
