"""What the server's answers say, read with `struct`.

smbprotocol's own structures take 0.1 ms for each directory entry; 20 000 of them would take seconds.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from transports.base import Kind

_HEADER = 64  # offsets in an answer count from the start of its header, which is not in `body`
_EPOCH = 11_644_473_600  # seconds from 1601, where Windows counts from, to 1970
_ON_DISK_ID = b"QFid"

FOLDER = 0x10  # file attributes
REPARSE_POINT = 0x400
_NAME_SURROGATE = 0x2000_0000  # this bit of a reparse tag: stands for another name (a link, a junction)


def seconds(filetime: int) -> float:
    """A Windows time (100 ns since 1601) in seconds since the epoch."""
    return filetime / 10_000_000 - _EPOCH


def kind_of(attributes: int, tag: int) -> Kind:
    """`tag` is the reparse tag, and means nothing without the attribute that says there is one.

    Only a name surrogate is a link: deduplicated or offline files are reparse points too, and are files.
    """
    if attributes & REPARSE_POINT and tag & _NAME_SURROGATE:
        return Kind.LINK
    return Kind.FOLDER if attributes & FOLDER else Kind.FILE


@dataclass(frozen=True, slots=True)
class Opened:
    """The answer to a CREATE."""

    file_id: bytes
    created: float
    modified: float
    size: int
    attributes: int
    volume: int | None  # None where it was not asked for or not told


def opened(body: bytes) -> Opened:
    created, modified = struct.unpack_from("<Q8xQ", body, 8)
    size, attributes = struct.unpack_from("<QI", body, 48)
    offset, length = struct.unpack_from("<II", body, 80)
    contexts = body[offset - _HEADER : offset - _HEADER + length] if length else b""
    return Opened(body[64:80], seconds(created), seconds(modified), size, attributes, _volume(contexts))


def _volume(contexts: bytes) -> int | None:
    """The volume id among the create contexts ([MS-SMB2] 2.2.14.2.9), which Samba fills with the device number."""
    at = 0
    while at + 16 <= len(contexts):
        following, name_at, name_length, data_at, data_length = struct.unpack_from("<IHH2xHI", contexts, at)
        name = contexts[at + name_at : at + name_at + name_length]
        if name == _ON_DISK_ID and data_length >= 16:
            return int.from_bytes(contexts[at + data_at + 8 : at + data_at + 16], "little")
        if not following:
            return None
        at += following
    return None


def size_at_close(body: bytes) -> int | None:
    """The size of the file that was closed; None where the server did not look."""
    (flags,) = struct.unpack_from("<H", body, 2)
    return struct.unpack_from("<Q", body, 48)[0] if flags & 1 else None


def written(body: bytes) -> int:
    count: int = struct.unpack_from("<I", body, 4)[0]
    return count


def data(body: bytes) -> bytes:
    """The bytes that a READ was answered with."""
    offset, length = struct.unpack_from("<BxI", body, 2)
    return body[offset - _HEADER : offset - _HEADER + length]


def information(body: bytes) -> bytes:
    """The buffer that a QUERY_INFO or QUERY_DIRECTORY was answered with."""
    offset, length = struct.unpack_from("<HI", body, 2)
    return body[offset - _HEADER : offset - _HEADER + length]


@dataclass(frozen=True, slots=True)
class Listed:
    """One name in the answer to a QUERY_DIRECTORY."""

    name: str  # may hold lone surrogates: the server sends UTF-16 and promises nothing
    modified: float
    size: int
    kind: Kind


def listed(buffer: bytes) -> Iterator[Listed]:
    """The entries in a buffer of FileFullDirectoryInformation ([MS-FSCC] 2.4.14)."""
    at = 0
    while buffer:
        following, modified, size = struct.unpack_from("<I20xQ8xQ", buffer, at)
        # The field for the size of extended attributes holds the tag of a reparse point.
        attributes, length, tag = struct.unpack_from("<3I", buffer, at + 56)
        raw = buffer[at + 68 : at + 68 + length]
        yield Listed(raw.decode("utf-16-le", "surrogatepass"), seconds(modified), size, kind_of(attributes, tag))
        if not following:
            return
        at += following


def reparse_tag(buffer: bytes) -> int:
    """FileAttributeTagInformation."""
    tag: int = struct.unpack_from("<4xI", buffer)[0]
    return tag


def caller_free_bytes(buffer: bytes) -> int:
    """FileFsFullSizeInformation: what this account may still take, quotas included."""
    units, sectors, size = struct.unpack_from("<8xQ8xII", buffer)
    return int(units * sectors * size)


@dataclass(frozen=True, slots=True)
class FileSystem:
    """FileFsAttributeInformation."""

    hard_links: bool  # said to have them; Samba never says so
    longest_name: int  # UTF-16 units
    name: str


def file_system(buffer: bytes) -> FileSystem:
    flags, longest, length = struct.unpack_from("<IiI", buffer)
    return FileSystem(bool(flags & 0x0040_0000), longest, buffer[12 : 12 + length].decode("utf-16-le", "replace"))
