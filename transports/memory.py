"""A directory in memory, shared by the threads of one process: every step is one step, and nothing survives the process."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from transports import errors
from transports.base import (
    CHUNK,
    Capabilities,
    Entry,
    Fact,
    Guarantee,
    Kind,
    Sink,
    Source,
    Transport,
    check_before,
    check_left,
    check_start,
)
from transports.paths import checked, split
from transports.patterns import matches


@dataclass(slots=True)
class _File:
    modified: float
    data: bytearray = field(default_factory=bytearray)
    linked: bool = True  # False once removed or replaced: an open handle still reaches it, a name does not


@dataclass(slots=True)
class _Folder:
    modified: float
    children: "dict[str, _File | _Folder]" = field(default_factory=dict)


_LONGEST_NAME = 255  # bytes, as on most disks: what works here works there


def _find(operation: str, base: _Folder, path: str) -> _File | _Folder:
    """What a path below `base` names. Raises NotFound. Call it with the store's lock held, as all that follow."""
    node: _File | _Folder = base
    for segment in path.split("/") if path else ():
        below = node.children.get(segment) if isinstance(node, _Folder) else None
        if below is None:
            raise errors.NotFound(operation, path)
        node = below
    return node


def _folder(operation: str, base: _Folder, path: str) -> _Folder:
    node = _find(operation, base, path)
    if isinstance(node, _File):
        raise errors.NotFound(operation, path, "it is a file, not a folder")
    return node


def _file(operation: str, base: _Folder, path: str) -> _File:
    node = _find(operation, base, path)
    if isinstance(node, _Folder):
        raise errors.Denied(operation, path, "it is a folder")
    return node


def _parent(operation: str, base: _Folder, path: str) -> tuple[_Folder, str]:
    """The folder that holds a name, and the name."""
    folder, name = split(path)
    if not name:
        raise errors.Denied(operation, path, "the root itself cannot be changed")
    if len(name.encode()) > _LONGEST_NAME:
        raise errors.Unsupported(operation, path, f"a name has {_LONGEST_NAME} bytes at most")
    return _folder(operation, base, folder), name


class MemoryStore:
    """The files themselves. Any number of `MemoryTransport`s may share one, in any number of threads.

    `limit` is the room in bytes; without one there is no end. `now` is the clock that stamps the files, in seconds since
    the epoch.
    """

    def __init__(self, limit: int | None = None, now: Callable[[], float] = time.time) -> None:
        self.limit = limit
        self.now = now
        self.used = 0
        self.changes = 0
        self.changed = threading.Condition()  # held for every look and every change, so that each is one step
        self.root = _Folder(now())

    def put(self, path: str, data: bytes) -> None:
        """Writes a file in place, as a program that knows nothing of the contract would."""
        with self.changed:
            folder, name = _parent("put", self.root, path)
            known = folder.children.get(name)
            file = known if isinstance(known, _File) else _File(self.now())
            self.used += len(data) - len(file.data)
            file.data[:] = data
            self.link(folder, name, file)

    def link(self, folder: _Folder, name: str, node: _File | _Folder) -> None:
        """Gives a node a name, in place of what had it. Call it with `changed` held, as all that follow."""
        former = folder.children.get(name)
        if isinstance(former, _File) and former is not node:
            self._forget(former)
        folder.children[name] = node
        self.note(folder)

    def unlink(self, folder: _Folder, name: str) -> None:
        node = folder.children.pop(name)
        if isinstance(node, _File):
            self._forget(node)
        self.note(folder)

    def write(self, path: str, file: _File, at: int, data: bytes) -> None:
        grown = max(at + len(data) - len(file.data), 0)
        if file.linked and self.limit is not None and self.used + grown > self.limit:
            raise errors.NoSpace("write", path, f"the store holds {self.limit} bytes at most")
        if file.linked:
            self.used += grown
        file.data[at : at + len(data)] = data
        file.modified = self.now()

    def note(self, folder: _Folder) -> None:
        """Stamps a folder and wakes who waits for a change."""
        folder.modified = self.now()
        self.changes += 1
        self.changed.notify_all()

    def _forget(self, file: _File) -> None:
        file.linked = False
        self.used -= len(file.data)


_stores: dict[str, MemoryStore] = {}
_stores_lock = threading.Lock()


def named_store(name: str) -> MemoryStore:
    """The store of that name in this process, made at its first use: what `memory://name` means."""
    with _stores_lock:
        return _stores.setdefault(name, MemoryStore())


class _MemorySink(Sink):
    def __init__(self, store: MemoryStore, folder: _Folder, path: str, file: _File, at: int = 0) -> None:
        self._store = store
        self._folder = folder
        self._path = path
        self._file: _File | None = file
        self._at = at

    @property
    def acknowledged(self) -> int:
        return self._at

    def write(self, data: bytes) -> None:
        if self._file is None:
            raise errors.ServerFailure("write", self._path, "the file is closed already")
        with self._store.changed:
            self._store.write(self._path, self._file, self._at, data)
            self._at += len(data)

    def commit(self) -> None:
        if self._file is None or not self._file.linked:
            raise errors.ServerFailure("commit", self._path, "the file is closed or was removed")
        if len(self._file.data) != self._at:
            there = len(self._file.data)
            raise errors.ServerFailure("commit", self._path, f"{self._at} bytes were written and {there} are there")
        self._file = None

    def leave(self) -> None:
        self._file = None

    def abort(self) -> None:
        file, self._file = self._file, None
        if file is None or not file.linked:
            return
        name = split(self._path)[1]
        with self._store.changed:
            if self._folder.children.get(name) is file:
                self._store.unlink(self._folder, name)


class _MemorySource(Source):
    def __init__(self, store: MemoryStore, path: str, file: _File, start: int) -> None:
        check_start(path, start, len(file.data))
        self.size = len(file.data)
        self.modified = file.modified
        self._store = store
        self._path = path
        self._file = file
        self._at = start

    def read(self, limit: int = CHUNK) -> bytes:
        with self._store.changed:
            data = bytes(self._file.data[self._at : min(self._at + limit, self.size)])
        if not data and limit and self._at < self.size:
            raise errors.ChangedWhileReading("read", self._path, f"it ended after {self._at} of {self.size} bytes")
        self._at += len(data)
        return data

    def close(self) -> None:
        """Nothing is held that would have to be given back."""


class MemoryTransport(Transport):
    """A connection to a folder of a `MemoryStore`."""

    def __init__(self, store: MemoryStore, root: str = "") -> None:
        """Raises NotFound where the store has no such folder."""
        self._store = store
        self._open = True
        locked = Fact(Guarantee.ATOMIC, "done under the lock of the store")
        self.capabilities = Capabilities(
            server="memory of this process",
            create=locked,
            publish=locked,
            claim=locked,
            replace=locked,
            durable=Fact(Guarantee.NONE, "memory ends with the process"),
            pattern=False,
            notification=True,
            resume=True,
            longest_name=_LONGEST_NAME,
            time_resolution=0.001,
        )
        with store.changed:
            self._root = _folder("connect", store.root, checked("connect", root))
            self._seen = store.changes

    def create(self, path: str) -> Sink:
        with self._asked("create", path):
            folder, name = _parent("create", self._root, path)
            if name in folder.children:
                raise errors.AlreadyExists("create", path)
            file = _File(self._store.now())
            self._store.link(folder, name, file)
            return _MemorySink(self._store, folder, path, file)

    def resume(self, path: str, at: int, before: bytes = b"") -> Sink:
        with self._asked("resume", path):
            folder, _ = _parent("resume", self._root, path)
            file = _file("resume", self._root, path)
            check_left(path, at, len(file.data))
            check_before(path, at, before, bytes(file.data[at - len(before) : at]))
            return _MemorySink(self._store, folder, path, file, at)

    def open_read(self, path: str, start: int = 0) -> Source:
        with self._asked("open_read", path):
            return _MemorySource(self._store, path, _file("open_read", self._root, path), start)

    def publish(self, src: str, dst: str) -> None:
        self._rename("publish", src, dst, over_another=False)

    def claim(self, src: str, dst: str) -> None:
        self._rename("claim", src, dst, over_another=True)

    def replace(self, src: str, dst: str) -> None:
        self._rename("replace", src, dst, over_another=True)

    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        with self._asked("scan", folder):
            self._seen = self._store.changes
            children = _folder("scan", self._root, folder).children
            return iter([_entry(name, node) for name, node in children.items() if matches(pattern, name)])

    def stat(self, path: str) -> Entry:
        with self._asked("stat", path):
            return _entry(split(path)[1], _find("stat", self._root, path))

    def delete(self, path: str) -> None:
        with self._asked("delete", path):
            _file("delete", self._root, path)
            self._store.unlink(*_parent("delete", self._root, path))

    def make_dir(self, path: str) -> None:
        with self._asked("make_dir", path):
            folder, name = _parent("make_dir", self._root, path)
            if name in folder.children:
                raise errors.AlreadyExists("make_dir", path)
            self._store.link(folder, name, _Folder(self._store.now()))

    def remove_dir(self, path: str) -> None:
        with self._asked("remove_dir", path):
            folder, name = _parent("remove_dir", self._root, path)
            if _folder("remove_dir", self._root, path).children:
                raise errors.Busy("remove_dir", path, "the folder is not empty")
            self._store.unlink(folder, name)

    def same_volume(self, first: str, second: str) -> bool | None:
        for path in (first, second):
            with self._asked("same_volume", path):
                _folder("same_volume", self._root, path)
        return True

    def server_time(self, folder: str = "") -> float:
        with self._asked("server_time", folder):
            return self._store.now()

    def free_space(self, folder: str = "") -> int | None:
        with self._asked("free_space", folder):
            return None if self._store.limit is None else self._store.limit - self._store.used

    def wait_for_change(self, folder: str, timeout: float) -> None:
        with self._asked("wait_for_change", folder):
            self._store.changed.wait_for(lambda: self._store.changes != self._seen, timeout)
            self._seen = self._store.changes

    def close(self) -> None:
        self._open = False

    def _asked(self, operation: str, path: str) -> threading.Condition:
        """The lock of the store, where this may be asked at all."""
        if not self._open:
            raise errors.Unreachable(operation, path, "the connection was closed")
        checked(operation, path)
        return self._store.changed

    def _rename(self, operation: str, src: str, dst: str, *, over_another: bool) -> None:
        checked(operation, dst)
        with self._asked(operation, src):
            file = _file(operation, self._root, src)
            old_folder, old_name = _parent(operation, self._root, src)
            new_folder, new_name = _parent(operation, self._root, dst)
            former = new_folder.children.get(new_name)
            if former is not None and not over_another:
                raise errors.AlreadyExists(operation, dst)
            if isinstance(former, _Folder):
                raise errors.Denied(operation, dst, "it is a folder")
            if former is file:
                return
            del old_folder.children[old_name]
            self._store.note(old_folder)
            self._store.link(new_folder, new_name, file)


def _entry(name: str, node: _File | _Folder) -> Entry:
    if isinstance(node, _Folder):
        return Entry(name, Kind.FOLDER, None, node.modified)
    return Entry(name, Kind.FILE, len(node.data), node.modified)
