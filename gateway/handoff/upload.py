"""One file on its way to a server, over as many connections as it takes.

What was written and is not acknowledged yet is kept, a bounded amount. After a cut it is sent again from memory, so that the
content is read once and hashed once, whatever happens on the way.

A before file belongs to its writer (PROTOCOL section 5), but he may have been taken for dead: a sweeper has put his file away,
or a rival forwarder of the same item has removed it (`abandoned`) and begun one of the same name. So a file is gone on with
only where it can be the one that was left: not shorter than what was acknowledged, not longer than what was given, and with
the bytes before the cut that were written there. Then nothing is cut off and nothing is moved; should it be a rival's all the
same, who has come exactly as far with the same item, he gets the very bytes that he writes himself. Anything else is left
alone: it is not ours to touch or to remove.
"""

from collections import deque

from gateway.handoff.connection import Connection
from transports.base import MARK, Sink, Transport
from transports.errors import Busy, NotFound, OutcomeUnknown, TransportError, Unreachable

_KEPT_AT_MOST = 32 * 1024 * 1024  # bytes; no backend has a quarter of that under way
_CUT = (Unreachable, OutcomeUnknown)


class Upload:
    """A file that `sink` has just made at `path`, over the connection's transport.

    `left` says that no connection holds the file now, so that it can only be removed by its name; `lost_sight` that what has
    its name is not known to be ours.
    """

    def __init__(self, connection: Connection, path: str, sink: Sink) -> None:
        self.sink = sink
        self.left = False
        self.lost_sight = False
        self._connection = connection
        self._path = path
        self._resumable = connection.use().capabilities.resume
        self._attempts = connection.attempts()
        self._given = 0  # offsets: what was written here,
        self._known = 0  # what of it is acknowledged,
        self._kept_from = 0  # and what is kept: some bytes before that, and all behind
        self._kept: deque[bytes] = deque()

    def write(self, data: bytes) -> None:
        """Appends; goes on over a new connection where the old one is lost. Raises as `Sink.write`, once patience has ended."""
        self._given += len(data)
        self._kept.append(data)
        try:
            self.sink.write(data)
        except _CUT as error:
            self._go_on(error)
        self._note()

    def commit(self) -> None:
        """As `Sink.commit`; made again where its answer was lost, which flushes once more and is no harm."""
        while True:
            try:
                self.sink.commit()
            except _CUT as error:
                self._go_on(error)
            else:
                return

    def _go_on(self, error: TransportError) -> None:
        """Returns once all that was given is on its way over a new connection. Raises the error where that cannot be."""
        while True:
            self.left = True
            self.sink.leave()
            self._connection.lost()
            self._note()
            if not self._resumable or not self._attempts.again():
                raise error
            try:
                self.sink = self._reopen()
            except TransportError as refusal:
                self.lost_sight = isinstance(refusal, NotFound)
                error.add_note(f"and it could not be gone on with: {refusal}")
                raise error from error.__cause__
            self.left = False
            self._note()
            try:
                self._send_again()
            except _CUT as again:
                error = again
            else:
                return

    def _reopen(self) -> Sink:
        while True:
            try:
                return self._connection.retrying(self._resumed, self._attempts)
            except Busy:
                # A dead session of ours holds it until the server has noticed.
                if not self._attempts.again():
                    raise

    def _resumed(self, transport: Transport) -> Sink:
        size = transport.stat(self._path).size
        if size is not None and size > self._given:
            raise NotFound("resume", self._path, f"it has {size} bytes, and {self._given} were written at most")
        # Where nothing was acknowledged, it is known again by what is there.
        at = self._known or min(size or 0, MARK)
        return transport.resume(self._path, at, self._between(max(at - MARK, 0), at))

    def _between(self, start: int, end: int) -> bytes:
        at, found = self._kept_from, b""
        for data in self._kept:
            if at >= end:
                break
            found += data[max(start - at, 0) : end - at]
            at += len(data)
        return found

    def _send_again(self) -> None:
        at, start = self._kept_from, self._known
        for data in tuple(self._kept):
            if at + len(data) > start:
                self.sink.write(data[max(start - at, 0) :])
                self._note()
            at += len(data)

    def _note(self) -> None:
        """What has come through by now need not be kept, and patience begins anew."""
        if self.sink.acknowledged > self._known:
            self._known = self.sink.acknowledged
            self._attempts.anew()
        while self._kept and self._kept_from + len(self._kept[0]) <= self._known - MARK:
            self._kept_from += len(self._kept.popleft())
        if not self._resumable or self._given - self._kept_from > _KEPT_AT_MOST:
            self._resumable = False
            self._kept_from = self._given
            self._kept.clear()
