"""The contract every backend keeps: one directory on one endpoint, and what may be done in it.

A `Transport` is one connection, for one thread at a time; pools live outside. It is *rooted* at the directory its URL names:
every path is relative to that root, "/"-separated on every backend, and "" is the root itself. Paths are checked
(`transports.paths.checked`) before anything is sent. Every call has a deadline and raises only `transports.errors`.

What is known after a failure is the class of the error: `OutcomeUnknown` alone means that a change may have happened.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Self

from transports.errors import ChangedWhileReading, NotFound

CHUNK = 256 * 1024  # bytes; large enough for every wire, small enough that memory never matters
MARK = 32 * 1024  # bytes by which a file that was left is known again: one request of any wire


class Kind(Enum):
    """What a directory entry is, without following links."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a directory.

    `size` is in bytes and `modified` in seconds since the epoch on the *server's* clock; both are None where the server
    did not say. Neither follows a symbolic link.
    """

    name: str
    kind: Kind
    size: int | None
    modified: float | None


class Guarantee(Enum):
    """How far a step is known to be one step, whoever else works in the directory."""

    ATOMIC = "atomic"
    CHECKED = "checked"  # looked, then done: a rival between the two is not noticed
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Fact:
    """A guarantee, and where the knowledge of it comes from."""

    guarantee: Guarantee
    evidence: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this connection can promise, found out when it was made.

    `create`, `publish`, `claim`, `replace` are the members of `Transport`. `durable` says whether `Sink.commit` reaches
    stable storage. `longest_name` is in bytes of UTF-8, `time_resolution` in seconds.
    """

    server: str  # the server's own name and version, as far as it told
    create: Fact
    publish: Fact
    claim: Fact
    replace: Fact
    durable: Fact
    pattern: bool  # the server filters a listing itself
    notification: bool  # `wait_for_change` can return before its timeout
    resume: bool  # a file that its maker had to leave can be gone on with
    longest_name: int
    time_resolution: float


def check_start(path: str, start: int, size: int) -> None:
    """That a file can be read from byte `start`. Raises ChangedWhileReading."""
    if start > size:
        raise ChangedWhileReading("open_read", path, f"it has {size} bytes, and was to be read from byte {start} on")


def check_left(path: str, at: int, size: int) -> None:
    """That a file is long enough to be gone on with at byte `at`. Raises NotFound."""
    if size < at:
        raise NotFound("resume", path, f"not the file that was left: it has {size} bytes, and was to be gone on with at {at}")


def check_before(path: str, at: int, before: bytes, there: bytes) -> None:
    """That the bytes before `at` are those that were written. Raises NotFound."""
    if there != before:
        raise NotFound("resume", path, f"not the file that was left: before byte {at} is not what was written there")


class Sink(ABC):
    """A file being made. Leaving its `with` block uncommitted aborts it.

    A write error may surface at any later `write` or at `commit`; after one, only `abort` and `leave` are of use.
    """

    @property
    @abstractmethod
    def acknowledged(self) -> int:
        """How many bytes, from the start of the file, the server has said to have, with no hole before them.

        Also after a failure of `write` or `commit`, and after `leave`. Stored is not yet flushed: only `commit` does that.
        """

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Appends. Replies may still be outstanding on return, in a bounded number.

        Raises NoSpace, Denied, Unreachable, ServerFailure.
        """

    @abstractmethod
    def commit(self) -> None:
        """Everything written, every reply checked, flushed to stable storage as far as the server can, and closed.

        Raises as `write`. After a failure the file may be there in part: it is no longer ours to complete; `abort` it.
        """

    @abstractmethod
    def abort(self) -> None:
        """Closes, and removes the file. Does nothing after `commit` or a second time.

        Raises where the file could not be removed: it is then still there, under the name it was created with.
        """

    @abstractmethod
    def leave(self) -> None:
        """Closes, and leaves the file as it stands, for `Transport.resume`. Does nothing after `commit` or `abort`.

        Raises nothing: where the connection is lost, the server closes the file in its own time. What was written and not
        acknowledged may be there in part, with holes.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.abort()
        except Exception as left:
            if error is None:
                raise
            # The first error is the one to act on; the second is told with it.
            error.add_note(f"and the unfinished file could not be removed: {left}")


class Source(ABC):
    """A file being read, in order, to the size it had when it was opened."""

    size: int  # bytes of the whole file, as the server said at opening
    modified: float | None = None  # seconds since the epoch on the server's clock, at opening; None where it did not say

    @abstractmethod
    def read(self, limit: int = CHUNK) -> bytes:
        """The next bytes, at most `limit`, and b"" only when the byte at `size` is reached.

        Never more than a fixed amount is held in memory, however large the file. A file that ends early raises
        ChangedWhileReading; one that grew is read up to the size it had. Also raises Unreachable, Denied, ServerFailure.
        """

    @abstractmethod
    def close(self) -> None:
        """Gives the handle back. Does nothing a second time; errors of a handle only read from are of no consequence."""

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Transport(ABC):
    """One connection to one directory. Not for two threads at a time, and not across a fork."""

    capabilities: Capabilities

    @abstractmethod
    def create(self, path: str) -> Sink:
        """Makes a new file, exclusively: of several creators of one name exactly one succeeds.

        Raises AlreadyExists (also for a folder, or a dangling link, of that name), NotFound (no such folder), Denied,
        NoSpace, OutcomeUnknown (an empty file of that name may be there).
        """

    @abstractmethod
    def resume(self, path: str, at: int, before: bytes = b"") -> Sink:
        """Opens a file that the caller has made and had to leave, to go on writing at byte `at`.

        Only for the one whose file it is, with the same content as before. `before` is what must stand right before `at`, at
        most `MARK` bytes. It changes nothing by itself: what is there beyond `at` is overwritten by what follows, and
        `commit` refuses a file that is longer than what was written. `Sink.acknowledged` begins at `at`, and `abort` removes
        the file.

        Raises NotFound (also for a file that cannot be the one that was left: it ends before `at`, or other bytes stand
        there), Busy (somebody has it open: for a while also a dead session of the caller's own), Denied, Unreachable;
        Unsupported where `capabilities.resume` is false; and as `open_read` for what is no regular file.
        """

    @abstractmethod
    def open_read(self, path: str, start: int = 0) -> Source:
        """Opens a regular file for reading from byte `start` on; a link is refused. Where the server can, writers are kept
        out meanwhile.

        Raises NotFound, Denied, Busy (somebody writes to it), ChangedWhileReading (it ends before `start`), Unreachable; and
        one of UnsafePath, Denied, Unsupported and ServerFailure for what is no regular file.
        """

    @abstractmethod
    def publish(self, src: str, dst: str) -> None:
        """Renames a file, and never replaces `dst`: of several publishers to one `dst` exactly one wins.

        Raises NotFound (src), AlreadyExists (dst; src is untouched), Busy, Denied, CrossVolume, OutcomeUnknown. A server
        that dies inside may leave both names, of one file.
        """

    @abstractmethod
    def claim(self, src: str, dst: str) -> None:
        """Renames a file to a name that nobody else uses: of several claimers of one `src` exactly one wins.

        What happens to a `dst` that exists is not promised; where several claimers give one `dst`, the losers may also be
        told AlreadyExists. Raises NotFound (src: somebody else won), Busy, Denied, CrossVolume, OutcomeUnknown.
        """

    @abstractmethod
    def replace(self, src: str, dst: str) -> None:
        """Renames a file over `dst`, in one step: a reader of `dst` sees the old file or the new one.

        Raises NotFound (src), Busy (dst is open), Denied, Unsupported, CrossVolume, OutcomeUnknown.
        """

    @abstractmethod
    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        """The entries of a folder, in no order. Other calls may be made meanwhile; an abandoned iteration leaks nothing.

        `pattern` knows `*` and `?` only, is matched by exact case, and is evaluated on the server where that can be done.
        Names that are not valid UTF-8 or not safe to send (`paths.unsafe_because`) are given as they can best be shown,
        with kind OTHER: they can be counted and never be used. Not a snapshot: a file renamed meanwhile may be seen
        under both names, or under none. Raises NotFound (folder), Denied, Unreachable.
        """

    @abstractmethod
    def stat(self, path: str) -> Entry:
        """One entry, a link not followed. Raises NotFound, Denied, Busy (deletion pending), Unreachable."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Removes a file or a link, never a folder. Raises NotFound, Busy, Denied, OutcomeUnknown."""

    @abstractmethod
    def make_dir(self, path: str) -> None:
        """Makes one folder. Raises AlreadyExists, NotFound (its parent), Denied, NoSpace, OutcomeUnknown."""

    @abstractmethod
    def remove_dir(self, path: str) -> None:
        """Removes an empty folder. Raises NotFound, Busy (not empty, or in use), Denied, OutcomeUnknown."""

    @abstractmethod
    def same_volume(self, first: str, second: str) -> bool | None:
        """Whether a rename between two folders stays on one volume; None where the server does not tell."""

    @abstractmethod
    def server_time(self, folder: str = "") -> float:
        """The clock that stamps files in this folder, in seconds since the epoch; may write and remove a scratch file."""

    @abstractmethod
    def free_space(self, folder: str = "") -> int | None:
        """Bytes that this account may still write; None where the server does not tell."""

    @abstractmethod
    def wait_for_change(self, folder: str, timeout: float) -> None:
        """Returns when something may have changed in the folder, or after `timeout` seconds. A hint: early, late, or missed."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connection; whatever is called after it raises Unreachable.

        Does nothing a second time, and raises nothing: there is nothing left to act on.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
