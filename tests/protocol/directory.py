"""A directory in memory that carries out operations in the steps in which others see them happen.

Whatever takes a file server time is two steps here: a file that is stored is seen empty before it is seen whole, and a
listing shows half of the names as they were before and half as they were after whatever happened in between.
"""

import hashlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from protocol.hashes import new_hasher
from protocol.names import Name, ScratchName
from protocol.operations import (
    Claim,
    Delete,
    Fetch,
    Instant,
    MakeFolder,
    Now,
    Operation,
    Outcome,
    Pause,
    Publish,
    ReadSmall,
    Scan,
    Stat,
    Store,
    Stored,
)
from protocol.rules import Rules
from protocol.snapshot import Listed
from protocol.states import TRANSITIONS


@dataclass(slots=True, eq=False)
class File:
    """What a name stands for; two names of one file are two keys with one value."""

    data: bytes = b""
    regular: bool = True


@dataclass(slots=True)
class Words:
    """The content of a file to be sent, in pieces."""

    pieces: tuple[bytes, ...]

    def chunks(self) -> Iterator[bytes]:
        return iter(self.pieces)


class Directory:
    """The files of one drop. Its renames hold every step against the states table, and none may replace a file."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.files: dict[str, File] = {}
        self.folders: set[str] = {"", *rules.layout.folders}
        self.held: dict[str, int] = {}  # a path, and how many times more it is found busy; -1: always
        self.late: list[Operation[Outcome]] = []
        self.clock = 1000.0
        self.renames: list[tuple[str, str]] = []

    def put(self, path: str, data: bytes = b"", *, regular: bool = True) -> None:
        self.files[path] = File(data, regular)

    def ls(self) -> list[str]:
        return sorted(self.files)

    def __getitem__(self, path: str) -> bytes:
        return self.files[path].data

    def perform(self, operation: Operation[Any]) -> Generator[None, None, Any]:
        """The operation's visible steps, and its result."""
        self.clock += 0.001
        match operation:
            case Store(path, content, algorithm):
                return (yield from self._store(path, content, algorithm))
            case Scan(folder, pattern):
                return (yield from self._scan(folder, pattern))
            case Fetch(path, algorithm, into):
                data = self._read(path)
                if data is not None and into is not None:
                    into.write(data)
                return None if data is None else Stored(len(data), _digest(algorithm, data))
            case ReadSmall(path, limit):
                data = self._read(path)
                return None if data is None else data[: limit + 1]
            case Stat(path):
                return self._listed(path)
            case Now():
                return Instant(self.clock, "2026-11-30T15:01:02.123456Z")
            case Pause(attempt):
                self.clock += 0.05 * 2 ** min(attempt, 7)
                self.carry_out_late()
                return None
            case Publish() | Claim() | Delete() | MakeFolder():
                return self.change(operation)
        raise AssertionError(f"no procedure that is tested here asks for {operation!r}")

    def change(self, operation: Operation[Outcome]) -> Outcome:
        """One step that changes names, at once."""
        match operation:
            case Publish(src, dst) | Claim(src, dst):
                return self._rename(src, dst, replace=isinstance(operation, Claim))
            case Delete(path):
                if path not in self.files:
                    return Outcome.GONE
                if self._is_held(path):
                    return Outcome.BUSY
                del self.files[path]
                return Outcome.DONE
            case MakeFolder(path):
                if path in self.folders:
                    return Outcome.EXISTS
                if _folder(path) not in self.folders:
                    return Outcome.GONE
                self.folders.add(path)
                return Outcome.DONE
        raise AssertionError(f"{operation!r} changes no names")

    def cut(self, operation: Operation[Any]) -> None:
        """A rename that is link and unlink, of which only the link was made."""
        match operation:
            case Publish(src, dst) | Claim(src, dst) if src in self.files and dst not in self.files:
                self._note(src, dst)
                self.files[dst] = self.files[src]
            case _:
                return

    def carry_out_late(self) -> None:
        """What a server still had to do for connections that are gone."""
        late, self.late = self.late, []
        for operation in late:
            self.change(operation)

    def _rename(self, src: str, dst: str, *, replace: bool) -> Outcome:
        if src not in self.files or _folder(dst) not in self.folders:
            return Outcome.GONE
        if self._is_held(src):
            return Outcome.BUSY
        if self.files.get(dst) is self.files[src]:
            return Outcome.DONE if replace else Outcome.EXISTS  # POSIX: a success that changes nothing
        if dst in self.files and not replace:
            return Outcome.EXISTS
        assert dst not in self.files, f"the claim {src} -> {dst} replaced a file"
        self._note(src, dst)
        self.files[dst] = self.files.pop(src)
        return Outcome.DONE

    def _note(self, src: str, dst: str) -> None:
        self.renames.append((src, dst))
        before, after = self.rules.layout.parse(src), self.rules.layout.parse(dst)
        if isinstance(before, Name) and self.rules.is_token(before.kind) and not isinstance(after, ScratchName):
            assert isinstance(after, Name)
            assert before.item == after.item
            assert (before.state, after.state) in TRANSITIONS, f"{src} -> {dst} is no step of the states table"

    def _is_held(self, path: str) -> bool:
        left = self.held.get(path, 0)
        if left > 0:
            self.held[path] = left - 1
        return left != 0

    def _store(self, path: str, content: Any, algorithm: str) -> Generator[None, None, Stored | None]:
        if path in self.files:
            return None
        if _folder(path) not in self.folders:
            raise FileNotFoundError(path)
        file = self.files[path] = File()
        yield
        data = content if isinstance(content, bytes) else b"".join(content.chunks())
        file.data = data  # by its handle: renamed or deleted meanwhile, it is still this file
        return Stored(len(data), _digest(algorithm, data))

    def _scan(self, folder: str, pattern: str) -> Generator[None, None, tuple[Listed, ...]]:
        found: dict[str, Listed] = {}
        for half in (0, 1):
            for path in [*self.files, *self.folders]:
                name = path.rpartition("/")[2]
                if path and _folder(path) == folder and fnmatchcase(name, pattern) and _half(name) == half:
                    listed = self._listed(path)
                    assert listed is not None
                    found[path] = listed
            if not half:
                yield
        return tuple(found.values())

    def _read(self, path: str) -> bytes | None:
        file = self.files.get(path)
        return None if file is None else file.data

    def _listed(self, path: str) -> Listed | None:
        if path in self.folders:
            return Listed(path, regular=False, folder=True)
        file = self.files.get(path)
        return None if file is None else Listed(path, file.regular, size=len(file.data))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _half(name: str) -> int:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] & 1


def _digest(algorithm: str, data: bytes) -> str:
    hasher = new_hasher(algorithm)
    hasher.update(data)
    return hasher.hexdigest()
