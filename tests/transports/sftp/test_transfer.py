"""Writing and reading files: nothing is lost without a word, and little is held in memory."""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from testenv.servers import SftpServer
from tests.transports.sftp.helpers import ENGINES, Connect, Meddled, got, names, put
from tests.transports.sftp.meddler import (
    FailingClose,
    FailingSync,
    GrowsInListings,
    LosesOneWrite,
    Meddler,
    NoExtensions,
    NoSizes,
    NoTypes,
    OverReportsSize,
    ShortReads,
    ShrinksWhenOpened,
    resident,
)
from transports.base import Guarantee, Kind
from transports.errors import ChangedWhileReading, Denied, NoSpace, ServerFailure, Unreachable
from transports.sftp import SftpTransport
from transports.sftp.packets import Op
from transports.sftp.transfer import REQUESTS, WINDOW

MIB = 1024 * 1024


@pytest.mark.parametrize("engine", ENGINES)
def test_a_full_disk_is_an_error_and_the_part_is_removed(connect: Connect, sftp_server: SftpServer, engine: str) -> None:
    """Cases paramiko-pipelined-errors-lost, paramiko-put-disk-full, quota-retry-loop: paramiko's client says nothing."""
    transport = connect(engine, sftp_server.full)
    with pytest.raises(NoSpace) as caught:
        put(transport, "B_x", os.urandom(4 * MIB))
    assert caught.value.path == "B_x"
    assert "B_x" not in names(transport)
    space = transport.free_space()
    assert space is not None
    assert space > 512 * 1024


def test_after_a_write_error_nothing_but_abort_is_of_use(meddled: Meddled) -> None:
    transport, _ = meddled(LosesOneWrite)
    sink = transport.create("x")
    with pytest.raises(ServerFailure, match="stored no more") as first:
        sink.write(bytes(4 * WINDOW))
    for again in (partial(sink.write, b"more"), sink.commit):
        with pytest.raises(ServerFailure) as caught:
            again()
        assert caught.value is first.value
    sink.abort()
    assert names(transport) == []


def test_a_hole_in_a_file_of_the_right_size_is_noticed(meddled: Meddled, drop: Path) -> None:
    """Case paramiko-put-hole-same-size: the disk had room again for the blocks after the one that it lost."""
    transport, server = meddled(LosesOneWrite)
    sink = transport.create("x")
    sink.write(bytes(1_000_000))
    with pytest.raises(ServerFailure, match="stored no more of the file, though its volume has"):
        sink.commit()
    assert server.asked.count(Op.WRITE) == 4
    assert (drop / "x").stat().st_size == 1_000_000
    sink.abort()


def test_an_error_at_close_is_an_error(meddled: Meddled) -> None:
    """Case close-error-swallowed."""
    transport, _ = meddled(FailingClose)
    with pytest.raises(ServerFailure) as caught:
        put(transport, "x", b"data")
    assert caught.value.operation == "commit"
    assert names(transport) == []


def test_an_error_at_flushing_is_an_error(meddled: Meddled) -> None:
    transport, _ = meddled(FailingSync)
    with pytest.raises(ServerFailure):
        put(transport, "x", b"data")
    assert names(transport) == []


def test_commit_reaches_stable_storage_where_the_server_can(meddled: Meddled) -> None:
    transport, server = meddled(Meddler)
    put(transport, "x", b"data")
    assert "fsync@openssh.com" in server.extensions
    assert transport.capabilities.durable.guarantee is Guarantee.ATOMIC
    plain, server = meddled(Meddler, "-P", "fsync")
    put(plain, "y", b"data")
    assert "fsync@openssh.com" not in server.extensions
    assert plain.capabilities.durable.guarantee is Guarantee.NONE


def test_a_stored_size_that_is_not_what_was_sent_is_an_error(meddled: Meddled) -> None:
    """Cases append-doubles, asyncssh-missing-segment, resume-append-corrupt: the size is asked for before the close."""
    transport, _ = meddled(OverReportsSize)
    with pytest.raises(ServerFailure, match="stored 5 bytes of 4"):
        put(transport, "x", b"data")
    assert names(transport) == []


def test_a_file_is_made_exclusively_and_never_appended_to(bare: Callable[..., SftpTransport], drop: Path) -> None:
    """Cases resume-append-corrupt, sftpgo-inode-reuse, nifi-delete-before-transfer: nothing is ever written in place."""
    transport = bare()
    (drop / "outside").write_bytes(b"other tenant")
    os.link(drop / "outside", drop / "x")
    put(transport, "B_x", b"new")
    transport.replace("B_x", "x")
    assert (drop / "outside").read_bytes() == b"other tenant"
    assert (drop / "x").read_bytes() == b"new"


def test_writes_of_all_sizes_are_gathered_into_large_requests(meddled: Meddled) -> None:
    transport, server = meddled(Meddler)
    data = os.urandom(2 * MIB)
    with transport.create("x") as sink:
        for at in range(0, len(data), 1000):
            sink.write(data[at : at + 1000])
        sink.commit()
    assert server.asked.count(Op.WRITE) == 9
    assert got(transport.open_read("x")) == data


def test_a_small_file_costs_two_round_trips_to_write(meddled: Meddled) -> None:
    transport, server = meddled(Meddler)
    server.asked.clear()
    put(transport, "x", b"data")
    assert server.asked == [Op.OPEN, Op.WRITE, Op.EXTENDED, Op.FSTAT, Op.CLOSE]


def test_an_over_reported_size_ends_in_an_error_and_not_in_waiting(meddled: Meddled, drop: Path) -> None:
    """Case paramiko-stat-too-large."""
    transport, _ = meddled(OverReportsSize)
    (drop / "x").write_bytes(bytes(1_000_000))
    with transport.open_read("x") as source:
        assert source.size == 1_000_001
        with pytest.raises(ChangedWhileReading, match="it ended after 1000000 of its 1000001 bytes"):
            b"".join(source)


def test_a_file_that_shrinks_meanwhile_is_never_a_whole_one(connect: Connect, sftp_server: SftpServer, sftp_dir: str) -> None:
    """Case paramiko-get-truncated-silent: `get` compares what it read with what it read."""
    file = sftp_server.local(sftp_dir)
    assert file is not None
    (file / "x").touch()
    os.truncate(file / "x", 64 * MIB)
    with connect("paramiko", sftp_dir).open_read("x") as source:
        source.read()
        os.truncate(file / "x", 1_000_000)
        with pytest.raises(ChangedWhileReading) as caught:
            b"".join(source)
    assert caught.value.path == "x"


def test_a_file_that_shrank_before_it_was_opened_has_its_new_size(meddled: Meddled, drop: Path) -> None:
    transport, _ = meddled(GrowsInListings)
    data = os.urandom(700_000)
    (drop / "x").write_bytes(data)
    with transport.open_read("x") as source:
        assert source.size == len(data)
        assert b"".join(source) == data


def test_no_byte_beyond_the_size_at_opening_is_given(meddled: Meddled, drop: Path) -> None:
    transport, _ = meddled(ShrinksWhenOpened)
    data = os.urandom(700_000)
    (drop / "x").write_bytes(data)
    with transport.open_read("x") as source:
        assert source.size == len(data) - 1000
        assert b"".join(source) == data[:-1000]


@pytest.mark.parametrize("size", [0, 1, 2, 32769, 1_000_003])
def test_a_size_that_is_not_told_is_found_by_reading(meddled: Meddled, drop: Path, size: int) -> None:
    """Case stat-size-none: unknown is not 0."""
    transport, _ = meddled(NoSizes)
    data = os.urandom(size)
    (drop / "x").write_bytes(data)
    assert transport.stat("x").size is None
    with transport.open_read("x") as source:
        assert source.size == size
        assert b"".join(source) == data
    put(transport, "y", data)
    assert (drop / "y").read_bytes() == data


def test_short_answers_leave_no_gap_and_cost_no_speed(meddled: Meddled, drop: Path) -> None:
    """Cases asyncssh-short-read, paramiko-prefetch-disabled."""
    transport, server = meddled(ShortReads)
    data = os.urandom(3 * MIB)
    (drop / "x").write_bytes(data)
    assert got(transport.open_read("x")) == data
    # Each answer has 4 KiB at the least; asking for the gaps one by one, with the rest behind them, stays pipelined.
    assert server.asked.count(Op.READ) < 2 * len(data) // 4096
    assert server.most_under_way > 8


def test_a_server_of_the_plain_draft_is_used_within_its_limits(meddled: Meddled, drop: Path) -> None:
    """No extension: 32 KiB a request, and nothing is promised that the server does not."""
    transport, server = meddled(NoExtensions)
    data = os.urandom(MIB)
    put(transport, "x", data)
    assert server.asked.count(Op.WRITE) == 32
    assert got(transport.open_read("x")) == data
    assert transport.free_space() is None
    assert transport.same_volume("", "") is None
    assert transport.capabilities.durable.guarantee is Guarantee.NONE
    assert Op.EXTENDED not in server.asked


def test_requests_are_as_large_as_the_server_takes(meddled: Meddled, drop: Path) -> None:
    transport, server = meddled(Meddler)
    put(transport, "x", bytes(4 * 261120))
    assert server.asked.count(Op.WRITE) == 4
    server.asked.clear()
    got(transport.open_read("x"))
    assert server.asked.count(Op.READ) == 4


@pytest.mark.parametrize(("kind", "most"), [(Meddler, WINDOW // 261120), (NoExtensions, REQUESTS), (ShortReads, REQUESTS)])
def test_never_more_requests_are_under_way_than_a_server_can_keep(meddled: Meddled, kind: type[Meddler], most: int) -> None:
    """Case paramiko-prefetch-hang: thousands of queued reads choke some servers."""
    transport, server = meddled(kind)
    put(transport, "x", bytes(8 * MIB))
    got(transport.open_read("x"))
    assert server.most_under_way <= most + 3  # fsync, fstat and close follow the writes


def test_a_type_that_is_not_told_is_no_reason_to_refuse_a_file(meddled: Meddled, drop: Path) -> None:
    transport, _ = meddled(NoTypes)
    (drop / "x").write_bytes(b"data")
    assert got(transport.open_read("x")) == b"data"
    assert transport.stat("x").kind is Kind.OTHER


@pytest.mark.parametrize("engine", ENGINES)
def test_a_large_file_is_read_in_bounded_memory_by_a_slow_reader(
    connect: Connect, sftp_server: SftpServer, sftp_dir: str, engine: str
) -> None:
    """Case paramiko-prefetch-memory: a read-ahead without a bound holds the whole file."""
    folder = sftp_server.local(sftp_dir)
    assert folder is not None
    (folder / "large").touch()
    os.truncate(folder / "large", 256 * MIB)
    transport = connect(engine, sftp_dir)
    before = most = resident()
    with transport.open_read("large") as source:
        total = len(source.read())
        time.sleep(0.5)  # all that was asked for arrives
        for turn, data in enumerate(source):
            total += len(data)
            if turn % 50 == 0:
                most = max(most, resident())
    assert total == 256 * MIB
    assert most - before < 80 * MIB


def test_a_large_file_is_written_in_bounded_memory(bare: Callable[..., SftpTransport]) -> None:
    transport = bare()
    piece = bytes(MIB)
    before = most = resident()
    with transport.create("large") as sink:
        for turn in range(256):
            sink.write(piece)
            if turn % 20 == 0:
                most = max(most, resident())
    assert most - before < 80 * MIB


def test_an_abandoned_reader_leaves_no_thread_no_handle_and_no_stray_answer(
    bare: Callable[..., SftpTransport], drop: Path
) -> None:
    """Case paramiko-prefetch-leak: a prefetch thread spins on for ever."""
    transport = bare()
    (drop / "large").touch()
    os.truncate(drop / "large", 16 * MIB)
    threads = threading.active_count()
    server = transport._client.wire._stream.pid  # type: ignore[attr-defined]  # a PipeStream, as `bare` makes it
    transport.stat("large")
    handles = len(os.listdir(f"/proc/{server}/fd"))
    for _ in range(20):
        with transport.open_read("large") as source:
            source.read(10)
    assert transport.stat("large").size == 16 * MIB
    assert len(os.listdir(f"/proc/{server}/fd")) == handles
    assert threading.active_count() == threads


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_killed_while_it_writes(connect: Connect, sftp_server: SftpServer, sftp_dir: str, engine: str) -> None:
    """Cases server-killed-mid-write, sftp-atomic-upload-partial: an error; the part stays, and another name is free."""
    transport = connect(engine, sftp_dir)

    def write_on() -> None:
        with transport.create("B_x") as sink:
            sink.write(bytes(MIB))
            sftp_server.kill_sessions()
            for _ in range(64):
                sink.write(bytes(MIB))
            sink.commit()

    with pytest.raises(Unreachable) as caught:
        write_on()
    assert any("could not be removed" in note for note in caught.value.__notes__)
    with pytest.raises(Unreachable):
        transport.stat("B_x")
    again = connect(engine, sftp_dir)
    put(again, "B_y", b"data")
    assert names(again) == ["B_x", "B_y"]


def test_a_server_killed_while_it_is_read(connect: Connect, sftp_server: SftpServer, sftp_dir: str) -> None:
    folder = sftp_server.local(sftp_dir)
    assert folder is not None
    (folder / "large").touch()
    os.truncate(folder / "large", 256 * MIB)
    with connect("paramiko", sftp_dir).open_read("large") as source:
        source.read()
        sftp_server.kill_sessions()
        with pytest.raises(Unreachable):
            b"".join(source)


def test_a_read_only_server_and_a_read_only_volume_are_denied(
    bare: Callable[..., SftpTransport], connect: Connect, sftp_server: SftpServer
) -> None:
    with pytest.raises(Denied):
        bare("-R").create("x")
    with pytest.raises(Denied, match="read-only"):
        connect("paramiko", sftp_server.readonly).create("x")


@pytest.mark.parametrize("engine", ENGINES)
def test_much_may_be_asked_for_and_not_taken_while_something_is_written(
    connect: Connect, sftp_server: SftpServer, sftp_dir: str, engine: str
) -> None:
    """More than any window or pipe holds: eight files of which nobody takes what was read ahead."""
    folder = sftp_server.local(sftp_dir)
    assert folder is not None
    (folder / "large").touch()
    os.truncate(folder / "large", 8 * MIB)
    transport = connect(engine, sftp_dir)
    sources = [transport.open_read("large") for _ in range(8)]
    put(transport, "x", bytes(4 * MIB))
    for source in sources:
        assert sum(map(len, source)) == 8 * MIB
        source.close()


def test_several_files_are_read_and_written_at_once(bare: Callable[..., SftpTransport]) -> None:
    """Case pooled-connection-not-same-view: write, flush, rename and all else go over one channel."""
    transport = bare()
    data = [os.urandom(600_000 + number) for number in range(4)]
    sinks = [transport.create(f"B_{number}") for number in range(4)]
    for at in range(0, 700_000, 50_000):
        for sink, content in zip(sinks, data, strict=True):
            sink.write(content[at : at + 50_000])
    for number, sink in enumerate(sinks):
        sink.commit()
        transport.publish(f"B_{number}", str(number))
    sources = [transport.open_read(str(number)) for number in range(4)]
    parts: list[list[bytes]] = [[], [], [], []]
    while pieces := [source.read(70_000) for source in sources]:
        if not any(pieces):
            break
        for part, piece in zip(parts, pieces, strict=True):
            part.append(piece)
    assert [b"".join(part) for part in parts] == data
