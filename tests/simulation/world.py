"""A file server that can be seen between any two of its steps, in the ways in which real ones differ.

    posix      renames are one step
    openssh    a rename that must not replace is link, then unlink, by the server; a claim is one step (posix-rename)
    samba      a rename that must not replace is link, then delete, by a client that has the file open meanwhile; a claim is
               one step that one of a crowd gets

What a server does by itself it ends by itself, also when its client sleeps or is gone (`goes_on`). A server that can die
between the two halves of a claim leaves it with two owners: it promises no claims, and the gateway does not use it as a drop.

A listing is taken in two halves, so that a file renamed meanwhile can be missed or doubled. A file that is being stored is
seen empty first. Nothing may ever be replaced or lost: the world itself objects.
"""

import hashlib
import random
import zlib
from collections.abc import Callable, Generator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from protocol.names import FileKind, Name
from protocol.operations import (
    Claim,
    Delete,
    Fetch,
    MakeFolder,
    Operation,
    Outcome,
    Publish,
    ReadSmall,
    Replace,
    Scan,
    ServerTime,
    Stat,
    Store,
    Stored,
)
from protocol.rules import Rules
from protocol.snapshot import Listed
from protocol.states import TRANSITIONS, State

Flavour = Literal["posix", "openssh", "samba"]
FLAVOURS: tuple[Flavour, ...] = ("posix", "openssh", "samba")
Work = Generator[None, None, Any]


class Violation(AssertionError):
    """Something happened that the protocol promises can never happen."""


class File:
    """What names stand for; two names of one file are two keys with one value. `public`: it had a name that is read."""

    __slots__ = ("data", "modified", "public")

    def __init__(self, modified: float) -> None:
        self.data = b""
        self.modified = modified
        self.public = False


@lru_cache(65536)
def _place(path: str) -> tuple[str, str, int]:
    """A path's folder, its last part, and bits that say in which half of which listing it stands."""
    head, _, last = path.rpartition("/")
    return head, last, zlib.crc32(last.encode())


@lru_cache(65536)
def _fits(last: str, pattern: str) -> bool:
    return fnmatchcase(last, pattern)


@lru_cache(4096)
def digest(algorithm: str, data: bytes) -> str:
    """The hash of a content."""
    return hashlib.new(algorithm, data).hexdigest()


class World:
    """One drop on one server. `offset` is how far the server's clock is from the true time, in seconds.

    `renamed` is told every step of a token before it is made: (source, destination, their names).
    """

    def __init__(self, rules: Rules, flavour: Flavour, chance: random.Random, offset: float) -> None:
        self.rules = rules
        self.flavour: Flavour = flavour
        self.chance = chance
        self.offset = offset
        self.time = 0.0
        self.files: dict[str, File] = {}
        self.folders: set[str] = {"", *rules.layout.folders}
        self.late: list[Operation[Any]] = []  # requests of connections that are gone, still to be carried out
        self.held: set[str] = set()  # names that somebody has open
        self.published: dict[str, File] = {}  # by the first name under which they were read
        self.deleted_by_rule: set[str] = set()
        self.changes = 0  # of names that are neither leases nor scratch: how far the drop has come
        self.renamed: Callable[[str, str, Name, Name], None] = lambda _src, _dst, _before, _after: None
        self._names: dict[str, Name | None] = {}
        self._steps: dict[type, Callable[[Any], Work]] = {
            Publish: self._publish,
            Scan: self._scan,
            Store: self._store,
        }
        self._at_once: dict[type, Callable[[Any], Any]] = {
            Claim: self._claim,
            Stat: lambda o: self._listed(o.path),
            ReadSmall: self._read,
            Fetch: self._fetch,
            Delete: self._delete,
            Replace: self._replace,
            MakeFolder: self._make_folder,
            ServerTime: lambda _: self.time + self.offset,
        }

    # What procedures may ask.

    def work(self, operation: Operation[Any]) -> Work | None:
        """The visible steps of an operation that has more than one; None for one that is done `at_once`."""
        steps = self._steps.get(type(operation))
        return None if steps is None else steps(operation)

    def at_once(self, operation: Operation[Any]) -> Any:
        """The result of an operation that is one step."""
        return self._at_once[type(operation)](operation)

    def change(self, operation: Operation[Any]) -> Any:
        """All steps of an operation, with nobody looking in between."""
        work = self.work(operation)
        if work is None:
            return self.at_once(operation)
        while True:
            try:
                next(work)
            except StopIteration as stop:
                return stop.value

    def carry_out_late(self) -> None:
        """What the server still had to do for connections that are gone."""
        late, self.late = self.late, []
        for operation in late:
            self.change(operation)

    def goes_on(self, operation: Operation[Any]) -> bool:
        """Whether the server carries an operation that it has begun to its end, whatever becomes of its client."""
        return self.flavour == "openssh" and isinstance(operation, Publish)

    def cut(self, operation: Operation[Any]) -> None:
        """The server dies inside a rename: of link and unlink only the link was made."""
        if self.flavour == "posix" or not isinstance(operation, Publish):
            return
        if operation.src in self.files and operation.dst not in self.files:
            self._link(operation.src, operation.dst)

    def _read(self, operation: ReadSmall) -> bytes | None:
        file = self.files.get(operation.path)
        return None if file is None else file.data[: operation.limit + 1]

    def _fetch(self, operation: Fetch) -> Stored | None:
        file = self.files.get(operation.path)
        return None if file is None else Stored(len(file.data), digest(operation.algorithm, file.data))

    def _delete(self, operation: Delete) -> Outcome:
        if operation.path not in self.files:
            return Outcome.GONE
        if operation.path in self.held:
            return Outcome.BUSY
        self._unlink(operation.path)
        return Outcome.DONE

    def _make_folder(self, operation: MakeFolder) -> Outcome:
        if operation.path in self.folders:
            return Outcome.EXISTS
        self.folders.add(operation.path)
        return Outcome.DONE

    def _store(self, operation: Store) -> Work:
        path, content = operation.path, operation.content
        if path in self.files:
            return None
        self._changed(path)
        file = self.files[path] = File(self.time + self.offset)
        yield
        file.data = content if isinstance(content, bytes) else b"".join(content.chunks())
        file.modified = self.time + self.offset
        return Stored(len(file.data), digest(operation.algorithm, file.data))

    def _publish(self, operation: Publish) -> Work:
        src, dst = operation.src, operation.dst
        if src not in self.files:
            return Outcome.GONE
        if src in self.held:
            return Outcome.BUSY
        if dst in self.files:
            return Outcome.EXISTS
        file = self.files[src]
        self._link(src, dst)
        if self.flavour == "samba":
            # Share modes are the file's, not the name's: nobody renames it by either name while it is open.
            self.held.update((src, dst))
            try:
                yield
            finally:
                self.held.difference_update((src, dst))
        elif self.flavour != "posix":
            yield
        if self.files.get(src) is file:
            self._unlink(src)
        return Outcome.DONE

    def _claim(self, operation: Claim) -> Outcome:
        src, dst = operation.src, operation.dst
        if src not in self.files:
            return Outcome.GONE
        if src in self.held:
            return Outcome.BUSY
        if self.files.get(dst) is self.files[src]:
            return Outcome.DONE  # POSIX: one name of a file onto another of it is a success that changes nothing
        if dst in self.files:
            if self.flavour == "samba":
                return Outcome.EXISTS
            raise Violation(f"the rename of {src} to {dst} replaced a file")
        self._link(src, dst)
        del self.files[src]
        return Outcome.DONE

    def _replace(self, operation: Replace) -> Outcome:
        src, dst = operation.src, operation.dst
        if src not in self.files:
            return Outcome.GONE
        if dst in self.files and self.name(dst) is not None:
            raise Violation(f"{dst} was replaced by {src}")
        self.files[dst] = self.files.pop(src)
        return Outcome.DONE

    # What the world itself watches over.

    def name(self, path: str) -> Name | None:
        """The item's file that a path names, if it is one."""
        try:
            return self._names[path]
        except KeyError:
            parsed = self.rules.layout.parse(path)
            name = self._names[path] = parsed if isinstance(parsed, Name) else None
            return name

    def _changed(self, path: str) -> None:
        if path[:2] not in ("L_", "T_"):
            self.changes += 1

    def _link(self, src: str, dst: str) -> None:
        before, after = self.name(src), self.name(dst)
        if before is not None and after is not None:
            if before.item != after.item:
                raise Violation(f"{src} became {dst}: another item")
            if self.rules.is_token(before.kind):
                if (before.state, after.state) not in TRANSITIONS:
                    raise Violation(f"{src} became {dst}, which is no step of the states table")
                self.renamed(src, dst, before, after)
        file = self.files[src]
        others = [path for path, other in self.files.items() if other is file and path != src and not self._is_spare(path)]
        # One rename that is link and unlink may be under way while the next one is made.
        if len(others) > 1 and not self._is_spare(dst):
            raise Violation(f"{src} is {others} as well, and gets the name {dst} besides")
        helper = after is not None and after.kind in (FileKind.REASON, FileKind.RECEIPT)
        if not file.public and after is not None and after.state is not State.BEFORE and not helper:
            file.public = True
            self.published[dst] = file
        self._changed(src)
        self.files[dst] = file

    def _is_spare(self, path: str) -> bool:
        """Whether a name is one that nobody reads: scratch, or a before name that a cut rename has left."""
        name = self.name(path)
        return path.startswith("T_") or (name is not None and name.state is State.BEFORE)

    def _unlink(self, path: str) -> None:
        self._changed(path)
        file = self.files.pop(path)
        if file.public and not any(other is file for other in self.files.values()):
            raise Violation(f"{path} was deleted, and it was the last name of published bytes")

    def _scan(self, operation: Scan) -> Work:
        folder, pattern = operation.folder, operation.pattern
        found: dict[str, Listed] = {}
        # Which half a name is in changes from listing to listing, as a directory's order does.
        bit = 1 << int(self.chance.random() * 24)
        self._see(found, folder, pattern, bit, first=True)
        yield
        self._see(found, folder, pattern, bit, first=False)
        return tuple(found.values())

    def _see(self, found: dict[str, Listed], folder: str, pattern: str, bit: int, *, first: bool) -> None:
        for path, file in self.files.items():
            head, last, bits = _place(path)
            if head == folder and bool(bits & bit) is first and _fits(last, pattern):
                found[path] = Listed(path, size=len(file.data), modified=file.modified)
        for path in self.folders:
            head, last, bits = _place(path)
            if path and head == folder and bool(bits & bit) is first and _fits(last, pattern):
                found[path] = Listed(path, regular=False, folder=True)

    def _listed(self, path: str) -> Listed | None:
        if path in self.folders:
            return Listed(path, regular=False, folder=True)
        file = self.files.get(path)
        return None if file is None else Listed(path, size=len(file.data), modified=file.modified)

    def ls(self) -> list[str]:
        """What a person sees."""
        return sorted(self.files)
