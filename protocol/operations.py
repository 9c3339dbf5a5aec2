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

from protocol.contents import Contents
from protocol.ledger import Entry
from protocol.names import Name
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


class Verdict(Enum):
    """What a handler made of an item."""

    PROCESSED = "processed"
    FAILED = "failed"  # this attempt did not succeed; another may
    UNFIT = "unfit"  # the item's bytes are not what its token says; no attempt ever will
    REFUSED = "refused"  # not the item's fault: the handler's own target is away or full


@dataclass(frozen=True, slots=True)
class Handled:
    """A handler's outcome: `outcome` is its own word for what it did, `error` and `kind` say why it did not.

    `recorded` says that it has written `done` to the ledger itself, together with its effect.
    """

    verdict: Verdict
    outcome: str = ""
    error: str = ""
    kind: str = ""
    recorded: bool = False


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
class Replace(Operation[Outcome]):
    """Renames over the destination, in one step. EXISTS where the server cannot do that: nothing was changed."""

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
class ServerTime(Operation[float]):
    """The clock that stamps the drop's files, in seconds since the epoch. Only ever compared with such stamps."""


@dataclass(frozen=True, slots=True)
class Now(Operation[Instant]):
    """The driver's clocks."""


@dataclass(frozen=True, slots=True)
class Pause(Operation[None]):
    """Waits before the next attempt, longer each time, with jitter. `attempt` counts from 1."""

    attempt: int


@dataclass(frozen=True, slots=True)
class ReadLedger(Operation[Entry | None]):
    """What the ledger knows of a key; None: nothing."""

    key: str


@dataclass(frozen=True, slots=True)
class WriteLedger(Operation[bool]):
    """Compare-and-set: True once the entry of a key was `before` and is `after` now, False where it was something else."""

    key: str
    before: Entry | None
    after: Entry


@dataclass(frozen=True, slots=True)
class UnarchivedKeys(Operation[tuple[tuple[str, Entry], ...]]):
    """The keys whose entries are `done` and not yet `archived`."""


@dataclass(frozen=True, slots=True)
class Handle(Operation[Handled]):
    """Runs the handler on a claimed item, whose payloads it reads once and verifies.

    `attempt` counts from 1. `redelivered` says that an earlier run was cut before its outcome was recorded, so that its
    effect may be there; `replay` that a person has asked for the item again.
    """

    claimed: Name
    contents: Contents
    key: str
    entry: Entry
    redelivered: bool
    replay: bool
