"""Where the bytes of a payload come from: a local file, or a claimed payload in another drop. Each is read once."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.errors import SourceChanged, SourceFailed
from gateway.handoff.connection import Connection
from gateway.handoff.reading import read_through
from protocol.contents import Payload
from protocol.errors import IntegrityError
from protocol.hashes import new_hasher
from protocol.rules import Rules
from protocol.states import State
from transports.base import CHUNK, Source, Transport
from transports.errors import ChangedWhileReading, ConnectionFailed, NotFound, TransportError

# Is told how many more bytes have passed, perhaps none. It may raise KeyboardInterrupt, to have the item given back.
Progress = Callable[[int], None]


def ignore_progress(_: int) -> None:
    """For callers that show none."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of this host. Raises SourceChanged where it is written to while it is read, and OSError where it cannot be."""

    path: Path
    progress: Progress = ignore_progress

    def chunks(self) -> Iterator[bytes]:
        with self.path.open("rb", buffering=0) as file:
            before = os.fstat(file.fileno())
            read = 0
            # No further than it was long: what is appended all the time would never end.
            while read <= before.st_size and (data := file.read(CHUNK)):
                read += len(data)
                yield data
                self.progress(len(data))
            after = os.fstat(file.fileno())
        if read != before.st_size or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise SourceChanged(
                f"{self.path} changed while it was sent: {before.st_size} bytes at first, {read} read, {after.st_size} now. "
                f"Nothing was published; send it once its writer has finished"
            )


@dataclass(frozen=True, slots=True)
class DropPayload:
    """A payload of a claimed item, checked as it is read: IntegrityError comes at its end, before anyone can publish it.

    `hashed_elsewhere` says that whoever stores it compares its hash already, so that no byte is hashed twice.
    """

    connection: Connection
    rules: Rules
    payload: Payload
    hashed_elsewhere: bool = False
    progress: Progress = ignore_progress

    def chunks(self) -> Iterator[bytes]:
        hasher = None if self.hashed_elsewhere else new_hasher(self.payload.algorithm)
        size = 0
        try:
            for data in read_through(self.connection, self._open):
                if hasher is not None:
                    hasher.update(data)
                size += len(data)
                yield data
                self.progress(len(data))
        except NotFound as error:
            raise IntegrityError(f"{self.payload.path} vanished between its claim and its reading") from error
        except ChangedWhileReading as error:
            raise IntegrityError(f"{self.payload.path} became shorter while it was read: {error}") from error
        except TransportError as error:
            if isinstance(error, ConnectionFailed):
                self.connection.lost()
            raise SourceFailed(f"{self.payload.path} could not be read: {error}") from error
        check_payload(self.payload, size, self.payload.digest if hasher is None else hasher.hexdigest())

    def _open(self, transport: Transport, start: int) -> Source:
        """The payload where it was found, or where somebody has put it since: its bytes are the same in each place."""
        elsewhere = [replace(self.payload.name, state=state) for state in (State.READY, State.AFTER, State.ERROR)]
        try:
            return transport.open_read(self.payload.path, start)
        except NotFound as missing:
            for path in map(self.rules.layout.path, elsewhere):
                with contextlib.suppress(NotFound):
                    return transport.open_read(path, start)
            raise missing


def check_payload(payload: Payload, size: int, digest: str) -> None:
    """That what was read is what the item's token promises. Raises IntegrityError."""
    if payload.size is not None and size != payload.size:
        raise IntegrityError(f"{payload.path} has {size} bytes, and its manifest says {payload.size}")
    if payload.digest and digest != payload.digest:
        raise IntegrityError(
            f"{payload.path}: its {payload.algorithm} is {digest}, and its manifest says {payload.digest}: "
            f"the content was changed, or damaged on the way"
        )
