"""Listings over SMB: streamed, filtered by exact case, not ended by a strange name, and without a handle left behind."""

import os
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from smbprotocol.ioctl import CtlCode, IOCTLFlags, SMB2IOCTLRequest

from tests.transports.smb.beside import Connect, content, fill, names
from transports.base import Kind
from transports.errors import Busy, NotFound, UnsafePath
from transports.smb import SmbTransport, messages
from transports.smb.messages import Message
from transports.smb.names import pattern_on_wire, refused_because
from transports.smb.replies import listed

MANY = 6000
MANGLED = (b"CON", b"nul.csv", b"x.csv.", b"x.csv ", b"a:b", b"back\\slash")


def test_the_server_filters_and_the_exact_case_is_looked_at_here(drop: SmbTransport) -> None:
    """smb-pattern-case: Samba's pattern folds case, and "<" is a wildcard of DOS."""
    for name in ("B_x1.csv", "b_x2.csv", "B_x3.txt"):
        fill(drop, name)
    assert names(drop, pattern="B_*") == ["B_x1.csv", "B_x3.txt"]
    assert names(drop, pattern="?_x?.csv") == ["B_x1.csv", "b_x2.csv"]
    for pattern in ("<.csv", ">_x1.csv", 'B_x1".csv', "nomatch*", ""):
        assert names(drop, pattern=pattern) == []


def test_a_pattern_saves_the_rest_of_the_listing(drop: SmbTransport, folder: Path, sent: list[list[Any]]) -> None:
    """huge-directory: one name of many is one round trip; all of them are a few."""
    for number in range(MANY):
        (folder / f"orders_{number:010}.csv").touch()
    sent.clear()
    assert names(drop, pattern=f"*{MANY - 1}.csv") == [f"orders_{MANY - 1:010}.csv"]
    assert len(sent) <= 3
    sent.clear()
    started = time.monotonic()
    assert len(names(drop)) == MANY
    assert time.monotonic() - started < 10
    assert len(sent) < 30


def test_a_listing_that_matches_nothing_is_empty(drop: SmbTransport) -> None:
    """smb-search-pattern-nomatch: NO_SUCH_FILE, which is not "the folder is not there"."""
    assert names(drop, pattern="nomatch*") == []
    with pytest.raises(NotFound):
        names(drop, "nowhere", "nomatch*")


def test_names_that_smb_cannot_express_end_no_listing(drop: SmbTransport, folder: Path) -> None:
    """smb-mangled, trailing-space-dot: Samba lists them as CSHOFG~F, which is a name, and fits no grammar.

    It lists a name that is not UTF-8 under no name at all.
    """
    for raw in (*MANGLED, b"Rechnung\xe4.csv"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + raw)).write_bytes(raw)
    fill(drop, "plain.csv", b"plain")
    found = {content(drop, entry.name) for entry in drop.scan()}
    assert found == {*MANGLED, b"plain"}
    assert names(drop, pattern="plain.csv") == ["plain.csv"]


@pytest.mark.parametrize("name", ["CON", "nul.csv", "Com1", "x.csv.", "x.csv ", "a:b", "a*", 'a"', "a<b", "a|b"])
def test_a_name_that_becomes_another_one_is_refused(drop: SmbTransport, name: str) -> None:
    """smb-mangled: Samba takes most of them, and lists them under another name; "a:b" would be a hidden stream of "a"."""
    fill(drop, "a", b"data")
    for call in (
        lambda: drop.create(name),
        lambda: drop.make_dir(name),
        lambda: drop.claim("a", name),
        lambda: drop.stat(name),
    ):
        with pytest.raises(UnsafePath):
            call()
    assert names(drop) == ["a"]


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "..", "a/../b", "a\\b", "\udc80"])
def test_an_unsafe_name_is_refused_before_anything_is_sent(drop: SmbTransport, sent: list[list[Any]], name: str) -> None:
    """nul-kills-session: over SMB a NUL is NAME_INVALID; nothing of it is ever sent."""
    sent.clear()
    with pytest.raises(UnsafePath):
        drop.create(name)
    assert sent == []


def test_an_abandoned_scan_gives_its_handle_back(drop: SmbTransport, connect: Connect, folder: Path) -> None:
    """smb-scandir-handle: a handle that is left open keeps everybody from removing the folder."""
    beside = connect()
    drop.make_dir("full")
    for number in range(MANY // 10):
        (folder / "full" / f"x_{number:05}").touch()
    listing = drop.scan("full")
    next(listing)
    for path in (folder / "full").iterdir():
        path.unlink()
    with pytest.raises(Busy):
        beside.remove_dir("full")
    del listing
    beside.remove_dir("full")


def test_a_scan_that_is_thrown_away_in_another_thread_harms_nobody(drop: SmbTransport, connect: Connect) -> None:
    """smb-gc-deadlock: a finaliser runs in any thread, also in the one that would have to receive its answer."""
    beside = connect()
    drop.make_dir("empty")
    drop.make_dir("empty/below")
    listing = drop.scan("empty")
    next(listing)
    collector = threading.Thread(target=listing.close)  # type: ignore[attr-defined]  # it is a generator
    collector.start()
    collector.join(timeout=10)
    assert not collector.is_alive()
    assert drop.stat("empty").kind is Kind.FOLDER
    drop.remove_dir("empty/below")
    beside.remove_dir("empty")


def test_a_scan_outlives_its_connection_quietly(connect: Connect) -> None:
    drop = connect()
    fill(drop, "x")
    listing = drop.scan()
    next(listing)
    drop.close()
    del listing


def test_a_file_that_vanishes_meanwhile_ends_no_listing(drop: SmbTransport, folder: Path) -> None:
    """fsspec-smb-ls-n-plus-1, list-not-snapshot: what the listing says is used, and nothing is asked for again."""
    for number in range(2000):
        (folder / f"x_{number:05}").touch()
    seen: list[str] = []
    for entry in drop.scan():
        if not seen:
            (folder / "x_01999").unlink()
        seen.append(entry.name)
    assert len(set(seen)) >= 1999


def test_a_change_wakes_the_one_who_waits(drop: SmbTransport, connect: Connect, folder: Path) -> None:
    drop.wait_for_change("", 5)  # the first call begins to watch
    beside = connect()
    later = threading.Timer(0.3, lambda: fill(beside, "x"))
    later.start()
    started = time.monotonic()
    drop.wait_for_change("", 20)
    assert time.monotonic() - started < 10
    later.join()
    # What happened between two calls ends the next one at once, also where no SMB client did it.
    (folder / "y").touch()
    started = time.monotonic()
    drop.wait_for_change("", 20)
    assert time.monotonic() - started < 10


def test_a_watched_folder_can_be_removed_by_the_one_who_watches(drop: SmbTransport) -> None:
    drop.make_dir("watched")
    drop.wait_for_change("watched", 0)
    drop.wait_for_change("watched", 0.1)
    drop.remove_dir("watched")
    assert names(drop) == []
    drop.wait_for_change("", 0)


def test_a_watched_folder_that_is_gone_is_told_or_waited_out(drop: SmbTransport, folder: Path) -> None:
    (folder / "watched").mkdir()
    drop.wait_for_change("watched", 0)
    (folder / "watched").rmdir()
    started = time.monotonic()
    drop.wait_for_change("watched", 0.5)
    assert time.monotonic() - started < 10
    with pytest.raises(NotFound):
        drop.stat("watched")


def unknown_request(file_id: bytes) -> Message:
    """What this server supports as little as another one supports notification."""
    message = SMB2IOCTLRequest()
    message["ctl_code"] = CtlCode.FSCTL_PIPE_TRANSCEIVE
    message["file_id"] = file_id
    message["flags"] = IOCTLFlags.SMB2_0_IOCTL_IS_FSCTL
    return message


def test_where_there_is_no_notification_the_wait_is_a_pause(drop: SmbTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "watch", unknown_request)
    drop.wait_for_change("", 0.3)
    drop.wait_for_change("", 0.3)
    assert not drop.capabilities.notification
    started = time.monotonic()
    drop.wait_for_change("", 0.3)
    assert 0.3 <= time.monotonic() - started < 5


def listed_as(raw: bytes, attributes: int, tag: int) -> bytes:
    """One entry of FileFullDirectoryInformation."""
    return struct.pack("<II4QQQIII", 0, 0, 0, 0, 0, 0, 5, 8, attributes, len(raw), tag) + raw


@pytest.mark.parametrize(
    ("attributes", "tag", "kind"),
    [
        (0x20, 0, Kind.FILE),
        (0x10, 0, Kind.FOLDER),
        (0x420, 0xA000000C, Kind.LINK),  # a symbolic link
        (0x410, 0xA0000003, Kind.LINK),  # a junction
        (0x420, 0x80000013, Kind.FILE),  # deduplicated by Windows
    ],
)
def test_only_what_stands_for_another_name_is_a_link(attributes: int, tag: int, kind: Kind) -> None:
    """Windows shows links; Samba follows them, so that they cannot be had for real."""
    (entry,) = listed(listed_as("x".encode("utf-16-le"), attributes, tag))
    assert (entry.name, entry.size, entry.kind) == ("x", 5, kind)


def test_a_name_that_is_half_a_character_is_read_and_refused() -> None:
    (entry,) = listed(listed_as(b"x\x00\x3d\xd8", 0x20, 0))
    assert refused_because(entry.name)


@pytest.mark.parametrize("pattern", ["*", "a?b*", "B_*.csv", "x<y", "x.", "x ", "***", "a\0b", "\U0001f4be?"])
def test_a_pattern_on_the_wire_has_no_other_wildcard_and_no_edge(pattern: str) -> None:
    wire = pattern_on_wire(pattern)
    assert not set(wire) & set('<>:"|?\0')
    assert "**" not in wire
    assert wire[-1] not in ". "
    assert all(part in pattern for part in wire.split("*"))


@pytest.mark.parametrize("name", ["orders_0000000042.csv", "console.csv", "COM10", "Rechnung März.csv", ".hidden", " x"])
def test_an_ordinary_name_is_let_through(name: str) -> None:
    assert refused_because(name) == ""
