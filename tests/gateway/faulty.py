"""Transports with one fault each, named by it; everything but the fault is the real transport under them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from transports.base import CHUNK, Entry, Sink, Source, Transport
from transports.errors import OutcomeUnknown, TransportError, Unreachable


@dataclass
class Passing(Transport):
    """No fault at all: every call reaches the transport below, and is counted by the name of its member."""

    below: Transport
    calls: list[tuple[str, str]] = field(default_factory=list)
    closed: bool = False

    def __post_init__(self) -> None:
        self.capabilities = self.below.capabilities

    def around(self, operation: str, path: str, call: Callable[[], Any]) -> Any:
        """What a fault changes."""
        return call()

    def _do(self, operation: str, path: str, call: Callable[[], Any]) -> Any:
        self.calls.append((operation, path))
        return self.around(operation, path, call)

    def create(self, path: str) -> Sink:
        sink: Sink = self._do("create", path, lambda: self.below.create(path))
        return sink

    def resume(self, path: str, at: int, before: bytes = b"") -> Sink:
        sink: Sink = self._do("resume", path, lambda: self.below.resume(path, at, before))
        return sink

    def open_read(self, path: str, start: int = 0) -> Source:
        source: Source = self._do("open_read", path, lambda: self.below.open_read(path, start))
        return source

    def publish(self, src: str, dst: str) -> None:
        self._do("publish", src, lambda: self.below.publish(src, dst))

    def claim(self, src: str, dst: str) -> None:
        self._do("claim", src, lambda: self.below.claim(src, dst))

    def replace(self, src: str, dst: str) -> None:
        self._do("replace", src, lambda: self.below.replace(src, dst))

    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        entries: list[Entry] = self._do("scan", folder, lambda: list(self.below.scan(folder, pattern)))
        return iter(entries)

    def stat(self, path: str) -> Entry:
        entry: Entry = self._do("stat", path, lambda: self.below.stat(path))
        return entry

    def delete(self, path: str) -> None:
        self._do("delete", path, lambda: self.below.delete(path))

    def make_dir(self, path: str) -> None:
        self._do("make_dir", path, lambda: self.below.make_dir(path))

    def remove_dir(self, path: str) -> None:
        self._do("remove_dir", path, lambda: self.below.remove_dir(path))

    def same_volume(self, first: str, second: str) -> bool | None:
        same: bool | None = self._do("same_volume", first, lambda: self.below.same_volume(first, second))
        return same

    def server_time(self, folder: str = "") -> float:
        seconds: float = self._do("server_time", folder, lambda: self.below.server_time(folder))
        return seconds

    def free_space(self, folder: str = "") -> int | None:
        free: int | None = self._do("free_space", folder, lambda: self.below.free_space(folder))
        return free

    def wait_for_change(self, folder: str, timeout: float) -> None:
        self._do("wait_for_change", folder, lambda: self.below.wait_for_change(folder, timeout))

    def close(self) -> None:
        self.closed = True
        self.below.close()


@dataclass
class Refuses(Passing):
    """Answers an operation with an error, and does not do it. `times`: how often, before it works again."""

    operation: str = ""
    error: type[TransportError] = Unreachable
    times: list[int] = field(default_factory=lambda: [1_000_000])  # shared by the connections to one endpoint

    def around(self, operation: str, path: str, call: Callable[[], Any]) -> Any:
        if operation == self.operation and self.times[0] > 0:
            self.times[0] -= 1
            raise self.error(operation, path, "so the test says")
        return call()


@dataclass
class LosesReply(Passing):
    """The server does what it is asked, and the answer never comes; the connection is dead from then on.

    `before` says that the request was lost, so that nothing was done. It strikes once for each entry of `strikes`, which is
    how many calls of the operation are let through before.
    """

    operation: str = ""
    before: bool = False
    strikes: list[int] = field(default_factory=lambda: [0])  # shared by the connections to one endpoint
    dead: bool = False

    def around(self, operation: str, path: str, call: Callable[[], Any]) -> Any:
        if self.dead:
            raise Unreachable(operation, path, "the connection was lost")
        if operation == self.operation and self.strikes:
            if self.strikes[0] == 0:
                self.strikes.pop(0)
                self.dead = True
                if not self.before:
                    call()
                raise OutcomeUnknown(operation, path)
            self.strikes[0] -= 1
        return call()


@dataclass
class DiesWhileWriting(Passing):
    """The connection is gone after a first piece of a file was written; nothing can be said over it any more."""

    dead: bool = False

    def around(self, operation: str, path: str, call: Callable[[], Any]) -> Any:
        if self.dead:
            raise Unreachable(operation, path, "the connection was lost")
        made = call()
        return _DyingSink(self, made) if operation == "create" else made


@dataclass
class _DyingSink(Sink):
    transport: DiesWhileWriting
    below: Sink

    @property
    def acknowledged(self) -> int:
        return self.below.acknowledged

    def leave(self) -> None:
        self.below.leave()

    def write(self, data: bytes) -> None:
        self.below.write(data[:10])
        self.transport.dead = True
        raise Unreachable("write", "", "the connection was lost")

    def commit(self) -> None:
        raise Unreachable("commit", "", "the connection was lost")

    def abort(self) -> None:
        raise Unreachable("abort", "", "the connection was lost")


@dataclass
class DiesWhileReading(Passing):
    """The connection is gone after a first piece of a file was read; it strikes `times` times."""

    times: list[int] = field(default_factory=lambda: [1])

    def around(self, operation: str, path: str, call: Callable[[], Any]) -> Any:
        made = call()
        if operation == "open_read" and self.times[0] > 0:
            self.times[0] -= 1
            return _DyingSource(made)
        return made


class _DyingSource(Source):
    def __init__(self, below: Source) -> None:
        self.size = below.size
        self.modified = below.modified
        self._below = below
        self._read = False

    def read(self, limit: int = CHUNK) -> bytes:
        if self._read:
            raise Unreachable("read", "", "the connection was lost")
        self._read = True
        return self._below.read(min(limit, 3))

    def close(self) -> None:
        self._below.close()


@dataclass
class StoresOneByteLess(Passing):
    """A server that acknowledges more than it has, as one whose disk filled up unnoticed."""

    def around(self, operation: str, path: str, call: Callable[[], Any]) -> Any:
        made = call()
        return _Short(made) if operation == "create" else made


@dataclass
class _Short(Sink):
    below: Sink

    @property
    def acknowledged(self) -> int:
        return self.below.acknowledged

    def leave(self) -> None:
        self.below.leave()

    def write(self, data: bytes) -> None:
        self.below.write(data[:-1])

    def commit(self) -> None:
        self.below.commit()

    def abort(self) -> None:
        self.below.abort()
