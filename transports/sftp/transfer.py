"""Reading and writing one file: many requests under way, a bounded number of bytes in memory, every answer looked at.

Answers are waited for in the order of the requests. At most `WINDOW` bytes and `REQUESTS` requests of one file are under
way: enough to fill a fast or a distant link, little enough for a server that keeps them all in memory.
"""

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from transports.base import CHUNK, Kind, Sink, Source, check_start
from transports.errors import ChangedWhileReading, NotFound, ServerFailure, TransportError, UnsafePath
from transports.sftp.client import FSYNC
from transports.sftp.edge import Edge, asking, changing, refused
from transports.sftp.packets import Code, Op
from transports.sftp.wire import ConnectionLost, StatusError

WINDOW: Final = 4 * 1024 * 1024  # bytes
REQUESTS: Final = 64
_SMALLEST_READ: Final = 4 * 1024  # bytes; a server that gives less at a time is asked often enough already


class SftpSink(Sink):
    """A file that this session has created, or goes on with at byte `at`."""

    def __init__(self, edge: Edge, path: str, handle: bytes, at: int = 0) -> None:
        self._edge = edge
        self._path = path
        self._handle = handle
        self._open = True  # the handle is
        self._block = edge.client.limits.write
        self._partial = bytearray()  # less than a block
        self._sent = self._acknowledged = at  # offsets
        self._under_way: deque[tuple[int, int]] = deque()  # request, bytes
        self._window = 0
        self._failed: TransportError | None = None
        self._over = False

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    def write(self, data: bytes) -> None:
        with asking("write", self._path):
            self._require_usable("write")
            rest = memoryview(data)
            if self._partial:
                missing = self._block - len(self._partial)
                self._partial += rest[:missing]
                rest = rest[missing:]
                if len(self._partial) == self._block:
                    self._flush()
            while len(rest) >= self._block:
                self._send(rest[: self._block])
                rest = rest[self._block :]
            self._partial += rest

    def commit(self) -> None:
        client = self._edge.client
        with asking("commit", self._path):
            self._require_usable("commit")
            self._flush()
            # Requests on one file are carried out in order (draft, section 4.1), so the last ones need not wait for the
            # answers to the first: a small file costs one round trip after its creation.
            sync = client.start_fsync(self._handle) if client.offers(FSYNC) else None
            look = client.start_fstat(self._handle)
            end = client.start_close(self._handle)
            self._open = False
            try:
                while self._under_way:
                    self._check_oldest()
                if sync is not None:
                    self._check_sync(sync)
                size = client.finish_fstat(look).size
                # The disks of some servers report a full quota only here.
                client.wire.wait(end, Op.STATUS)
            finally:
                client.wire.forget([request for request in (sync, look, end) if request is not None])
            if size is not None and size != self._sent:
                raise ServerFailure("commit", self._path, f"the server has stored {size} bytes of {self._sent}")
            self._over = True

    def abort(self) -> None:
        if self._over:
            return
        self._over = True
        client = self._edge.client
        client.wire.forget(request for request, _ in self._under_way)
        with changing("abort", self._path):
            if self._open:
                self._open = False
                client.let_go(self._handle)
            try:
                client.remove(self._edge.at(self._path))
            except StatusError as error:
                if not isinstance(refused("abort", self._path, error), NotFound):
                    raise

    def leave(self) -> None:
        """Waits for what is under way, where there is a session, so that nothing of it comes late."""
        if self._over:
            return
        self._over = True
        client = self._edge.client
        with suppress(TransportError, StatusError, ConnectionLost):
            while self._under_way and self._failed is None:
                # After a loss this still counts the answers that had arrived before it.
                self._check_oldest()
        client.wire.forget(request for request, _ in self._under_way)
        if self._open:
            self._open = False
            with suppress(StatusError, ConnectionLost):
                client.wire.wait(client.start_close(self._handle), Op.STATUS)

    def _flush(self) -> None:
        if self._partial:
            block, self._partial = bytes(self._partial), bytearray()
            self._send(block)

    def _send(self, block: bytes | memoryview) -> None:
        wire = self._edge.client.wire
        while self._under_way and (
            len(self._under_way) >= REQUESTS or self._window + len(block) > WINDOW or wire.arrived(self._under_way[0][0])
        ):
            self._check_oldest()
        self._under_way.append((self._edge.client.start_write(self._handle, self._sent, block), len(block)))
        self._window += len(block)
        self._sent += len(block)

    def _check_oldest(self) -> None:
        request, length = self._under_way[0]
        try:
            # It stays the oldest until it is answered: after a loss nothing behind it counts as acknowledged.
            self._edge.client.wire.wait(request, Op.STATUS)
        except StatusError as error:
            self._failed = self._edge.not_written(self._path, length, error)
            raise self._failed from error
        self._under_way.popleft()
        self._window -= length
        self._acknowledged += length

    def _check_sync(self, request: int) -> None:
        try:
            self._edge.client.wire.wait(request, Op.STATUS)
        except StatusError as error:
            if error.code != Code.OP_UNSUPPORTED:  # announced, and not there for this kind of storage
                raise

    def _require_usable(self, operation: str) -> None:
        if self._failed is not None:
            raise self._failed
        if not self._open:
            raise ServerFailure(operation, self._path, "the file was committed or aborted before")


@dataclass(slots=True)
class _Piece:
    """A part of the file that was asked for."""

    request: int
    offset: int
    length: int


class SftpSource(Source):
    """A file that this session reads, ahead of its reader and in order."""

    def __init__(self, edge: Edge, path: str, handle: bytes, start: int = 0) -> None:
        self._edge = edge
        self._path = path
        self._handle = handle
        self._open = True
        self._block = edge.client.limits.read
        self._pieces: deque[_Piece] = deque()
        self._window = 0
        self._asked = start  # offset up to which pieces were asked for
        self._given = start
        self._piece = b""  # an answer, of which the first `_taken` bytes were given
        self._taken = 0
        self.size = 0

    def start(self, expected: int | None) -> None:
        """Asks for the size, and right behind it for the first bytes, as many as the size last heard of lets expect.

        Raises StatusError and ConnectionLost, for the caller to translate, and UnsafePath.
        """
        client = self._edge.client
        self.size = expected or 0
        look = client.start_fstat(self._handle)
        self._ask_ahead()
        attributes = client.finish_fstat(look)
        if attributes.kind not in (Kind.FILE, None):
            raise UnsafePath("open_read", self._path, "it was replaced by something that is not a regular file")
        self.size = attributes.size if attributes.size is not None else self._find_size()
        self.modified = attributes.modified
        check_start(self._path, self._given, self.size)

    def read(self, limit: int = CHUNK) -> bytes:
        with asking("read", self._path):
            if not self._open:
                raise ServerFailure("read", self._path, "the file was closed before")
            if self._taken == len(self._piece):
                if self._given == self.size:
                    return b""
                self._ask_ahead()
                # What was asked for before the size was known may go beyond it.
                self._piece, self._taken = self._next_piece()[: self.size - self._given], 0
        data = self._piece[self._taken : self._taken + limit]
        self._taken += len(data)
        self._given += len(data)
        return data

    def close(self) -> None:
        if self._open:
            self._open = False
            wire = self._edge.client.wire
            wire.drop(self._handle, [piece.request for piece in self._pieces])
            self._pieces.clear()
            self._piece = b""
            with suppress(ConnectionLost):  # then the server has let go of it by itself
                wire.put_away()

    def _ask_ahead(self) -> None:
        while self._asked < self.size and len(self._pieces) < REQUESTS:
            length = min(self._block, self.size - self._asked)
            if self._pieces and self._window + length > WINDOW:
                break
            self._pieces.append(self._ask(self._asked, length))
            self._asked += length

    def _ask(self, offset: int, length: int) -> _Piece:
        self._window += length
        return _Piece(self._edge.client.start_read(self._handle, offset, length), offset, length)

    def _next_piece(self) -> bytes:
        piece = self._pieces.popleft()
        self._window -= piece.length
        data = self._edge.client.finish_read(piece.request, piece.length)
        if not data:
            raise ChangedWhileReading("read", self._path, f"it ended after {piece.offset} of its {self.size} bytes")
        if missing := piece.length - len(data):
            # Fewer bytes than asked for is no error in this protocol. The gap goes in front, and the requests to come are
            # made as small as the answers, so that the next ones leave none.
            self._pieces.appendleft(self._ask(piece.offset + len(data), missing))
            self._block = min(self._block, max(len(data), _SMALLEST_READ))
        return data

    def _find_size(self) -> int:
        """For a server that tells no size: one byte is read here and there, ever closer to the end."""
        if not self._has_byte(0):
            return 0
        low, high = 0, 1  # a byte is at `low`
        while self._has_byte(high):
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._has_byte(middle) else (low, middle)
        return high

    def _has_byte(self, offset: int) -> bool:
        client = self._edge.client
        return bool(client.finish_read(client.start_read(self._handle, offset, 1), 1))
