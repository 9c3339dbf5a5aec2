"""Requests and their answers over one stream: framing, ids, deadlines, and what is known when the stream breaks.

Many requests may be under way. Each answer is kept under its id until it is asked for, so that reads, writes and listings
can be interleaved freely; the answer to a request that nobody waits for any more is dropped when it comes.

    submit -> id            sent, not yet answered
    wait(id) -> Fields      its answer; each answer that is due before it has `reply_timeout` seconds of its own
    forget(id)              nobody will ask

One thread at a time. After the first `ConnectionLost` every call raises it again, and touches nothing.
"""

import re
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

from transports.sftp import packets
from transports.sftp.packets import Code, Fields, Malformed, Op, string, uint32
from transports.sftp.streams import Stream, StreamLost

_TEXT: Final = re.compile(rb"[\t\r\n -~]{4,80}")
_NAMES: Final = {code.value: code.name for code in Code}


class StatusError(Exception):
    """The server answered with a status that is not OK. `code` is as sent: it may be one that `packets.Code` does not know."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        name = _NAMES.get(self.code, "status")
        return f"{name} ({self.code}): {self.message}" if self.message else f"{name} ({self.code})"


class ConnectionLost(Exception):
    """There is no session any more. `sent` says that the request in question may have reached the server."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent


class ProtocolViolation(ConnectionLost):
    """The server sent something that SFTP does not know; the session cannot be trusted any further."""


class Wire:
    """One SFTP session, from its first byte. Not for two threads at a time.

    `reply_timeout` is in seconds, for each single answer.
    """

    def __init__(self, stream: Stream, *, reply_timeout: float) -> None:
        self._stream = stream
        self._reply_timeout = reply_timeout
        self._received = bytearray()
        self._next_id = 0
        self._answers: dict[int, Fields | None] = {}  # None: not here yet
        self._forgotten: set[int] = set()
        self._due = 0  # answers that are still to come
        # A deque, because a listing that is garbage is put away by whichever thread the collector runs in, perhaps inside
        # a send of this very session: it may only leave a note.
        self._dropped: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._lost: ConnectionLost | None = None

    def greet(self, *, timeout: float) -> dict[str, str]:
        """Opens the session. Returns the extensions that the server offers, with their versions.

        Raises ConnectionLost, also after `timeout` seconds, and ProtocolViolation where this is no SFTP version 3.
        """
        self._transmit(uint32(5) + bytes([Op.INIT]) + uint32(packets.VERSION))
        packet = self._packet(time.monotonic() + timeout)
        try:
            if packet[0] != Op.VERSION:
                raise Malformed(f"a packet of type {packet[0]} in place of the version")
            fields = Fields(packet, 1)
            if (version := fields.uint32()) != packets.VERSION:
                raise Malformed(f"SFTP version {version}, where 3 was asked for")
            return packets.parse_extensions(fields)
        except Malformed as error:
            raise self.violation(error) from error

    def submit(self, op: Op, *fields: bytes | memoryview) -> int:
        """Sends one request. Returns its id.

        Raises ConnectionLost; its `sent` is False where not one byte of the request can have left.
        """
        self.put_away()
        return self._send(op, *fields)

    def put_away(self) -> None:
        """Has the dropped handles closed, without waiting for it. Raises ConnectionLost."""
        while self._dropped:
            handle, unanswered = self._dropped.popleft()
            self.forget(unanswered)
            try:
                self.forget([self._send(Op.CLOSE, string(handle))])
            except ConnectionLost as lost:
                raise ConnectionLost(lost.reason, sent=False) from lost  # what the caller has in mind was not sent

    def arrived(self, request: int) -> bool:
        """Whether `wait` would return without waiting, as far as has been read."""
        return self._answers.get(request) is not None

    def wait(self, request: int, *expected: Op) -> Fields:
        """The answer to a request, at the fields after its id; it is of one of the `expected` types, or STATUS OK.

        Raises StatusError for every other status, ConnectionLost, ProtocolViolation. The request is over then.
        """
        while (answer := self._answers[request]) is None:
            self._take_in()
        del self._answers[request]
        try:
            op = answer.byte()
            answer.take(4)
            if op == Op.STATUS:
                self._check_status(answer)
                if Op.STATUS in expected:
                    return answer
            elif op in expected:
                return answer
            raise Malformed(f"a packet of type {op} in place of {' or '.join(want.name for want in expected)}")
        except Malformed as error:
            raise self.violation(error) from error

    def ask(self, op: Op, *fields: bytes, expect: Op = Op.STATUS) -> Fields:
        """One request and its answer. Raises as `submit` and `wait`."""
        return self.wait(self.submit(op, *fields), expect)

    def forget(self, requests: Iterable[int]) -> None:
        """Nobody will wait for these any more. Nothing is sent or received."""
        for request in requests:
            if request in self._answers and self._answers.pop(request) is None:
                self._forgotten.add(request)

    def drop(self, handle: bytes, unanswered: Iterable[int]) -> None:
        """Has a handle closed before the next request is sent. Safe in a finaliser: nothing is sent or received here."""
        self._dropped.append((handle, tuple(unanswered)))

    def violation(self, error: Malformed) -> ProtocolViolation:
        """Ends the session over an answer that cannot be; returns what to raise."""
        violation = ProtocolViolation(f"the server does not speak SFTP as it is written: {error}", sent=True)
        self._lost = violation
        self._stream.close()
        return violation

    def close(self) -> None:
        """Ends the session. Raises nothing, and does nothing a second time."""
        if self._lost is None:
            self._lost = ConnectionLost("the connection was closed here", sent=False)
        self._stream.close()

    def require_alive(self) -> None:
        """Raises ConnectionLost where the session is known to have ended."""
        if self._lost is not None:
            raise ConnectionLost(self._lost.reason, sent=False) from self._lost

    # ---- below: bytes

    def _send(self, op: Op, *fields: bytes | memoryview) -> int:
        request = self._next_id
        self._next_id = (request + 1) & 0xFFFFFFFF
        length = 5 + sum(map(len, fields))
        self._answers[request] = None
        try:
            self._transmit(b"".join((uint32(length), bytes([op]), uint32(request), *fields)))
        except ConnectionLost:
            del self._answers[request]
            raise
        self._due += 1
        return request

    def _transmit(self, packet: bytes) -> None:
        self.require_alive()
        try:
            self._stream.send_all(packet, time.monotonic() + self._reply_timeout, room=self._due * packets.MAX_PACKET)
        except StreamLost as error:
            raise self._loss(error.reason, sent=not error.untouched) from error
        except BaseException:
            self._loss("a request was interrupted half sent", sent=True)
            raise

    def _take_in(self) -> None:
        """One packet, put where it belongs."""
        packet = self._packet(time.monotonic() + self._reply_timeout)
        try:
            fields = Fields(packet, 1)
            request = fields.uint32()
            if request in self._forgotten:
                self._forgotten.remove(request)
            elif request in self._answers and self._answers[request] is None:
                self._answers[request] = Fields(packet)
            else:
                raise Malformed(f"an answer to request {request}, which was not made or is answered")
            self._due -= 1
        except Malformed as error:
            raise self.violation(error) from error

    def _packet(self, deadline: float) -> bytes:
        """The next whole packet, without its length."""
        self.require_alive()
        received = self._received
        needed = 4
        while True:
            if len(received) >= 4:
                length = int.from_bytes(received[:4], "big")
                if not 1 <= length <= packets.MAX_PACKET:
                    raise self.violation(Malformed(f"a packet of {length} bytes{_as_text(received)}"))
                needed = 4 + length
            if len(received) >= needed > 4:
                with memoryview(received) as view:
                    packet = bytes(view[4:needed])
                del received[:needed]
                return packet
            try:
                data = self._stream.receive(deadline)
            except StreamLost as error:
                raise self._loss(error.reason, sent=True) from error
            except BaseException:
                # An answer may be half read: what follows could not be told apart from it.
                self._loss("an answer was interrupted half read", sent=True)
                raise
            if not data:
                raise self._loss("the server ended the session", sent=True)
            received += data

    def _check_status(self, fields: Fields) -> None:
        code = fields.uint32()
        if code != Code.OK:
            # Servers of the nineties leave the message out.
            raise StatusError(code, fields.string().decode("utf-8", "backslashreplace") if fields.left else "")

    def _loss(self, reason: str, *, sent: bool) -> ConnectionLost:
        words = self._stream.last_words().strip()
        self._lost = ConnectionLost(f"{reason} ({words})" if words else reason, sent=sent)
        self._stream.close()
        return self._lost


def _as_text(received: bytearray) -> str:
    """A login script that prints something is the usual cause of an absurd length: show it."""
    if text := _TEXT.match(received):
        return f"; as text, {text[0].decode('ascii')!r}: does a login script of the account print something?"
    return ""
