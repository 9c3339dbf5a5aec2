"""One file being made, and one being read: several requests under way at a time, every answer checked."""

from collections import deque
from contextlib import suppress

from transports.base import CHUNK, Sink, Source, check_before, check_left, check_start
from transports.errors import ChangedWhileReading, ServerFailure
from transports.smb import messages, renames, replies
from transports.smb.errors import Lost, Refused, edge
from transports.smb.link import Link, Request

PIECE = 512 * 1024  # bytes of one READ or WRITE; larger ones are slower, for smbprotocol copies each several times
DEPTH = 8  # of them under way: 40 MB/s at 100 ms, and 4 MiB held
_CLOSED = "the file is closed already"
SLOWEST_DISK = 4 * 1024 * 1024  # bytes a second: FLUSH is given time by the size of the file


def keep_heap() -> None:
    """Lets the C library keep the memory that one request after another needs.

    glibc gives free memory at the end of the heap back to the system at once, unless it has seen a block freed that was larger.
    smbprotocol copies each request several times, and the pages of every copy would be faulted in anew: a large file took three
    times the processor time.
    """
    bytes(2 * DEPTH * PIECE)


class SmbSink(Sink):
    """A file made with FILE_CREATE and held with share mode none: nobody reads, renames or deletes it before `commit`."""

    def __init__(self, link: Link, path: str, wire: str, left: tuple[int, bytes] | None = None) -> None:
        """A new file, or one that was left, where to go on, and what stands before that.

        Raises `Refused` and `Lost`; the caller knows what a refusal means.
        """
        self._link = link
        self._path = path
        self._wire = wire
        self._piece = link.piece(PIECE)
        self._buffer = bytearray()
        self._sent = self._acknowledged = left[0] if left is not None else 0  # offsets
        self._pending: deque[tuple[Request, int]] = deque()
        access = messages.WRITE_DATA | messages.READ_ATTRIBUTES | messages.DELETE
        # The server itself refuses a symbolic link that it leaves to its clients; a new name is never one.
        options = messages.FILE if left is not None else messages.FILE | messages.ITSELF
        access |= messages.READ_DATA if left is not None else 0
        opened, _ = link.enter(messages.open_(wire, access, messages.SHARE_NONE, options, new=left is None))
        self._handle: bytes | None = opened.file_id
        if left is not None:
            self._check(opened, *left)
        self._whole = True  # no answer so far was a refusal, or missing
        self._broken = False  # something was not written: only `abort` is of use
        self._done = False

    def _check(self, opened: replies.Opened, at: int, before: bytes) -> None:
        try:
            check_left(self._path, at, opened.size)
            if before:
                reading = messages.read(opened.file_id, at - len(before), len(before))
                check_before(self._path, at, before, replies.data(self._link.call(reading, len(before))))
        except BaseException:
            with suppress(Refused, Lost):
                self._link.leave(opened.file_id)
            raise

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    def write(self, data: bytes) -> None:
        handle = self._usable("write")
        rest = memoryview(data)
        with edge("write", self._path):
            while rest:
                room = self._piece - len(self._buffer)
                self._buffer += rest[:room]
                rest = rest[room:]
                if len(self._buffer) == self._piece:
                    self._send(handle)
        self._broken = False

    def _usable(self, operation: str) -> bytes:
        """The handle, in a sink that counts as broken until the operation has succeeded."""
        if self._handle is None:
            raise ServerFailure(operation, self._path, _CLOSED)
        if self._broken:
            raise ServerFailure(operation, self._path, "an earlier write has failed; the file can only be given up")
        self._broken = True
        return self._handle

    def _send(self, handle: bytes) -> None:
        while len(self._pending) >= DEPTH:
            self._settle()
        data = bytes(self._buffer)
        self._buffer.clear()
        self._pending.append((self._link.start(messages.write(handle, self._sent, data), len(data)), len(data)))
        self._sent += len(data)

    def _settle(self) -> None:
        request, length = self._pending.popleft()
        whole, self._whole = self._whole, False
        count = replies.written(self._link.finish(request))
        if count != length:
            raise ServerFailure("write", self._path, f"the server wrote {count} of {length} bytes")
        if whole:
            self._whole = True
            self._acknowledged += length

    def commit(self) -> None:
        """Sends the rest, waits for every answer, sends FLUSH, and closes; the size told at closing must be the size sent."""
        handle = self._usable("commit")
        with edge("commit", self._path):
            if self._buffer:
                self._send(handle)
            while self._pending:
                self._settle()
            self._link.finish(self._link.start(messages.flush(handle)), extra=self._sent / SLOWEST_DISK)
            self._handle = None  # gone whatever CLOSE is answered with
            size = replies.size_at_close(self._link.call(messages.close(handle, attributes=True)))
            if size is None:
                size = self._link.visit(messages.open_(self._wire, messages.READ_ATTRIBUTES, messages.SHARE_ALL))[0].size
        if size != self._sent:
            raise ServerFailure("commit", self._path, f"{self._sent} bytes were written, and the server has {size}")
        self._done = True

    def abort(self) -> None:
        """Removes the file through the handle that made it, or, once that is closed, by name."""
        if self._done:
            return
        self._done = True
        self._buffer.clear()
        with edge("abort", self._path):
            while self._pending:
                try:
                    self._link.finish(self._pending.popleft()[0])
                except Refused:
                    continue  # the file goes, and with it what could not be written
        with edge("abort", self._path, changes=True):
            handle, self._handle = self._handle, None
            if handle is not None:
                self._link.leave(handle, messages.remove(handle), removes=True)
            else:
                renames.delete(self._link, self._wire)

    def leave(self) -> None:
        """What is under way is waited for: an answer nobody takes would be kept by smbprotocol for ever."""
        if self._done:
            return
        self._done = True
        self._buffer.clear()
        handle, self._handle = self._handle, None
        with suppress(Lost):
            self._link.check()
            while self._pending:
                with suppress(Refused, ServerFailure):  # of no consequence: `acknowledged` ends before it
                    self._settle()
            if handle is not None:
                with suppress(Refused):
                    self._link.call(messages.close(handle))
        self._pending.clear()


class SmbSource(Source):
    """A file opened for reading with share mode read: others may read it too, and nobody may write, rename or delete it.

    Read ahead, in a bounded number of pieces, from the first `read` on.
    """

    def __init__(self, link: Link, path: str, wire: str, start: int = 0) -> None:
        """Raises `Refused` and `Lost`. The server itself refuses a symbolic link that it leaves to its clients."""
        self._link = link
        self._path = path
        access = messages.READ_DATA | messages.READ_ATTRIBUTES
        opened, _ = link.enter(messages.open_(wire, access, messages.SHARE_READ, messages.FILE))
        self._handle: bytes | None = opened.file_id
        self.size = opened.size
        self.modified = opened.modified
        self._piece = link.piece(PIECE)
        self._asked = start
        self._given = start
        self._held = memoryview(b"")
        self._pending: deque[tuple[Request, int]] = deque()
        try:
            check_start(path, start, self.size)
        except ChangedWhileReading:
            self.close()
            raise

    def read(self, limit: int = CHUNK) -> bytes:
        if self._handle is None:
            raise ServerFailure("read", self._path, _CLOSED)
        if not self._held and self._given < self.size:
            with edge("read", self._path):
                self._fetch(self._handle)
        data = bytes(self._held[:limit])
        self._held = self._held[limit:]
        self._given += len(data)
        return data

    def _fetch(self, handle: bytes) -> None:
        while self._asked < self.size and len(self._pending) < DEPTH:
            length = min(self._piece, self.size - self._asked)
            self._pending.append((self._link.start(messages.read(handle, self._asked, length), length), length))
            self._asked += length
        request, length = self._pending.popleft()
        data = replies.data(self._link.finish(request))
        if len(data) != length:
            raise ChangedWhileReading("read", self._path, f"{len(data)} bytes came where {length} were left")
        self._held = memoryview(data)

    def close(self) -> None:
        """What is still under way is waited for: an answer nobody takes would be kept by smbprotocol for ever."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        self._held = memoryview(b"")
        try:
            while self._pending:
                try:
                    self._link.finish(self._pending.popleft()[0])
                except Refused:
                    continue  # nobody reads it any more
            self._link.call(messages.close(handle))
        except (Refused, Lost):
            return  # of no consequence to a reader, and a dead link has no handles
