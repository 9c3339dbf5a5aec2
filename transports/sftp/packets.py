"""SFTP version 3 as bytes: its numbers, its fields, and a parser that trusts no length.

The format is draft-ietf-secsh-filexfer-02; the extensions are those of OpenSSH's PROTOCOL file. Nothing here does I/O.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Final

from transports.base import Kind

VERSION: Final = 3

# The longest packet taken from a server. OpenSSH never sends more than 256 KiB; a length beyond this is a shell's greeting
# read as a number, or an attempt to make the reader allocate.
MAX_PACKET: Final = 1024 * 1024
MAX_TRANSFER: Final = 512 * 1024  # bytes asked for or sent in one request, whatever the server would allow
DEFAULT_TRANSFER: Final = 32 * 1024  # what every server must take, where it does not tell its limits


class Op(IntEnum):
    """Packet types."""

    INIT = 1
    VERSION = 2
    OPEN = 3
    CLOSE = 4
    READ = 5
    WRITE = 6
    LSTAT = 7
    FSTAT = 8
    OPENDIR = 11
    READDIR = 12
    REMOVE = 13
    MKDIR = 14
    RMDIR = 15
    REALPATH = 16
    STAT = 17
    RENAME = 18
    SYMLINK = 20
    STATUS = 101
    HANDLE = 102
    DATA = 103
    NAME = 104
    ATTRS = 105
    EXTENDED = 200
    EXTENDED_REPLY = 201


class Open(IntEnum):
    """Flags of OPEN."""

    READ = 1
    WRITE = 2
    CREATE = 8
    EXCLUSIVE = 32


class Code(IntEnum):
    """Status codes. Version 3 ends at 8; some servers answer a version 3 client with the later ones all the same."""

    OK = 0
    EOF = 1
    NO_SUCH_FILE = 2
    PERMISSION_DENIED = 3
    FAILURE = 4
    BAD_MESSAGE = 5
    NO_CONNECTION = 6
    CONNECTION_LOST = 7
    OP_UNSUPPORTED = 8
    NO_SUCH_PATH = 10
    FILE_ALREADY_EXISTS = 11
    WRITE_PROTECT = 12
    NO_SPACE_ON_FILESYSTEM = 14
    QUOTA_EXCEEDED = 15
    LOCK_CONFLICT = 17
    DIR_NOT_EMPTY = 18
    INVALID_FILENAME = 20


HAS_SIZE: Final = 0x01
_HAS_OWNER: Final = 0x02
HAS_PERMISSIONS: Final = 0x04
HAS_TIMES: Final = 0x08
_HAS_EXTENDED: Final = 0x80000000
_KNOWN_FLAGS: Final = HAS_SIZE | _HAS_OWNER | HAS_PERMISSIONS | HAS_TIMES | _HAS_EXTENDED

NO_ATTRIBUTES: Final = struct.pack(">I", 0)

READ_ONLY_VOLUME: Final = 0x1  # in Volume.flags


class Malformed(ValueError):
    """Bytes that are not what the format says."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a server told about a file; None where it told nothing."""

    size: int | None
    permissions: int | None
    modified: int | None
    owner: int | None = None

    @property
    def kind(self) -> Kind | None:
        """From the type bits; None where the server gave no permissions, or permissions without a type."""
        if self.permissions is None or not self.permissions & 0o170000:
            return None
        if S_ISREG(self.permissions):
            return Kind.FILE
        if S_ISDIR(self.permissions):
            return Kind.FOLDER
        return Kind.LINK if S_ISLNK(self.permissions) else Kind.OTHER


@dataclass(frozen=True, slots=True)
class Volume:
    """The answer to statvfs@openssh.com, as far as it is used. Blocks are of `fragment` bytes."""

    fragment: int
    blocks: int
    available: int
    files: int
    files_available: int
    identity: int
    flags: int
    longest_name: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one READ and one WRITE may carry, in bytes."""

    read: int = DEFAULT_TRANSFER
    write: int = DEFAULT_TRANSFER


class Fields:
    """Reads the fields of one packet in order. Every method raises Malformed where the packet ends too early."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    @property
    def left(self) -> int:
        """Bytes not yet read."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if count > self.left:
            raise Malformed(f"a field of {count} bytes where {self.left} are left")
        start, self._at = self._at, self._at + count
        return self._data[start : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def uint64(self) -> int:
        return int.from_bytes(self.take(8), "big")

    def string(self) -> bytes:
        return self.take(self.uint32())

    def attributes(self) -> Attributes:
        flags = self.uint32()
        if flags & ~_KNOWN_FLAGS:
            raise Malformed(f"attribute flags {flags:#x}, of which version 3 does not know all")
        size = self.uint64() if flags & HAS_SIZE else None
        owner = self.uint32() if flags & _HAS_OWNER else None
        if owner is not None:
            self.take(4)
        permissions = self.uint32() if flags & HAS_PERMISSIONS else None
        modified = None
        if flags & HAS_TIMES:
            self.take(4)
            modified = self.uint32()
        if flags & _HAS_EXTENDED:
            for _ in range(self.count(smallest=8)):
                self.string()
                self.string()
        return Attributes(size, permissions, modified, owner)

    def count(self, *, smallest: int) -> int:
        """A number of things that follow, each at least `smallest` bytes: more than could fit is refused at once."""
        count = self.uint32()
        if count * smallest > self.left:
            raise Malformed(f"{count} entries announced in {self.left} bytes")
        return count


def uint32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def uint64(value: int) -> bytes:
    return value.to_bytes(8, "big")


def string(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def parse_names(fields: Fields) -> list[tuple[bytes, Attributes]]:
    """The body of NAME: names as the server has them, and their attributes. The long name of `ls -l` is dropped."""
    names = []
    for _ in range(fields.count(smallest=12)):
        name = fields.string()
        fields.string()
        names.append((name, fields.attributes()))
    return names


def parse_volume(fields: Fields) -> Volume:
    """The body of a statvfs reply."""
    _, fragment, blocks, _, available, files, _, files_available, identity, flags, longest = struct.unpack(
        ">11Q", fields.take(88)
    )
    return Volume(fragment, blocks, available, files, files_available, identity, flags, longest)


def parse_limits(fields: Fields) -> Limits:
    """The body of a limits reply; a limit of 0 means that the server does not say."""
    _, read, write, _ = struct.unpack(">4Q", fields.take(32))
    return Limits(min(read, MAX_TRANSFER) or DEFAULT_TRANSFER, min(write, MAX_TRANSFER) or DEFAULT_TRANSFER)


def parse_extensions(fields: Fields) -> dict[str, str]:
    """What follows the version number in VERSION: extension names and their versions."""
    found: dict[str, str] = {}
    while fields.left:
        name, version = fields.string(), fields.string()
        found[name.decode("ascii", "backslashreplace")] = version.decode("ascii", "backslashreplace")
    return found
