"""One SMB connection, session and share: requests go out, answers come back in bounded time.

What smbprotocol leaves open is closed here: it waits for ever for an answer and for room to send, it does not wait for credits,
and after a fork its receiving thread is missing in the child. Any of these ends the link; a dead link says so and never hangs.
"""

import logging
import os
import socket
import struct
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from smbprotocol.connection import Connection
from smbprotocol.exceptions import SMBException, SMBResponseException
from smbprotocol.transport import Tcp

from transports.smb import messages, replies
from transports.smb.errors import Lost, Refused
from transports.smb.messages import Message
from transports.smb.status import Nt

# It logs, with a traceback, what it then raises. An application that wants to see it twice configures logging.
logging.getLogger("smbprotocol").addHandler(logging.NullHandler())

Request = Any  # smbprotocol ships no types: a message that was sent, and the place where its answer arrives

CREDITS = 512  # asked for and kept up: 32 MiB may be under way. Servers grant from some hundred to 8192.
CREDIT = 64 * 1024  # bytes that one credit pays for
_FAREWELL = 5.0  # seconds that logging off may take; it is a courtesy
_GONE = {Nt.USER_SESSION_DELETED, Nt.NETWORK_NAME_DELETED, Nt.NETWORK_SESSION_EXPIRED, Nt.CONNECTION_DISCONNECTED}


class NoAnswerError(SMBException):  # type: ignore[misc]  # smbprotocol ships no types
    """The deadline passed."""


def _arrived(request: Request, patience: float) -> bool:
    """Waits for the final answer; "still working on it" is not one. True also when the connection ended meanwhile."""
    deadline = time.monotonic() + patience
    while request.response_event.wait(max(0.0, deadline - time.monotonic())):
        with request.response_event_lock:
            if request.response is None or request.response["status"].get_value() != Nt.PENDING:
                return True
            request.response_event.clear()
    return False


class _BoundedTcp(Tcp):  # type: ignore[misc]  # smbprotocol ships no types
    """smbprotocol's socket, which bounds neither the wait for room to send nor the size of what it is told will come."""

    reply = 0.0

    def connect(self) -> None:
        super().connect()
        if sys.platform == "win32":
            limit = struct.pack("@i", int(self.reply * 1000))
        else:
            limit = struct.pack("@ll", int(self.reply), int(self.reply % 1 * 1_000_000))
        # The kernel's own limit: the socket stays in blocking mode, which the receiving thread needs.
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def recv(self, timeout: float) -> bytes | None:
        """A greeting of SSH, read as a length, would have 1.4 GB made ready for the rest of it."""
        head, timeout = self._recv(4, timeout)
        if not head:
            return b""
        size = int.from_bytes(head, "big")
        if size > self.MAX_SIZE:
            raise SMBException("what answers there does not speak SMB")
        body: bytes | None = self._recv(size, timeout)[0]
        return body

    def give_up(self) -> None:
        """Closes this process' copy of the socket, and leaves the connection alone."""
        if self._sock is not None:
            self._sock.close()


class BoundedConnection(Connection):  # type: ignore[misc]  # smbprotocol ships no types
    """smbprotocol's connection with a bound on every wait, also on those inside its own login.

    `finish_by` (monotonic) bounds all of the connecting; once it is None, `reply` bounds each wait by itself. Seconds.
    """

    def __init__(self, host: str, port: int, reply: float, finish_by: float) -> None:
        self._transport: _BoundedTcp | None = None
        super().__init__(uuid.uuid4(), host, port)
        self.reply = reply
        self.finish_by: float | None = finish_by

    @property
    def transport(self) -> _BoundedTcp | None:
        """smbprotocol makes its socket itself, in `connect`, and takes no other; so it is exchanged when it is set."""
        return self._transport

    @transport.setter
    def transport(self, made: Tcp | None) -> None:
        if made is not None:
            self._transport = _BoundedTcp(made.server, made.port, made.timeout)
            self._transport.reply = self.reply

    @property
    def connected(self) -> bool:
        """Whether the TCP connection was there when it was last used."""
        return self._transport is not None and bool(self._transport.connected)

    def patience(self) -> float:
        """How long the next answer may take."""
        return self.reply if self.finish_by is None else max(0.0, self.finish_by - time.monotonic())

    def receive(self, request: Request, wait: bool = True, timeout: float | None = None, resolve_symlinks: bool = True) -> Any:
        """A link is never followed from here: the server would have us open another path."""
        if not _arrived(request, self.patience()):
            raise NoAnswerError("the server does not answer")
        return super().receive(request, wait=wait, timeout=1, resolve_symlinks=False)


class Link:
    """A logged-in share. One thread at a time, and only in the process that made it.

    Every method raises `Refused` (the server answered with an error status) or `Lost` (no answer, and none will come;
    `sent` says whether the request can have reached the server).
    """

    def __init__(self, connection: BoundedConnection, session_id: int, tree_id: int) -> None:
        self._connection = connection
        self._session_id = session_id
        self._tree_id = tree_id
        self.granted = self._credits()
        self._pid = os.getpid()
        self._ended = ""  # why no more requests go out
        self._busy = False
        self._thread = threading.get_ident()
        self._abandoned: deque[bytes] = deque()  # handles to be closed before anything else

    @property
    def dialect(self) -> int:
        return int(self._connection.dialect)

    @property
    def encrypted(self) -> bool:
        return bool(self._connection.session_table[self._session_id].encrypt_data)

    def piece(self, wanted: int) -> int:
        """How many bytes one request may carry or ask for: at most `wanted`, what the server takes, and half of its credit."""
        connection = self._connection
        limit = min(connection.max_read_size, connection.max_write_size, connection.max_transact_size)
        return max(CREDIT, min(wanted, int(limit), self.granted // 2 * CREDIT))

    def check(self) -> None:
        """Raises `Lost` where nothing can be sent any more; sends nothing."""
        if self._pid != os.getpid():
            raise Lost("this connection belongs to the process that made it; after a fork, open one of your own", sent=False)
        if self._ended:
            raise Lost(self._ended, sent=False)

    # --- one request, or one round trip

    def start(self, message: Message, size: int = 0) -> Request:
        """Sends, and does not wait for the answer. `size` is what the message carries or asks for, in bytes."""
        with self._in_use():
            return self._send([message], max(1, -(-size // CREDIT)))[0]

    def arrived(self, request: Request, seconds: float) -> bool:
        """Waits for an answer that may rightly take long. True also where the connection ended: `finish` says so."""
        self.check()
        with self._in_use():
            return _arrived(request, seconds)

    def finish(self, request: Request, extra: float = 0.0) -> bytes:
        """The body of the answer, for which `extra` seconds beyond the usual are allowed."""
        with self._in_use():
            if not _arrived(request, self._connection.patience() + extra):
                self._end("the server does not answer")
                raise Lost(self._ended, sent=True)
            try:
                answer = self._connection.receive(request)
            except SMBResponseException as error:
                if error.status in _GONE:
                    self._end(f"the server ended the session: {error}")
                raise Refused(error.status) from error
            except Exception as error:
                # Whatever ended the receiving thread is raised here, be it a KeyError over a message it did not expect.
                self._end(str(error))
                raise Lost(self._ended, sent=True) from error
            body: bytes = answer["data"].get_value()
            return body

    def call(self, message: Message, size: int = 0) -> bytes:
        return self.finish(self.start(message, size))

    def visit(self, opening: Message, *work: Message, removes: bool = False) -> tuple[replies.Opened, list[bytes]]:
        """Opens, does `work` on the handle and closes it, in one round trip. Gives the bodies of the answers to `work`.

        The server goes on after a failure in `work`: of several changes the later must not depend on the earlier. The first
        failure is raised, with `step` 0 for the opening. A refused CLOSE is a failure only where it `removes` the file.
        """
        with self._in_use():
            answers, failure, closed = self._exchange([opening, *work, messages.close()])
            if answers and not closed:
                # The rules for a compound let a server refuse everything after a failure, our CLOSE as well.
                self._forget(replies.opened(answers[0]).file_id)
            if failure is not None and (removes or failure.step <= len(work)):
                raise failure
            return replies.opened(answers[0]), answers[1 : 1 + len(work)]

    def enter(self, opening: Message, *work: Message) -> tuple[replies.Opened, list[bytes]]:
        """As `visit`, but the handle stays open, unless something fails."""
        with self._in_use():
            answers, failure, _ = self._exchange([opening, *work])
            if failure is None:
                return replies.opened(answers[0]), answers[1:]
            if answers:
                self._forget(replies.opened(answers[0]).file_id)
            raise failure

    def leave(self, file_id: bytes, *work: Message, removes: bool = False) -> None:
        """Does `work`, each message naming the handle, and closes it, in one round trip. Raises as `visit`."""
        with self._in_use():
            _, failure, closed = self._exchange([*work, messages.close(file_id)])
            if not closed:
                self._forget(file_id)
            if failure is not None and (removes or failure.step < len(work)):
                raise failure

    def abandon(self, file_id: bytes) -> None:
        """Closes a handle from a finaliser: now where that is safe, else before the next request. Raises nothing.

        A finaliser runs in whatever thread, and in the middle of whatever call, set off the garbage collector; waiting for an
        answer there could wait for itself.
        """
        if self._ended or self._pid != os.getpid():
            return
        if self._busy or self._thread != threading.get_ident():
            self._abandoned.append(file_id)
            return
        with self._in_use():
            self._forget(file_id)

    # --- within a call

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        outer, self._busy, self._thread = self._busy, True, threading.get_ident()
        try:
            yield
        finally:
            self._busy = outer

    def _exchange(self, batch: list[Message]) -> tuple[list[bytes], Refused | None, bool]:
        """Sends a compound. Gives the bodies before the first failure, that failure, and whether the last one succeeded."""
        bodies: list[bytes] = []
        failure: Refused | None = None
        last = False
        for step, request in enumerate(self._send(batch, len(batch))):
            last = False
            try:
                body = self.finish(request)
            except Refused as refused:
                if failure is None:
                    refused.step = step
                    failure = refused
            except Lost:
                if failure is None:
                    raise
                break  # what was refused is known all the same
            else:
                last = True
                if failure is None:
                    bodies.append(body)
        return bodies, failure, last

    def _forget(self, file_id: bytes) -> None:
        """Closes a handle whose work has failed, unless it is closed already or lost with the link. Raises nothing."""
        with suppress(Refused, Lost):
            self.finish(self._send([messages.close(file_id)], 1)[0])

    def _send(self, batch: list[Message], charge: int) -> list[Request]:
        """`Lost` with `sent` false is certain: a batch goes in one frame, and a frame that is cut short is not acted upon."""
        self.check()
        while self._abandoned:
            self._forget(self._abandoned.popleft())
        self._afford(charge)
        connection = self._connection
        try:
            if len(batch) == 1:
                wanted = max(charge, CREDITS - self._credits())
                return [connection.send(batch[0], self._session_id, self._tree_id, credit_request=wanted)]
            sent: list[Request] = connection.send_compound(batch, self._session_id, self._tree_id, related=True)
        except Exception as error:
            # As in `finish`: a send also raises whatever ended the receiving thread.
            self._end(str(error))
            raise Lost(self._ended, sent=False) from error
        except BaseException:
            # Interrupted, perhaps in the middle of a frame: whatever came after it would be read as its rest.
            self._end("the connection was interrupted while a request was sent")
            raise
        return sent

    def _credits(self) -> int:
        window = self._connection.sequence_window
        return int(window["high"] - window["low"])

    def _afford(self, charge: int) -> None:
        """Waits until the server has granted `charge` credits; each answer under way brings some."""
        deadline = time.monotonic() + self._connection.patience()
        while self._credits() < charge:
            if time.monotonic() > deadline:
                self._end(f"the server grants no more credits: {charge} needed, {self._credits()} left")
                raise Lost(self._ended, sent=False)
            time.sleep(0.001)

    # --- the end

    def _end(self, reason: str) -> None:
        self._ended = reason or "the connection is closed"
        hang_up(self._connection)

    def close(self) -> None:
        """Logs off, so that the server has closed every handle when this returns, and hangs up. Raises nothing."""
        if self._pid != os.getpid():
            # A log-off or a shutdown would reach through the shared socket and end the parent's session.
            if self._connection.transport is not None:
                self._connection.transport.give_up()
        elif not self._ended:
            with self._in_use(), suppress(Exception):
                # Whatever ended the receiving thread would be raised here, to nobody who could act on it.
                self._connection.reply = min(self._connection.reply, _FAREWELL)
                self._connection.session_table[self._session_id].disconnect(close=False)
            self._end("the connection is closed")


def hang_up(connection: BoundedConnection) -> None:
    """Ends the TCP connection and the receiving thread."""
    with suppress(SMBException, OSError):
        connection.disconnect(close=False)
