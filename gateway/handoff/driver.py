"""Carries out procedures, one operation after the other, over one connection.

This is the edge where transport errors become what a procedure can tell apart. Only a lost reply is passed on as unknown;
a call that is known not to have changed anything is repeated here, over a new connection if need be.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from gateway.handoff.clock import Backoff, Clock
from gateway.handoff.connection import Connection
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.memory import MemoryLedger
from gateway.handoff.reading import read_through
from gateway.handoff.upload import Upload
from protocol.hashes import new_hasher
from protocol.operations import (
    Claim,
    Delete,
    Fetch,
    Handle,
    Handled,
    Instant,
    MakeFolder,
    Now,
    Operation,
    Outcome,
    Pause,
    Procedure,
    Publish,
    ReadLedger,
    ReadSmall,
    Receiver,
    Replace,
    Scan,
    ServerTime,
    Stat,
    Store,
    Stored,
    UnarchivedKeys,
    WriteLedger,
)
from protocol.snapshot import Listed
from transports.base import Entry, Guarantee, Kind, Sink, Transport
from transports.errors import (
    AlreadyExists,
    Busy,
    ConnectionFailed,
    NotFound,
    OutcomeUnknown,
    TransportError,
    Unreachable,
    Unsupported,
)
from transports.paths import join

T = TypeVar("T")

_CREATES = 3  # tries, where reply after reply is lost
_LOOKS = (ReadSmall, Scan, Stat, ServerTime)


class Driver:
    """Runs procedures to their end, blocking. For one thread, as its connection is.

    `made` holds the paths of files that the last procedure made and that are, as far as is known, still there under the
    same name: after a failed publication, exactly what it may take away later without touching anybody else's. `doubtful`
    holds names that are there, empty, and whose making lost its reply. `alive` is called at each operation, and now and then
    during a long one.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        *,
        backoff: Backoff | None = None,
        ledger: Ledger | None = None,
        handler: Callable[[Handle], Handled] | None = None,
    ) -> None:
        self.ledger = ledger or MemoryLedger()
        self.handler = handler
        self.alive: Callable[[], None] = _nobody_asks
        self.made: set[str] = set()
        self.doubtful: set[str] = set()
        self.connection = connection
        self.clock = clock
        self._backoff = backoff or Backoff()

    def run(self, procedure: Procedure[T]) -> T:
        """The procedure's result. Raises what it raises: protocol errors, and transport errors it had no answer to."""
        result: Any = None
        failure: BaseException | None = None
        self.made.clear()
        self.doubtful.clear()
        try:
            while True:
                operation = procedure.send(result) if failure is None else procedure.throw(failure)
                result, failure = None, None
                try:
                    result = self._carry_out(operation)
                # Thrown into the procedure, an interrupt as well: it takes its unfinished files away.
                except BaseException as error:  # noqa: BLE001 - nothing is swallowed
                    if not isinstance(error, Exception):
                        self.connection.lost()  # cut at an arbitrary point: nobody knows what is on the wire
                    failure = error
        except StopIteration as stop:
            return cast(T, stop.value)

    def _carry_out(self, operation: Operation[Any]) -> Any:
        self.alive()
        match operation:
            case Now():
                return Instant(self.clock.monotonic(), self.clock.utc())
            case Pause(attempt):
                return self.clock.sleep(self._backoff.delay(attempt, self.clock))
            case Handle():
                if self.handler is None:
                    raise TypeError("this driver was given no handler")
                return self.handler(operation)
            case ReadLedger(key):
                return self.ledger.read(key)
            case WriteLedger(key, before, after):
                return self.ledger.compare_and_set(key, before, after)
            case UnarchivedKeys():
                return tuple(self.ledger.unarchived())
            case Store(path, content, algorithm):
                return self._store(path, content, algorithm)
            case Fetch(path, algorithm, into):
                return self._fetch(path, algorithm, into)
        return self._look(operation) if isinstance(operation, _LOOKS) else self._rename_or_delete(operation)

    def _look(self, operation: Operation[Any]) -> Any:
        """What changes nothing may be asked again over a new connection."""
        retrying = self.connection.retrying
        match operation:
            case ReadSmall(path, limit):
                return retrying(lambda transport: _read_small(transport, path, limit))
            case Scan(folder, pattern):
                return retrying(lambda transport: _scan(transport, folder, pattern))
            case Stat(path):
                return retrying(lambda transport: _stat(transport, path))
            case ServerTime():
                return retrying(lambda transport: transport.server_time())
        raise TypeError(f"{operation!r} is no operation that this driver knows")

    def _rename_or_delete(self, operation: Operation[Any]) -> Outcome:
        match operation:
            case Publish(src, dst):
                return self._change(src, lambda transport: transport.publish(src, dst))
            case Claim(src, dst):
                return self._change(src, lambda transport: transport.claim(src, dst))
            case Replace(src, dst):
                return self._change(src, lambda transport: transport.replace(src, dst))
            case Delete(path):
                return self._change(path, lambda transport: transport.delete(path))
            case MakeFolder(path):
                return self._change(path, lambda transport: transport.make_dir(path))
        raise TypeError(f"{operation!r} is no operation that this driver knows")

    def _change(self, path: str, change: Callable[[Transport], None]) -> Outcome:
        try:
            self.connection.retrying(change)
        except NotFound:
            self.made.discard(path)
            return Outcome.GONE
        except AlreadyExists:
            return Outcome.EXISTS
        except Unsupported:
            if self.connection.use().capabilities.replace.guarantee is Guarantee.ATOMIC:
                raise
            return Outcome.EXISTS  # asked to replace, which this server cannot do in one step: nothing was changed
        except Busy:
            return Outcome.BUSY
        except OutcomeUnknown:
            self.connection.lost()
            return Outcome.UNKNOWN
        self.made.discard(path)
        return Outcome.DONE

    def _store(self, path: str, content: Any, algorithm: str) -> Stored | None:
        hasher = new_hasher(algorithm)
        size = 0
        try:
            sink = self._create(path)
        except AlreadyExists:
            return None
        self.made.add(path)
        upload = Upload(self.connection, path, sink)
        try:
            for data in (content,) if isinstance(content, bytes) else content.chunks():
                hasher.update(data)
                size += len(data)
                upload.write(data)
            upload.commit()
        except BaseException as error:
            self._discard(upload, path, error)
            raise
        return Stored(size, hasher.hexdigest())

    def _create(self, path: str) -> Sink:
        """A new file; asked for again where the reply was lost and the name is free. Raises OutcomeUnknown where it is not."""
        for attempt in range(1, _CREATES + 1):
            try:
                return self.connection.retrying(lambda transport: transport.create(path))
            except OutcomeUnknown as error:
                self.connection.lost()
                try:
                    # Should the server still come to the lost request, ours finds the name taken; nothing is replaced.
                    if attempt < _CREATES and self.connection.retrying(lambda transport: _stat(transport, path)) is None:
                        continue
                except TransportError as failure:
                    error.add_note(f"and it could not be looked up: {failure}")
                self.doubtful.add(path)
                error.add_note(f"an empty file {path} may be there; nobody reads it")
                raise
        raise AssertionError("the loop returns or raises")

    def _discard(self, upload: Upload, path: str, error: BaseException) -> None:
        """Removes a file that we made and could not finish, over a new connection if the old one is gone."""
        if upload.lost_sight:
            self.made.discard(path)
            return
        if not isinstance(error, Exception):
            self.connection.lost()  # interrupted: it is not used again
        elif not upload.left:
            if self._aborted(upload.sink, path):
                return
            self.connection.lost()
        try:
            self._change(path, lambda transport: transport.delete(path))
        except TransportError as failure:
            error.add_note(f"and the unfinished {path} could not be removed: {failure}")

    def _aborted(self, sink: Sink, path: str) -> bool:
        try:
            sink.abort()
        except TransportError:
            return False
        self.made.discard(path)
        return True

    def _fetch(self, path: str, algorithm: str, into: Receiver | None) -> Stored | None:
        hasher = new_hasher(algorithm)
        size = 0
        try:
            for data in read_through(self.connection, lambda transport, start: transport.open_read(path, start)):
                self.alive()
                hasher.update(data)
                size += len(data)
                if into is not None:
                    into.write(data)
        except NotFound:
            return None
        except ConnectionFailed:
            self.connection.lost()
            raise
        return Stored(size, hasher.hexdigest())


def _nobody_asks() -> None:
    """For drivers whose being alive nobody watches."""


def _read_small(transport: Transport, path: str, limit: int) -> bytes | None:
    try:
        with transport.open_read(path) as source:
            data = b""
            while len(data) <= limit and (more := source.read(limit + 1 - len(data))):
                data += more
            return data
    except NotFound:
        return None


def _scan(transport: Transport, folder: str, pattern: str) -> tuple[Listed, ...]:
    """A folder's entries. One that nobody has made yet is empty; without its root, a drop is away and not empty."""
    try:
        return tuple(_listed(entry, join(folder, entry.name)) for entry in transport.scan(folder, pattern))
    except NotFound:
        try:
            transport.stat("")
        except NotFound as error:
            raise Unreachable("scan", folder, "the drop's own folder is not there: unmounted, moved or deleted") from error
        if not folder:
            raise
        return ()


def _stat(transport: Transport, path: str) -> Listed | None:
    try:
        return _listed(transport.stat(path), path)
    except NotFound:
        return None


def _listed(entry: Entry, path: str) -> Listed:
    return Listed(path, entry.kind is Kind.FILE, entry.kind is Kind.FOLDER, entry.size, entry.modified)
