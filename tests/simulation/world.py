"""A file server that can be seen between any two of its steps, in the ways in which real ones differ.

    posix      renames are one step
    openssh    a rename that must not replace is link, then unlink, by the server; a claim is one step (posix-rename)
    oldssh     both are link, then unlink, as on an SFTP server without posix-rename
    samba      a rename that must not replace is link, then delete, by a client that has the file open meanwhile; a claim is
               one step that one of a crowd gets

What a server does by itself it ends by itself, also when its client sleeps or is gone (`goes_on`).

A listing is taken in two halves, so that a file renamed meanwhile can be missed or doubled. A file that is being stored is
seen empty first. Nothing may ever be replaced or lost: the world itself objects.
"""

import hashlib
import random
import zlib
from collections.abc import Generator
from fnmatch import fnmatchcase
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

Flavour = Literal["posix", "openssh", "oldssh", "samba"]
# Not "oldssh": a server that can die between the two halves of a claim leaves it with two owners. Such a server does not
# promise claims (`Capabilities.claim` is CHECKED), and the gateway refuses to use it as a drop.
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


class World:
    """One drop on one server. `offset` is how far the server's clock is from the true time, in seconds."""

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
        self._parsed: dict[str, Name | None] = {}

    # What procedures may ask.

    def perform(self, operation: Operation[Any]) -> Work:
        """The operation's visible steps, and its result."""
        match operation:
            case Publish(src, dst):
                return self._publish(src, dst)
            case Claim(src, dst):
                return self._claim(src, dst)
            case Scan(folder, pattern):
                return self._scan(folder, pattern)
            case Store(path, content, algorithm):
                return self._store(path, content, algorithm)
        return self._at_once(operation)

    def _at_once(self, operation: Operation[Any]) -> Work:
        yield from ()
        return self._look_or_change(operation)

    def change(self, operation: Operation[Any]) -> Any:
        """All steps of an operation, with nobody looking in between."""
        work = self.perform(operation)
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

    def _look_or_change(self, operation: Operation[Any]) -> Any:
        match operation:
            case Stat(path):
                return self._listed(path)
            case ReadSmall(path, limit):
                file = self.files.get(path)
                return None if file is None else file.data[: limit + 1]
            case Fetch(path, algorithm):
                file = self.files.get(path)
                return None if file is None else Stored(len(file.data), hashlib.new(algorithm, file.data).hexdigest())
            case Delete(path):
                if path not in self.files:
                    return Outcome.GONE
                if path in self.held:
                    return Outcome.BUSY
                self._unlink(path)
                return Outcome.DONE
            case Replace(src, dst):
                return self._replace(src, dst)
            case MakeFolder(path):
                if path in self.folders:
                    return Outcome.EXISTS
                self.folders.add(path)
                return Outcome.DONE
            case ServerTime():
                return self.time + self.offset
        raise TypeError(f"no procedure asks a server for {operation!r}")

    def _store(self, path: str, content: Any, algorithm: str) -> Work:
        if path in self.files:
            return None
        file = self.files[path] = File(self.time + self.offset)
        yield
        file.data = content if isinstance(content, bytes) else b"".join(content.chunks())
        file.modified = self.time + self.offset
        return Stored(len(file.data), hashlib.new(algorithm, file.data).hexdigest())

    def _publish(self, src: str, dst: str) -> Work:
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

    def _claim(self, src: str, dst: str) -> Work:
        if src not in self.files:
            return Outcome.GONE
        if src in self.held:
            return Outcome.BUSY
        if self.flavour == "oldssh":
            if dst in self.files:
                return Outcome.EXISTS
            file = self.files[src]
            self._link(src, dst)
            yield
            if self.files.get(src) is not file:
                # sftp-server takes its own link away again where the source is gone: somebody was faster.
                if self.files.get(dst) is file:
                    del self.files[dst]
                return Outcome.GONE
            del self.files[src]
            return Outcome.DONE
        if self.files.get(dst) is self.files[src]:
            return Outcome.DONE  # POSIX: one name of a file onto another of it is a success that changes nothing
        if dst in self.files:
            if self.flavour == "samba":
                return Outcome.EXISTS
            raise Violation(f"the rename of {src} to {dst} replaced a file")
        self._link(src, dst)
        del self.files[src]
        return Outcome.DONE

    def _replace(self, src: str, dst: str) -> Outcome:
        if src not in self.files:
            return Outcome.GONE
        if self.flavour == "oldssh":
            return Outcome.EXISTS
        if dst in self.files and self.name(dst) is not None:
            raise Violation(f"{dst} was replaced by {src}")
        self.files[dst] = self.files.pop(src)
        return Outcome.DONE

    def goes_on(self, operation: Operation[Any]) -> bool:
        """Whether the server carries an operation that it has begun to its end, whatever becomes of its client."""
        return isinstance(operation, Publish | Claim) and self.flavour in ("openssh", "oldssh")

    def cut(self, operation: Operation[Any]) -> None:
        """The server dies inside a rename: of link and unlink only the link was made."""
        match operation:
            case Publish(src, dst) if src in self.files and dst not in self.files and self.flavour != "posix":
                self._link(src, dst)
            case Claim(src, dst) if src in self.files and dst not in self.files and self.flavour == "oldssh":
                self._link(src, dst)

    # What the world itself watches over.

    def name(self, path: str) -> Name | None:
        """The item's file that a path names, if it is one."""
        if path not in self._parsed:
            parsed = self.rules.layout.parse(path)
            self._parsed[path] = parsed if isinstance(parsed, Name) else None
        return self._parsed[path]

    def _link(self, src: str, dst: str) -> None:
        before, after = self.name(src), self.name(dst)
        if before is not None and after is not None:
            if before.item != after.item:
                raise Violation(f"{src} became {dst}: another item")
            if self.rules.is_token(before.kind) and (before.state, after.state) not in TRANSITIONS:
                raise Violation(f"{src} became {dst}, which is no step of the states table")
        file = self.files[src]
        others = [path for path, other in self.files.items() if other is file and path != src]
        # One rename that is link and unlink may be under way while the next one is made.
        if len(others) > (2 if self.flavour == "oldssh" else 1):
            raise Violation(f"{src} is {others} as well, and gets the name {dst} besides")
        if not file.public and after is not None and after.state is not State.BEFORE:
            file.public = True
            if after.kind is not FileKind.REASON:
                self.published[dst] = file
        self.files[dst] = file

    def _unlink(self, path: str) -> None:
        file = self.files.pop(path)
        name = self.name(path)
        lasting = name is not None and name.kind in (FileKind.PAYLOAD, FileKind.MANIFEST, FileKind.CHECKSUM)
        if lasting and file.public and not any(other is file for other in self.files.values()):
            raise Violation(f"{path} was deleted, and it was the last name of published bytes")

    def _scan(self, folder: str, pattern: str) -> Work:
        found: dict[str, Listed] = {}
        # Which half a name is in changes from listing to listing, as a directory's order does.
        salt = self.chance.getrandbits(16)
        for half in (0, 1):
            for path in [*self.files, *self.folders]:
                head, _, last = path.rpartition("/")
                if path and head == folder and (zlib.crc32(last.encode(), salt) & 1) == half and fnmatchcase(last, pattern):
                    listed = self._listed(path)
                    if listed is not None:
                        found[path] = listed
            if not half:
                yield
        return tuple(found.values())

    def _listed(self, path: str) -> Listed | None:
        if path in self.folders:
            return Listed(path, regular=False, folder=True)
        file = self.files.get(path)
        return None if file is None else Listed(path, size=len(file.data), modified=file.modified)

    def ls(self) -> list[str]:
        """What a person sees."""
        return sorted(self.files)
