"""An SFTP stream over a paramiko channel, and the socket below it, made fit for bulk and for a peer that goes silent.

paramiko reads each packet with two calls and waits for ever on a peer that no longer takes data. The socket here reads far
ahead, and gives up on a send that makes no progress. It also knows whether the peer has spoken SSH at all: a server
with too many logins under way hangs up before it has.
"""

import socket
import time
from typing import TYPE_CHECKING, Final

import paramiko

from transports.sftp.streams import Inbox, StreamLost, silence

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_AHEAD: Final = 256 * 1024  # bytes
_SLICE: Final = 32 * 1024  # bytes; the most that OpenSSH takes in one packet of a session
_ALL: Final = 2**30  # bytes; a part would leave paramiko the work of moving the rest
_TURN: Final = 0.05  # seconds that a sender waits for room before it looks at what has arrived
_OPENING: Final = 8 * 1024  # bytes in which a peer must have said that it speaks SSH
_TAIL: Final = 16 * 1024  # bytes kept of what the server's program says beside the protocol
_PATIENCE: Final = 2.0  # seconds for paramiko's thread to end


class SshSocket(socket.socket):
    """A connected TCP socket for paramiko. `patience` is in seconds, of a send without any progress."""

    def __init__(self, connected: socket.socket, *, patience: float) -> None:
        super().__init__(connected.family, connected.type, connected.proto, connected.detach())
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small requests must not wait for each other
        self._patience = patience
        self._stuck_since: float | None = None
        self._ahead = memoryview(b"")
        self.spoke_ssh = False
        self.opening = b""  # the first bytes of the peer, until it spoke SSH

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        if not self._ahead:
            data = super().recv(max(bufsize, _AHEAD), flags)
            if not self.spoke_ssh and len(self.opening) < _OPENING:
                self.opening += data
                self.spoke_ssh = self.opening.startswith(b"SSH-") or b"\nSSH-" in self.opening
            if len(data) <= bufsize:
                return data
            self._ahead = memoryview(data)
        piece, self._ahead = bytes(self._ahead[:bufsize]), self._ahead[bufsize:]
        return piece

    def send(self, data: "ReadableBuffer", flags: int = 0, /) -> int:
        try:
            sent = super().send(data, flags)
        except TimeoutError:
            now = time.monotonic()
            self._stuck_since = self._stuck_since or now
            if now - self._stuck_since > self._patience:
                raise ConnectionAbortedError("the peer takes no more data") from None
            raise
        self._stuck_since = None
        return sent


class ChannelStream:
    """A `Stream` over a channel whose subsystem is running. It owns the whole SSH connection."""

    def __init__(self, channel: paramiko.Channel, transport: paramiko.Transport) -> None:
        self._channel = channel
        self._transport = transport
        self._inbox = Inbox()
        self._said = b""

    def send_all(self, data: bytes, deadline: float, *, room: int) -> None:
        started = time.monotonic()
        rest = memoryview(data)
        while rest:
            whole = len(rest) == len(data)
            if self._channel.closed or not self._transport.is_active():
                raise StreamLost("the connection is closed", untouched=whole)
            self._channel.settimeout(_TURN)
            try:
                sent = self._channel.send(bytes(rest[:_SLICE]))
            except TimeoutError:
                # The server's window is shut: it may be waiting for its answers to be taken.
                if self._channel.recv_ready():
                    self._inbox.put(self._channel.recv(_ALL), room=room)
                if time.monotonic() > deadline:
                    raise StreamLost(silence(deadline - started)) from None
                continue
            except (OSError, paramiko.SSHException) as error:
                # Raised before anything of this slice is sent: the channel was closed, or a key exchange took too long.
                raise StreamLost(str(error), untouched=whole) from error
            except EOFError as error:
                raise StreamLost("the connection was closed") from error
            if not sent:
                raise StreamLost("the connection was closed", untouched=whole)
            rest = rest[sent:]

    def receive(self, deadline: float) -> bytes:
        if data := self._inbox.take():
            return data
        self._listen()
        started = time.monotonic()
        self._channel.settimeout(max(deadline - started, 0.001))
        try:
            return self._channel.recv(_ALL)
        except TimeoutError:
            raise StreamLost(silence(deadline - started)) from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise StreamLost(str(error) or "the connection was closed") from error

    def last_words(self) -> str:
        self._listen()
        words = self._said.decode("utf-8", "backslashreplace").strip()
        cause = self._transport.get_exception()
        if cause is not None and str(cause):
            words = f"{words} {cause}".strip()
        return words

    def close(self) -> None:
        # Not the channel first: its farewell would wait for a peer that takes no more data.
        self._transport.close()
        self._transport.join(_PATIENCE)

    def _listen(self) -> None:
        """Takes what came beside the protocol: left alone, it would fill the window that both share."""
        while self._channel.recv_stderr_ready():
            self._said = (self._said + self._channel.recv_stderr(_TAIL))[-_TAIL:]
