"""Files over SMB: nothing is lost silently, nobody reads half a file, and memory and credits stay bounded."""

import multiprocessing
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from testenv.servers import SmbServer
from tests.transports.smb.beside import Connect, Other, content, fill, names
from transports.errors import Busy, ChangedWhileReading, Denied, NoSpace, ServerFailure
from transports.smb import SmbTransport, connect_smb
from transports.smb.files import DEPTH, PIECE

MIB = 1024 * 1024
LARGE = 256 * MIB
GROWTH = 80 * MIB


def commands(sent: list[list[Any]]) -> list[str]:
    return [type(message).__name__.removeprefix("SMB2").removesuffix("Request") for batch in sent for message in batch]


def test_a_full_disk_is_told_and_leaves_nothing(connect: Connect) -> None:
    """smb-diskfull-not-oserror, quota-retry-loop: DISK_FULL has no errno, and the file can never fit."""
    full = connect("full", "")
    before = names(full)  # the volume is everybody's, and small: others may have left a counter
    with pytest.raises(NoSpace):
        fill(full, "B_large", bytes(8 * MIB))
    assert names(full) == before


def test_a_disk_that_is_full_only_at_the_end_is_told_at_commit(connect: Connect) -> None:
    """smb-diskfull-not-oserror: what is still buffered meets the full disk last."""
    full = connect("full", "")
    before = names(full)
    full.make_dir("filled")
    try:
        with full.create("filled/most") as most:
            most.write(bytes(900 * 1024))
            most.commit()
        with full.create("B_x") as sink:
            sink.write(bytes(200 * 1024))
            with pytest.raises(NoSpace):
                sink.commit()
        assert names(full) == sorted([*before, "filled"])
    finally:
        full.delete("filled/most")
        full.remove_dir("filled")


def test_commit_sends_one_flush_and_asks_for_the_size(drop: SmbTransport, sent: list[list[Any]]) -> None:
    """smb-buffered-flush-noop: smbclient's own `flush` on its usual file sends nothing."""
    with drop.create("x") as sink:
        sink.write(bytes(3 * MIB))
        sent.clear()
        sink.commit()
    assert commands(sent)[-2:] == ["Flush", "Close"]
    assert commands(sent).count("Flush") == 1


def test_a_file_that_somebody_else_wrote_to_is_not_committed(drop: SmbTransport, folder: Path) -> None:
    """smb-posix-actor-ignores-share-modes: an exclusive handle keeps out SMB clients, and nobody else."""
    with drop.create("B_x") as sink:
        sink.write(bytes(2 * MIB))
        with (folder / "B_x").open("ab") as foreign:
            foreign.seek(0, os.SEEK_END)
            foreign.truncate(4 * MIB)
        with pytest.raises(ServerFailure, match=str(4 * MIB)):
            sink.commit()
    assert names(drop) == []


def test_a_file_that_shrinks_while_it_is_read_is_not_a_shorter_file(drop: SmbTransport, folder: Path) -> None:
    """smb-read-truncated: END_OF_FILE, which is no OSError."""
    fill(drop, "x", bytes(3 * DEPTH * PIECE))
    with drop.open_read("x") as source:
        assert source.read(10)
        os.truncate(folder / "x", 5)
        with pytest.raises(ChangedWhileReading):
            for _ in source:
                pass
    assert content(drop, "x") == bytes(5)


def test_nobody_reads_a_file_that_is_being_written(drop: SmbTransport, connect: Connect, other: Other) -> None:
    """smb-share-symmetric: shared for writing as well, a reader gets half a file."""
    reader = connect()
    with drop.create("x") as sink:
        sink.write(b"half")
        with pytest.raises(Busy):
            reader.open_read("x")
        sink.write(b" and half")
        sink.commit()
    assert content(reader, "x") == b"half and half"
    with other.holding("x", "ab", "rwd"), pytest.raises(Busy):
        reader.open_read("x")
    assert content(reader, "x") == b"half and half"


def test_a_reader_keeps_out_writers_and_lets_in_readers(drop: SmbTransport, connect: Connect, other: Other) -> None:
    """smb-default-exclusive-read, smb-copyfile-share: smbprotocol's own default locks everyone else out."""
    fill(drop, "x", b"data")
    with drop.open_read("x") as source:
        assert content(connect(), "x") == b"data"
        with pytest.raises(OSError, match="used by another process"), other.holding("x", "ab", "rwd"):
            pass
        assert source.read() == b"data"


def test_a_large_file_is_written_and_read_with_one_credit(drop: SmbTransport) -> None:
    """smb-credits: smbprotocol does not wait for credits; it fails with "only 0 credits are available"."""
    data = os.urandom(20 * MIB)
    window = drop._link._connection.sequence_window
    with drop.create("x") as sink:
        # As if the server had granted no more: what is under way must come back before anything else goes out.
        window["high"] = window["low"] + PIECE // 65536
        sink.write(data)
        sink.commit()
    window["high"] = window["low"] + PIECE // 65536
    assert content(drop, "x") == data


def test_a_write_that_failed_is_told_and_not_followed_by_success(connect: Connect) -> None:
    full = connect("full", "")
    before = names(full)
    with full.create("B_x") as sink:
        with pytest.raises(NoSpace):
            sink.write(bytes(64 * PIECE))
        with pytest.raises((NoSpace, ServerFailure)):
            sink.commit()
    assert names(full) == before


def test_a_read_only_share_is_denied(connect: Connect) -> None:
    readonly = connect("readonly", "")
    assert names(readonly) == ["present.txt"]
    assert content(readonly, "present.txt")
    for call in (
        lambda: readonly.create("x"),
        lambda: readonly.claim("present.txt", "x"),
        lambda: readonly.publish("present.txt", "x"),
        lambda: readonly.replace("present.txt", "x"),
        lambda: readonly.delete("present.txt"),
        lambda: readonly.make_dir("x"),
        lambda: readonly.server_time(),
    ):
        with pytest.raises(Denied):
            call()
    assert "not tried" in readonly.capabilities.publish.evidence


def _write_and_read(server: SmbServer, folder: str, growth: Any) -> None:
    with connect_smb(server.endpoint("data", folder)) as drop:
        fill(drop, "warm", bytes(MIB))
        content(drop, "warm")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        piece = os.urandom(MIB)
        with drop.create("x") as sink:
            for _ in range(LARGE // MIB):
                sink.write(piece)
            sink.commit()
        with drop.open_read("x") as source:
            assert sum(len(data) for data in source) == LARGE
        growth.value = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def test_a_large_file_takes_little_memory(smb_server: SmbServer, smb_dir: str) -> None:
    context = multiprocessing.get_context("spawn")  # a process of its own, so that the peak is that of the transfer
    growth = context.Value("q", -1)
    process = context.Process(target=_write_and_read, args=(smb_server, smb_dir, growth))
    process.start()
    process.join(timeout=120)
    assert process.exitcode == 0
    assert 0 <= growth.value < GROWTH
