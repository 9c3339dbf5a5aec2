"""The memory backend: room that ends, stores by name, and files that others change."""

import threading
import time

import pytest

from transports.contract.place import content, fill, names
from transports.errors import ChangedWhileReading, NoSpace, ServerFailure
from transports.memory import MemoryStore, MemoryTransport, named_store


def test_a_full_store_refuses_and_gives_back_what_is_removed() -> None:
    store = MemoryStore(limit=1000)
    transport = MemoryTransport(store)
    fill(transport, "x", b"x" * 600)
    assert transport.free_space() == 400
    sink = transport.create("y")
    sink.write(b"y" * 400)
    with pytest.raises(NoSpace, match="1000 bytes"):
        sink.write(b"y")
    sink.abort()
    assert names(transport) == ["x"]
    assert transport.free_space() == 400
    fill(transport, "new", b"n" * 300)
    transport.replace("new", "x")
    assert transport.free_space() == 700
    transport.delete("x")
    assert transport.free_space() == 1000


def test_without_a_limit_the_room_is_unknown() -> None:
    assert MemoryTransport(MemoryStore()).free_space() is None


def test_a_store_has_one_name_in_the_process() -> None:
    assert named_store("test_a_store") is named_store("test_a_store")
    assert named_store("test_a_store") is not named_store("test_another")


def test_a_file_that_shrinks_is_no_whole_file() -> None:
    store = MemoryStore()
    store.put("x", b"x" * 1000)
    with MemoryTransport(store).open_read("x") as source:
        source.read(100)
        store.put("x", b"x" * 50)
        with pytest.raises(ChangedWhileReading):
            source.read()


def test_a_file_that_was_removed_is_not_committed() -> None:
    transport = MemoryTransport(MemoryStore())
    sink = transport.create("x")
    transport.delete("x")
    sink.write(b"data")
    with pytest.raises(ServerFailure):
        sink.commit()
    sink.abort()
    assert names(transport) == []


def test_files_are_stamped_by_the_clock_that_was_given() -> None:
    ticks = iter(range(100, 200))
    transport = MemoryTransport(MemoryStore(now=lambda: float(next(ticks))))
    fill(transport, "x")
    modified = transport.stat("x").modified
    assert modified is not None
    assert 100 <= modified < transport.server_time()


def test_a_change_in_another_thread_ends_the_waiting() -> None:
    store = MemoryStore()
    transport = MemoryTransport(store)
    timer = threading.Timer(0.1, store.put, ("x", b"data"))
    timer.start()
    started = time.monotonic()
    transport.wait_for_change("", 20)
    timer.join()
    assert time.monotonic() - started < 10
    assert content(transport, "x") == b"data"
