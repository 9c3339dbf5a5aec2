"""The one place where an SFTP answer becomes an error of `transports.errors`.

Version 3 says plain FAILURE for "exists", "other volume", "no space", "read-only" and more, and servers word its message as
they like. So the reason is found by looking: lstat of the names, statvfs of the folders. A look costs a round trip, and
only on a failure. A refusal is an answer: whatever it means, the change was not made.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from transports.base import Kind
from transports.errors import (
    AlreadyExists,
    Busy,
    CrossVolume,
    Denied,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    ServerFailure,
    TransportError,
    Unreachable,
    UnsafePath,
    Unsupported,
)
from transports.paths import checked, split
from transports.sftp.client import STATVFS, Client
from transports.sftp.packets import READ_ONLY_VOLUME, Attributes, Code, Volume
from transports.sftp.wire import ConnectionLost, ProtocolViolation, StatusError

T = TypeVar("T")

_BY_CODE: Final[dict[int, type[TransportError]]] = {
    Code.NO_SUCH_FILE: NotFound,
    Code.NO_SUCH_PATH: NotFound,
    Code.PERMISSION_DENIED: Denied,
    Code.WRITE_PROTECT: Denied,
    Code.OP_UNSUPPORTED: Unsupported,
    Code.FILE_ALREADY_EXISTS: AlreadyExists,
    Code.NO_SPACE_ON_FILESYSTEM: NoSpace,
    Code.QUOTA_EXCEEDED: NoSpace,
    Code.LOCK_CONFLICT: Busy,
    Code.DIR_NOT_EMPTY: Busy,
}


@contextmanager
def asking(operation: str, path: str) -> Iterator[None]:
    """Around what changes nothing, or nothing that matters: a lost connection is Unreachable."""
    try:
        yield
    except StatusError as error:
        raise refused(operation, path, error) from error
    except ProtocolViolation as error:
        raise ServerFailure(operation, path, error.reason) from error
    except ConnectionLost as error:
        raise Unreachable(operation, path, error.reason) from error


@contextmanager
def changing(operation: str, path: str) -> Iterator[None]:
    """Around one request that changes something: a connection lost after it was sent is OutcomeUnknown."""
    with asking(operation, path):
        try:
            yield
        except ConnectionLost as error:
            if not error.sent:
                raise
            raise OutcomeUnknown(
                operation, path, f"{error.reason}; it may have been done: look before anything else"
            ) from error


def refused(operation: str, path: str, error: StatusError) -> TransportError:
    """What a status means by itself."""
    kind = _BY_CODE.get(error.code, ServerFailure)
    if error.code in (Code.BAD_MESSAGE, Code.INVALID_FILENAME):
        return ServerFailure(operation, path, f"the server does not take the name; it may be too long: {error}")
    return kind(operation, path, f"{kind(operation).summary}: {error}")


class Edge:
    """Translates for one connection, whose root is the absolute path `root`."""

    def __init__(self, client: Client, root: bytes, server: str = "") -> None:
        self.client = client
        # Whose sftp-server is known to link and unlink inside a RENAME of a file that its account owns.
        self.links_inside_rename = server.startswith("OpenSSH_") and "Windows" not in server
        self.account: int | None = None  # the user id that owns what this connection makes, once that was seen
        self.has_linked = False  # whether a hard link was made here, so that this file system has them
        self._root = root.rstrip(b"/")
        self._folders: set[str] = set()  # seen to be folders, and not links

    def at(self, path: str) -> bytes:
        """A checked path as the server has it."""
        return self._root + b"/" + path.encode() if path else self._root or b"/"

    def reach(self, operation: str, path: str) -> bytes:
        """As `at`, for a path from a caller: refused where it is unsafe, or where a folder on the way is a link.

        Version 3 follows links on the way and cannot be told not to. So each folder is looked at, once in a connection: what
        somebody makes of it later is not noticed. Raises UnsafePath, NotFound, and what looking raises.
        """
        folder, _ = split(checked(operation, path))
        self._enter(operation, path, folder)
        return self.at(path)

    def reach_folder(self, operation: str, folder: str) -> bytes:
        """As `reach`, where the path itself must be a folder too."""
        self._enter(operation, folder, checked(operation, folder))
        return self.at(folder)

    def reach_name(self, operation: str, path: str) -> bytes:
        """As `reach`, for something that is to be changed: the root is not."""
        if not path:
            raise UnsafePath(operation, path, "the root itself is not to be changed")
        return self.reach(operation, path)

    def forget_folder(self, folder: str) -> None:
        """It was removed: what comes there next is looked at."""
        self._folders = {known for known in self._folders if not f"{known}/".startswith(f"{folder}/")}

    # ---- looking

    def exists(self, path: str) -> Attributes | None:
        """What is there under this very name, a link not followed; None where nothing is, or nothing can be seen."""
        return self._look(lambda: self.client.lstat(self.at(path)))

    def look(self, operation: str, path: str) -> Attributes | None:
        """As `exists`, for a refusal that is being explained: a connection lost now is Unreachable."""
        with asking(operation, path):
            return self.exists(path)

    def measure(self, folder: str) -> Volume | None:
        """The volume of a folder; None where the server does not tell. Raises StatusError."""
        return self.client.statvfs(self.at(folder)) if self.client.offers(STATVFS) else None

    def volume(self, folder: str) -> Volume | None:
        """As `measure`, and None too where nothing can be seen."""
        return self._look(lambda: self.measure(folder))

    def not_made(self, operation: str, path: str, error: StatusError) -> TransportError:
        """Why a new name could not be made. The name itself is looked at first: a taken name is the usual reason."""
        if error.code != Code.FAILURE:
            return refused(operation, path, error)
        with asking(operation, path):
            if found := self.exists(path):
                return taken(operation, path, found)
            return self._by_volume(operation, path, split(path)[0], error)

    def not_written(self, path: str, block: int, error: StatusError) -> TransportError:
        """Why a block of so many bytes was not taken."""
        if error.code != Code.FAILURE:
            return refused("write", path, error)
        with asking("write", path):
            volume = self.volume(split(path)[0])
        if volume and volume.available * volume.fragment < block:
            return NoSpace("write", path, "the volume is full")
        room = f", though its volume has {volume.available * volume.fragment} bytes left" if volume else ""
        return ServerFailure(
            "write",
            path,
            f"the server stored no more of the file{room}: a quota, a limit on file size, or a fault there ({error})",
        )

    def not_renamed(self, operation: str, src: str, dst: str, error: StatusError) -> TransportError:
        """Why a rename or link from `src` to `dst` was refused."""
        here, there = split(src)[0], split(dst)[0]
        if error.code in (Code.NO_SUCH_FILE, Code.NO_SUCH_PATH):
            # In one folder only the source can be missing: a lost race costs no second round trip.
            if here == there:
                return NotFound(operation, src, "it is not there, or is not a file")
            with asking(operation, src):
                if self.exists(src) is None:
                    return NotFound(operation, src, "it is not there")
            return NotFound(operation, dst, "its folder is not there")
        if error.code != Code.FAILURE:
            return refused(operation, src, error)
        with asking(operation, src):
            if found := self.exists(dst):
                return taken(operation, dst, found)
            if self.exists(src) is None:
                return NotFound(operation, src, "it is not there any more")
            if here != there and same_volume(self.volume(here), self.volume(there)) is False:
                return CrossVolume(
                    operation, src, f"{here or 'the root'!r} and {there or 'the root'!r} are on different volumes"
                )
            return self._by_volume(operation, dst, there, error)

    # ---- below

    def _enter(self, operation: str, path: str, folder: str) -> None:
        if not folder or folder in self._folders:
            return
        self._enter(operation, path, split(folder)[0])
        with asking(operation, path):
            seen = self.client.lstat(self.at(folder))
        if seen.kind is Kind.LINK:
            raise UnsafePath(operation, path, f"{folder!r} is a symbolic link, and none is followed")
        if seen.kind not in (Kind.FOLDER, None):
            raise NotFound(operation, path, f"{folder!r} is not a folder")
        self._folders.add(folder)

    def _by_volume(self, operation: str, path: str, folder: str, error: StatusError) -> TransportError:
        volume = self.volume(folder)
        if volume and volume.flags & READ_ONLY_VOLUME:
            return Denied(operation, path, "the file system is mounted read-only")
        if volume and (volume.available == 0 or (volume.files and volume.files_available == 0)):
            return NoSpace(operation, path, "the volume is full")
        return ServerFailure(operation, path, f"the server refused without a reason ({error})")

    def _look(self, look: Callable[[], T]) -> T | None:
        try:
            return look()
        except StatusError:
            return None  # what cannot be seen explains nothing; the first refusal stays the one that is told


def taken(operation: str, path: str, found: Attributes) -> AlreadyExists:
    """How a taken name is told."""
    kind = found.kind or Kind.OTHER
    return AlreadyExists(
        operation, path, f"the name is taken, by a {'thing of another kind' if kind is Kind.OTHER else kind.value}"
    )


def same_volume(one: Volume | None, other: Volume | None) -> bool | None:
    """By the identity that statvfs gives; where the server keeps it secret (0), by the numbers beside it."""
    if one is None or other is None:
        return None
    if one.identity != other.identity:
        return False
    if one.identity:
        return True
    shape, other_shape = (one.blocks, one.files, one.longest_name), (other.blocks, other.files, other.longest_name)
    return False if shape != other_shape else None
