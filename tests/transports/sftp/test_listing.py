"""Listings: every name is seen, none is trusted, and other requests may come between."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.transports.sftp.helpers import Meddled, names, put
from tests.transports.sftp.meddler import Meddler, NamesPaths, NoTypesInListings
from transports.base import Entry, Kind
from transports.errors import NotFound, UnsafePath
from transports.sftp import SftpTransport
from transports.sftp.listing import shown
from transports.sftp.packets import Op


def test_a_name_that_is_not_utf8_hides_no_other(bare: Callable[..., SftpTransport], drop: Path) -> None:
    """Case paramiko-non-utf8-aborts-listing: paramiko's listing ends there with a UnicodeDecodeError."""
    transport = bare()
    for name in (b"a.txt", b"bad\xff.txt", b"z.txt"):
        Path(os.fsdecode(os.fsencode(drop) + b"/" + name)).write_bytes(b"1")
    found = {entry.name: entry.kind for entry in transport.scan()}
    assert found == {"a.txt": Kind.FILE, "bad\\xff.txt": Kind.OTHER, "z.txt": Kind.FILE}
    with pytest.raises(UnsafePath):
        transport.stat("bad\\xff.txt")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"plain.csv", "plain.csv"),
        ("Rechnung März.csv".encode(), "Rechnung März.csv"),
        (b"new\nline", "new\\nline"),
        (b"\x1b[2Jclear", "\\x1b[2Jclear"),
        ("right\u202eleft".encode(), "right\\u202eleft"),
        (b"\xff\xfe", "\\xff\\xfe"),
    ],
)
def test_a_name_is_shown_so_that_no_terminal_obeys_it(name: bytes, text: str) -> None:
    assert shown(name) == text


def test_a_name_that_leads_out_of_the_folder_is_counted_and_never_used(meddled: Meddled, drop: Path) -> None:
    transport, _ = meddled(NamesPaths)
    (drop / "innocent_name").write_bytes(b"1")
    assert [(entry.name, entry.kind) for entry in transport.scan()] == [("../../etc/pwd", Kind.OTHER)]


def test_other_requests_may_be_made_inside_a_listing(bare: Callable[..., SftpTransport], drop: Path) -> None:
    """Case paramiko-listdir-iter-interleave: there a stat in the loop eats the listing's answers, and hangs."""
    transport = bare()
    for number in range(1000):
        (drop / f"x_{number}").write_bytes(b"1")
    seen = 0
    for entry in transport.scan(pattern="x_*"):
        assert transport.stat(entry.name).size == 1
        if seen % 100 == 0:
            put(transport, f"new_{seen}", b"12")
            with transport.open_read(f"new_{seen}") as source:
                assert source.read() == b"12"
        seen += 1
    assert seen == 1000


def test_an_abandoned_listing_leaves_no_handle_and_no_stray_answer(bare: Callable[..., SftpTransport], drop: Path) -> None:
    """Case listdir-iter-break: there twenty of them leave twenty open folders at the server."""
    transport = bare()
    for number in range(500):
        (drop / f"x_{number}").touch()
    server = transport._client.wire._stream.pid  # type: ignore[attr-defined]  # a PipeStream, as `bare` makes it
    handles = len(os.listdir(f"/proc/{server}/fd"))
    for _ in range(20):
        for _ in transport.scan():
            break
    assert transport.stat("x_1").size == 0
    assert len(os.listdir(f"/proc/{server}/fd")) == handles
    assert len(names(transport)) == 500
    assert transport.stat("x_1").size == 0
    assert len(os.listdir(f"/proc/{server}/fd")) == handles


def test_a_listing_that_was_never_begun_asks_nothing(meddled: Meddled) -> None:
    transport, server = meddled(Meddler)
    server.asked.clear()
    transport.scan()
    assert server.asked == []


def test_the_root_is_listed_in_one_go(meddled: Meddled, drop: Path) -> None:
    """A small folder costs two round trips: the questions for its end are under way with the first."""
    transport, server = meddled(Meddler)
    (drop / "x").touch()
    server.asked.clear()
    assert names(transport) == ["x"]
    assert server.asked == [Op.OPENDIR, Op.READDIR, Op.READDIR, Op.READDIR, Op.READDIR, Op.CLOSE]


def test_a_link_is_shown_as_itself_wherever_one_looks(bare: Callable[..., SftpTransport], drop: Path) -> None:
    """Case sftp-link-type: there the listing tells of the link, and a look of what it leads to."""
    transport = bare()
    (drop / "target").write_bytes(b"1")
    (drop / "link").symlink_to(drop / "target")
    (listed,) = transport.scan(pattern="link")
    assert listed == transport.stat("link") == Entry("link", Kind.LINK, len(str(drop / "target")), listed.modified)


def test_a_listing_without_types_is_completed_by_looking(meddled: Meddled, drop: Path) -> None:
    transport, server = meddled(NoTypesInListings)
    (drop / "x").write_bytes(b"12")
    (drop / "folder").mkdir()
    (drop / "link").symlink_to("x")
    found = {entry.name: (entry.kind, entry.size) for entry in transport.scan()}
    assert found["x"] == (Kind.FILE, 2)
    assert found["folder"][0] is Kind.FOLDER
    assert found["link"][0] is Kind.LINK
    assert server.asked.count(Op.LSTAT) == 3


def test_a_folder_of_many_names_is_streamed(bare: Callable[..., SftpTransport], drop: Path) -> None:
    """Case huge-directory: the first name comes long before the last, and the whole in seconds."""
    transport = bare()
    for number in range(20_000):
        os.close(os.open(drop / f"x_{number:05}", os.O_CREAT | os.O_WRONLY))
    started = time.monotonic()
    listing = transport.scan()
    next(listing)
    first = time.monotonic() - started
    assert 1 + sum(1 for _ in listing) == 20_000
    whole = time.monotonic() - started
    assert whole < 20
    assert first < whole / 4


def test_a_file_renamed_meanwhile_upsets_no_listing(bare: Callable[..., SftpTransport], drop: Path) -> None:
    """Case list-not-snapshot: a name may be seen twice or not at all; those that stay are seen once."""
    transport = bare()
    for number in range(2000):
        (drop / f"stays_{number:04}").touch()
        (drop / f"moves_{number:04}").touch()
    seen = []
    for turn, entry in enumerate(transport.scan()):
        seen.append(entry.name)
        if turn < 500:
            transport.claim(f"moves_{turn:04}", f"C_moves_{turn:04}")
    assert sorted(name for name in seen if name.startswith("stays_")) == [f"stays_{number:04}" for number in range(2000)]


def test_the_pattern_is_matched_in_the_folder_that_is_asked(bare: Callable[..., SftpTransport], drop: Path) -> None:
    """Cases airflow-sensor-pattern-path, airflow-first-match-only, airflow-absent-ok."""
    transport = bare()
    (drop / "in").mkdir()
    for name in ("a_1.csv", "a_2.csv", "A_3.csv", "b.csv"):
        (drop / "in" / name).touch()
    assert sorted(entry.name for entry in transport.scan("in", "a_*.csv")) == ["a_1.csv", "a_2.csv"]
    with pytest.raises(NotFound):
        list(transport.scan("absent", "*"))


def test_a_missing_folder_is_not_an_empty_one(bare: Callable[..., SftpTransport], drop: Path) -> None:
    transport = bare()
    with pytest.raises(NotFound) as caught:
        names(transport, "absent")
    assert (caught.value.operation, caught.value.path) == ("scan", "absent")
    (drop / "file").touch()
    with pytest.raises(NotFound):
        names(transport, "file")
