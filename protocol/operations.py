"""What a procedure may ask of the world: small frozen values that it awaits and a driver carries out.

A procedure is a coroutine that awaits these operations and does nothing else. The driver may block on a transport, keep many
procedures in flight over one connection, or be a simulator that kills a procedure between any two of them.

What a procedure has to tell apart comes back as a value (`Outcome`, or None for "not there"). Whatever it cannot act on,
such as a refused login or a full disk, is raised at the `await` and passes through it, so that it can clean up on the way.
Paths are those of the drop's layout, relative to its directory.
"""

from collections.abc import Coroutine, Generator, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from protocol.snapshot import Listed

T = TypeVar("T")

Procedure = Coroutine[Any, Any, T]


class Outcome(Enum):
    """How a rename, a delete or a folder's making ended, as far as it is known."""

    DONE = "done"
    GONE = "gone"  # the source is not there
    EXISTS = "exists"  # the destination is there, and was left alone
    BUSY = "busy"  # somebody has it open
    UNKNOWN = "unknown"  # the reply was lost: it happened, or it did not


class Content(Protocol):
    """Bytes to be stored, read once. A driver iterates over it; a procedure only hands it on."""

    def chunks(self) -> Iterator[bytes]: ...


class Receiver(Protocol):
    """Takes the bytes of a file as they are read."""

    def write(self, data: bytes, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Stored:
    """A file that was made: its size in bytes, as written and as the server has it, and its hash in lower-case hex."""

    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Instant:
    """`monotonic` seconds for measuring, and the wall clock as ISO 8601 in UTC for people."""

    monotonic: float
    utc: str


class Operation(Generic[T]):
    """Awaiting an operation gives its result, of the type it names."""

    __slots__ = ()

    def __await__(self) -> Generator["Operation[T]", T, T]:
        return (yield self)


@dataclass(frozen=True, slots=True)
class Store(Operation[Stored | None]):
    """Makes a new file, exclusively, fills it, commits it to stable storage. None: the name is taken.

    After any other failure an unfinished file of that name may be there.
    """

    path: str
    content: Content | bytes
    algorithm: str


@dataclass(frozen=True, slots=True)
class Fetch(Operation[Stored | None]):
    """Reads a whole file once, hashing it, into a receiver (None: only the hash is wanted). None: it is not there."""

    path: str
    algorithm: str
    into: Receiver | None = None


@dataclass(frozen=True, slots=True)
class ReadSmall(Operation[bytes | None]):
    """The content of a small file, at most `limit` + 1 bytes of it. None: it is not there."""

    path: str
    limit: int


@dataclass(frozen=True, slots=True)
class Publish(Operation[Outcome]):
    """Renames and never replaces; of several publishers to one name one wins."""

    src: str
    dst: str


@dataclass(frozen=True, slots=True)
class Claim(Operation[Outcome]):
    """Renames to a name nobody else uses; of several claimers of one source one wins."""

    src: str
    dst: str


@dataclass(frozen=True, slots=True)
class Delete(Operation[Outcome]):
    """Removes a file."""

    path: str


@dataclass(frozen=True, slots=True)
class MakeFolder(Operation[Outcome]):
    """Makes one folder; EXISTS where it is there."""

    path: str


@dataclass(frozen=True, slots=True)
class Scan(Operation[tuple[Listed, ...]]):
    """The regular and other files of one folder that fit a pattern, with their paths; empty where it is not there."""

    folder: str
    pattern: str = "*"


@dataclass(frozen=True, slots=True)
class Stat(Operation[Listed | None]):
    """One file, no link followed. None: it is not there."""

    path: str


@dataclass(frozen=True, slots=True)
class Now(Operation[Instant]):
    """The driver's clocks."""


@dataclass(frozen=True, slots=True)
class Pause(Operation[None]):
    """Waits before the next attempt, longer each time, with jitter. `attempt` counts from 1."""

    attempt: int
