"""Going on where something was cut: a file half made, and a file half read."""

import pytest

from transports.base import MARK, Transport
from transports.contract.place import ContractBase, Place, content, fill, names, refused, same, some_bytes
from transports.errors import ChangedWhileReading, NotFound, ServerFailure, TransportError, Unsupported

SIZE = 6 * 1024 * 1024 + 7  # bytes: more than any backend has under way
STARTS = (0, 1, 32767, 32768, 65537, 262144, 299_999, 300_000)


def _half_made(place: Place, path: str, data: bytes) -> tuple[int, int]:
    """Leaves a file over a connection that ends; how much of it was acknowledged, and how much is there."""
    with place.connect("") as transport:
        sink = transport.create(path)
        for at in range(0, len(data), 100_000):
            sink.write(data[at : at + 100_000])
        sink.leave()
        assert names(transport) == [path], "it is left, and not removed"
        there = transport.stat(path).size
        assert there is not None
        return sink.acknowledged, there


class ResumeContract(ContractBase):
    """`resume`, `Sink.acknowledged`, `Sink.leave`, and `open_read` from a byte on."""

    def test_a_file_is_gone_on_with_from_what_was_acknowledged(self, place: Place, transport: Transport) -> None:
        data = some_bytes(SIZE)
        known, there = _half_made(place, "x", data[: SIZE // 2])
        assert 0 <= known <= there <= SIZE // 2
        if not transport.capabilities.resume:
            with pytest.raises(Unsupported):
                transport.resume("x", known)
            return
        assert known > 0, "of megabytes something is known, or nothing could ever be gone on with"
        with transport.resume("x", known) as sink:
            assert sink.acknowledged == known
            sink.write(data[known:])
            sink.commit()
            assert sink.acknowledged == SIZE, "what is committed is acknowledged"
        assert same(content(transport, "x"), data)

    def test_from_less_than_there_is_and_from_exactly_that(self, place: Place, transport: Transport) -> None:
        if not transport.capabilities.resume:
            return
        data = some_bytes(700_001)
        for path, back in (("less", 300_000), ("all but one", 1), ("exactly", 0)):
            fill(transport, path, data[:400_000])
            with transport.resume(path, 400_000 - back) as sink:
                for at in range(400_000 - back, len(data), 70_000):
                    sink.write(data[at : at + 70_000])
                sink.commit()
            assert same(content(transport, path), data)

    def test_a_commit_whose_answer_was_lost_is_made_again(self, transport: Transport) -> None:
        if not transport.capabilities.resume:
            return
        for path, data in (("x", b"whole"), ("empty", b"")):
            fill(transport, path, data)
            with transport.resume(path, len(data)) as sink:
                sink.commit()
            assert same(content(transport, path), data)

    def test_what_would_be_left_behind_the_end_is_refused(self, transport: Transport) -> None:
        if not transport.capabilities.resume:
            return
        fill(transport, "x", b"a long content")
        sink = transport.resume("x", 2)
        sink.write(b"bc")
        with pytest.raises(ServerFailure):
            sink.commit()
        sink.leave()

    def test_a_file_is_gone_on_with_by_one_and_given_up(self, transport: Transport) -> None:
        if not transport.capabilities.resume:
            return
        fill(transport, "x", b"half")
        with transport.resume("x", 4) as sink:
            sink.write(b" and more")
        assert names(transport) == [], "not committed, it is removed as any other"

    def test_a_file_that_cannot_be_the_one_that_was_left_is_not_touched(self, transport: Transport) -> None:
        if not transport.capabilities.resume:
            return
        fill(transport, "short", b"short")
        with pytest.raises(NotFound, match="5 bytes") as caught:
            transport.resume("short", 6)
        assert (caught.value.operation, caught.value.path) == ("resume", "short")
        data = some_bytes(2 * MARK)
        fill(transport, "other", data)
        with pytest.raises(NotFound, match="not the file that was left"):
            transport.resume("other", MARK + 1, b"x" + data[2 : MARK + 1])
        assert content(transport, "short") == b"short"
        assert same(content(transport, "other"), data)
        for path in ("short", "other"):
            transport.delete(path)  # nobody holds it

    def test_a_file_is_known_again_by_what_stands_before(self, transport: Transport) -> None:
        if not transport.capabilities.resume:
            return
        data = some_bytes(100_000)
        for path, at in (("first", 1), ("many", MARK), ("more", MARK + 1), ("all", len(data))):
            fill(transport, path, data)
            with transport.resume(path, at, data[max(at - MARK, 0) : at]) as sink:
                sink.write(data[at:])
                sink.commit()
            assert same(content(transport, path), data)

    def test_only_a_file_that_is_there_is_gone_on_with(self, transport: Transport) -> None:
        if not transport.capabilities.resume:
            return
        for path in ("nothing", "nowhere/nothing"):
            with pytest.raises(NotFound):
                transport.resume(path, 0)
        transport.make_dir("folder")
        with refused("resume"):
            transport.resume("folder", 0)
        assert names(transport) == ["folder"], "nothing was made"

    def test_a_file_that_was_left_is_finished_for_this_sink(self, transport: Transport) -> None:
        sink = transport.create("x")
        sink.write(b"data")
        sink.leave()
        sink.leave()
        sink.abort()
        with pytest.raises((TransportError, ValueError)):
            sink.write(b"late")
        assert names(transport) == ["x"]

    def test_leaving_a_committed_file_does_nothing(self, transport: Transport) -> None:
        sink = transport.create("x")
        sink.write(b"data")
        sink.commit()
        sink.leave()
        assert content(transport, "x") == b"data"

    def test_a_file_is_read_from_a_byte_on(self, transport: Transport) -> None:
        data = some_bytes(300_000)
        fill(transport, "x", data)
        for start in STARTS:
            with transport.open_read("x", start) as source:
                assert source.size == len(data), "the size is that of the whole file"
                assert same(b"".join(source), data[start:]), f"read from byte {start} on it is different"
                assert source.read() == b""

    def test_a_file_that_ends_before_the_start_is_said_to(self, transport: Transport) -> None:
        fill(transport, "x", b"12345")
        with pytest.raises(ChangedWhileReading, match="5 bytes"):
            transport.open_read("x", 6)
        transport.delete("x")  # nobody holds it

    def test_a_source_tells_when_the_file_was_changed(self, transport: Transport) -> None:
        fill(transport, "x", b"data")
        with transport.open_read("x") as source:
            assert source.modified == transport.stat("x").modified
