"""The operations of SFTP version 3 and of OpenSSH's extensions, each as one method over `wire.Wire`.

Paths are bytes, absolute, as the server has them. Every method raises `wire.StatusError` where the server refuses,
`wire.ConnectionLost` and its subclass; nothing is translated here and nothing is tried twice.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from transports.sftp import packets
from transports.sftp.packets import (
    NO_ATTRIBUTES,
    Attributes,
    Code,
    Fields,
    Limits,
    Malformed,
    Op,
    Open,
    Volume,
    string,
    uint32,
    uint64,
)
from transports.sftp.wire import StatusError, Wire

T = TypeVar("T")

# Name and version, as a server must offer them: another version is another request.
POSIX_RENAME: Final = ("posix-rename@openssh.com", "1")
HARDLINK: Final = ("hardlink@openssh.com", "1")
FSYNC: Final = ("fsync@openssh.com", "1")
STATVFS: Final = ("statvfs@openssh.com", "2")
LIMITS: Final = ("limits@openssh.com", "1")


class Client:
    """One SFTP session with what its server offers."""

    def __init__(self, wire: Wire, *, timeout: float) -> None:
        """Opens the session within `timeout` seconds. Raises ConnectionLost and ProtocolViolation."""
        self.wire = wire
        self._extensions = wire.greet(timeout=timeout)
        self.limits = self._ask_limits()

    def offers(self, extension: tuple[str, str]) -> bool:
        """Whether the server announced it. One that it denies is not announced; asked for, it answers PERMISSION_DENIED."""
        name, version = extension
        return self._extensions.get(name) == version

    def close(self) -> None:
        self.wire.close()

    # ---- looking

    def stat(self, path: bytes) -> Attributes:
        return self._attributes(Op.STAT, path)

    def lstat(self, path: bytes) -> Attributes:
        return self._attributes(Op.LSTAT, path)

    def realpath(self, path: bytes) -> bytes:
        fields = self.wire.ask(Op.REALPATH, string(path), expect=Op.NAME)
        names = self._parsed(packets.parse_names, fields)
        if len(names) != 1:
            raise self.wire.violation(Malformed(f"{len(names)} names in place of one"))
        return names[0][0]

    def statvfs(self, path: bytes) -> Volume:
        return self._parsed(packets.parse_volume, self._extended(STATVFS, string(path), expect=Op.EXTENDED_REPLY))

    # ---- files

    def open_read(self, path: bytes) -> bytes:
        return self._handle(Op.OPEN, string(path), uint32(Open.READ), NO_ATTRIBUTES)

    def create(self, path: bytes) -> bytes:
        """Opens a new file for writing; FAILURE where the name is taken, also by a dangling link."""
        return self._handle(Op.OPEN, string(path), uint32(Open.WRITE | Open.CREATE | Open.EXCLUSIVE), NO_ATTRIBUTES)

    def open_again(self, path: bytes) -> bytes:
        """Opens a file that is there for reading and writing, and leaves its content alone."""
        return self._handle(Op.OPEN, string(path), uint32(Open.READ | Open.WRITE), NO_ATTRIBUTES)

    def read(self, handle: bytes, offset: int, length: int) -> bytes:
        """A few bytes, fewer than asked for only at the end of the file."""
        data = b""
        while len(data) < length:
            rest = length - len(data)
            more = self.finish_read(self.start_read(handle, offset + len(data), rest), rest)
            if not more:
                break
            data += more
        return data

    def let_go(self, handle: bytes) -> None:
        """Closes a handle whose state is of no consequence: its answer is not waited for."""
        self.wire.forget([self.start_close(handle)])

    def start_read(self, handle: bytes, offset: int, length: int) -> int:
        return self.wire.submit(Op.READ, string(handle), uint64(offset), uint32(length))

    def finish_read(self, request: int, length: int) -> bytes:
        """At most `length` bytes, perhaps fewer; b"" at the end of the file."""
        try:
            fields = self.wire.wait(request, Op.DATA)
        except StatusError as error:
            if error.code == Code.EOF:
                return b""
            raise
        data = self._parsed(Fields.string, fields)
        if len(data) > length:
            raise self.wire.violation(Malformed(f"{len(data)} bytes of data, where {length} were asked for"))
        return data

    def start_write(self, handle: bytes, offset: int, data: bytes | memoryview) -> int:
        return self.wire.submit(Op.WRITE, string(handle), uint64(offset), uint32(len(data)), data)

    def start_fstat(self, handle: bytes) -> int:
        return self.wire.submit(Op.FSTAT, string(handle))

    def finish_fstat(self, request: int) -> Attributes:
        return self._parsed(Fields.attributes, self.wire.wait(request, Op.ATTRS))

    def start_close(self, handle: bytes) -> int:
        return self.wire.submit(Op.CLOSE, string(handle))

    def start_fsync(self, handle: bytes) -> int:
        return self.wire.submit(Op.EXTENDED, string(FSYNC[0].encode()), string(handle))

    # ---- names

    def remove(self, path: bytes) -> None:
        self.wire.ask(Op.REMOVE, string(path))

    def rename(self, source: bytes, target: bytes) -> None:
        """Version 3's own. Meant not to replace; how far that is kept differs between servers."""
        self.wire.ask(Op.RENAME, string(source), string(target))

    def posix_rename(self, source: bytes, target: bytes) -> None:
        """rename(2): one step, and replaces."""
        self._extended(POSIX_RENAME, string(source), string(target))

    def hardlink(self, source: bytes, target: bytes) -> None:
        """link(2): one step, and never replaces."""
        self._extended(HARDLINK, string(source), string(target))

    def link_to_itself(self, path: bytes) -> None:
        """Makes a symbolic link that leads nowhere, exclusively.

        Target and name are the same, so that it makes no difference in which order a server takes them: OpenSSH's is not
        the draft's.
        """
        self.wire.ask(Op.SYMLINK, string(path), string(path))

    # ---- folders

    def mkdir(self, path: bytes) -> None:
        self.wire.ask(Op.MKDIR, string(path), NO_ATTRIBUTES)

    def rmdir(self, path: bytes) -> None:
        self.wire.ask(Op.RMDIR, string(path))

    def opendir(self, path: bytes) -> bytes:
        return self._handle(Op.OPENDIR, string(path))

    def start_readdir(self, handle: bytes) -> int:
        return self.wire.submit(Op.READDIR, string(handle))

    def finish_readdir(self, request: int) -> list[tuple[bytes, Attributes]]:
        """Some names, or [] at the end."""
        try:
            fields = self.wire.wait(request, Op.NAME)
        except StatusError as error:
            if error.code == Code.EOF:
                return []
            raise
        return self._parsed(packets.parse_names, fields)

    # ---- below

    def _ask_limits(self) -> Limits:
        if not self.offers(LIMITS):
            return Limits()
        try:
            fields = self._extended(LIMITS, expect=Op.EXTENDED_REPLY)
        except StatusError:
            return Limits()  # announced and refused: what every server takes is always right
        return self._parsed(packets.parse_limits, fields)

    def _extended(self, extension: tuple[str, str], *fields: bytes, expect: Op = Op.STATUS) -> Fields:
        return self.wire.ask(Op.EXTENDED, string(extension[0].encode()), *fields, expect=expect)

    def _handle(self, op: Op, *fields: bytes) -> bytes:
        handle = self._parsed(Fields.string, self.wire.ask(op, *fields, expect=Op.HANDLE))
        if len(handle) > 256:
            raise self.wire.violation(Malformed(f"a handle of {len(handle)} bytes"))
        return handle

    def _attributes(self, op: Op, subject: bytes) -> Attributes:
        return self._parsed(Fields.attributes, self.wire.ask(op, string(subject), expect=Op.ATTRS))

    def _parsed(self, parse: Callable[[Fields], T], fields: Fields) -> T:
        try:
            return parse(fields)
        except Malformed as error:
            raise self.wire.violation(error) from error
