"""Files: made exclusively, written whole or not at all, read to their end."""

import tracemalloc

import pytest

from transports.base import Kind, Transport
from transports.contract.place import ContractBase, content, fill, names, refused, same, some_bytes
from transports.errors import AlreadyExists, NotFound, TransportError

# Around the packet sizes of SFTP (32 KiB), SMB (64 KiB) and the chunk of the contract, where off-by-one errors live.
SIZES = (0, 1, 32767, 32768, 32769, 65535, 65536, 65537, 262143, 262144, 262145, 5 * 1024 * 1024 + 1)
PIECES = (1, 7, 4096, 32768, 100_000, 262_144)

HELD_SIZE = 64 * 1024 * 1024
HELD_AT_MOST = 24 * 1024 * 1024


class FileContract(ContractBase):
    """`create`, `Sink`, `open_read`, `Source`."""

    def test_every_byte_comes_back_at_every_boundary(self, transport: Transport) -> None:
        for size in SIZES:
            data, path = some_bytes(size), f"size_{size}"
            with transport.create(path) as sink:
                at = turn = 0
                while at < size:
                    piece = data[at : at + PIECES[turn % len(PIECES)]]
                    sink.write(piece)
                    at, turn = at + len(piece), turn + 1
                sink.commit()
            entry = transport.stat(path)
            assert (entry.name, entry.kind, entry.size) == (path, Kind.FILE, size)
            with transport.open_read(path) as source:
                assert source.size == size
                assert b"".join(source) == data, f"a file of {size} bytes came back different"
                assert source.read() == b"", "behind the end there is nothing, however often it is asked for"

    def test_a_large_piece_is_taken_at_once(self, transport: Transport) -> None:
        data = some_bytes(3 * 1024 * 1024 + 5)
        fill(transport, "large", data)
        assert same(content(transport, "large"), data)

    def test_a_read_gives_no_more_than_asked(self, transport: Transport) -> None:
        data = some_bytes(300_000)
        fill(transport, "x", data)
        got = b""
        with transport.open_read("x") as source:
            for limit in (1, 10, 32768, 32769, 100_000, 1_000_000):
                piece = source.read(limit)
                assert 0 < len(piece) <= limit
                got += piece
            got += b"".join(source)
        assert got == data

    def test_a_file_is_made_once(self, transport: Transport) -> None:
        fill(transport, "x", b"first")
        transport.make_dir("folder")
        for taken in ("x", "folder"):
            with pytest.raises(AlreadyExists) as caught:
                transport.create(taken)
            assert (caught.value.operation, caught.value.path) == ("create", taken)
        assert content(transport, "x") == b"first"
        assert transport.stat("folder").kind is Kind.FOLDER

    def test_a_file_in_a_folder_that_is_not_there_is_not_made(self, transport: Transport) -> None:
        with pytest.raises(NotFound):
            transport.create("nowhere/x")
        fill(transport, "file")
        with refused("create"):
            transport.create("file/x")
        assert names(transport) == ["file"]

    def test_an_uncommitted_file_is_removed(self, transport: Transport) -> None:
        with transport.create("x") as sink:
            sink.write(some_bytes(100_000))
            assert names(transport) == ["x"], "the file has its own name from the start, and no other"
        assert names(transport) == []

    def test_an_error_while_writing_removes_the_file_and_is_not_hidden(self, transport: Transport) -> None:
        def write_half() -> None:
            with transport.create("x") as sink:
                sink.write(some_bytes(100_000))
                raise ZeroDivisionError("the caller's own")

        with pytest.raises(ZeroDivisionError, match="the caller's own"):
            write_half()
        assert names(transport) == []

    def test_abort_may_be_called_again(self, transport: Transport) -> None:
        sink = transport.create("x")
        sink.write(b"data")
        sink.abort()
        fill(transport, "x", b"another")
        sink.abort()
        assert content(transport, "x") == b"another", "a second abort does not remove what came after"

    def test_abort_after_commit_does_nothing(self, transport: Transport) -> None:
        sink = transport.create("x")
        sink.write(b"data")
        sink.commit()
        sink.abort()
        assert content(transport, "x") == b"data"

    def test_a_committed_file_may_be_renamed_at_once(self, transport: Transport) -> None:
        # No handle that would keep the name busy is left behind, neither by the writer nor by a reader.
        with transport.create("B_x") as sink:
            sink.write(b"data")
            sink.commit()
            transport.publish("B_x", "x")
        with transport.open_read("x") as source:
            source.read()
        transport.claim("x", "C_x")
        assert names(transport) == ["C_x"]

    def test_files_are_written_and_read_side_by_side(self, transport: Transport) -> None:
        one, other = some_bytes(700_001), some_bytes(700_002)
        fill(transport, "old", one)
        with transport.open_read("old") as source, transport.create("a") as first, transport.create("b") as second:
            for at in range(0, len(other), 50_000):
                first.write(source.read(70_000))
                second.write(other[at : at + 50_000])
                assert transport.stat("old").size == len(one)
            for piece in source:
                first.write(piece)
            second.commit()
            first.commit()
        assert same(content(transport, "a"), one)
        assert same(content(transport, "b"), other)
        assert names(transport) == ["a", "b", "old"]

    def test_reading_holds_little_however_large_the_file(self, transport: Transport) -> None:
        piece = some_bytes(1024 * 1024)
        with transport.create("large") as sink:
            for _ in range(HELD_SIZE // len(piece)):
                sink.write(piece)
            sink.commit()
        tracemalloc.start()
        try:
            with transport.open_read("large") as source:
                total = 0
                for turn, data in enumerate(source):
                    total += len(data)
                    if turn < 20:
                        # A slow reader: a read-ahead without a bound would have the whole file by the end of this.
                        transport.stat("large")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert total == HELD_SIZE
        assert peak < HELD_AT_MOST, f"{peak} bytes were held to read {HELD_SIZE}"

    def test_only_files_can_be_read(self, transport: Transport) -> None:
        with pytest.raises(NotFound) as caught:
            transport.open_read("nothing")
        assert (caught.value.operation, caught.value.path) == ("open_read", "nothing")
        with pytest.raises(NotFound):
            transport.open_read("nowhere/nothing")
        transport.make_dir("folder")
        with refused("open_read"):
            transport.open_read("folder")

    def test_a_source_may_be_closed_early_and_twice(self, transport: Transport) -> None:
        fill(transport, "x", some_bytes(2 * 1024 * 1024))
        for _ in range(3):
            source = transport.open_read("x")
            source.read(10)
            source.close()
            source.close()
        assert same(content(transport, "x"), some_bytes(2 * 1024 * 1024))

    def test_a_finished_sink_takes_nothing(self, transport: Transport) -> None:
        sink = transport.create("x")
        sink.commit()
        with pytest.raises((TransportError, ValueError)):
            sink.write(b"late")
        assert content(transport, "x") == b""
