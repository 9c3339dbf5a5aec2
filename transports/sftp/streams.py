"""What an SFTP session runs over: one small protocol, and the pipes of a child process as one of its kinds.

Both directions may be full at once: a server that waits for its answers to be read takes no further request. So a sender
that cannot go on takes in what has arrived. No thread is needed for that, and no deadlock is left.
"""

import contextlib
import fcntl
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

_CHUNK: Final = 1024 * 1024  # bytes taken from a pipe at once
_TAIL: Final = 16 * 1024  # bytes kept of what a child wrote to its standard error
_PATIENCE: Final = 1.0  # seconds that a child is given to end by itself, and again after SIGTERM


class StreamLost(Exception):
    """The stream is of no more use. `untouched` says that nothing of the data to be sent can have left."""

    def __init__(self, reason: str, *, untouched: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.untouched = untouched


class Stream(Protocol):
    """A connected pair of byte streams. Deadlines are points of `time.monotonic`."""

    def send_all(self, data: bytes, deadline: float, *, room: int) -> None:
        """Hands all of it over, taking in meanwhile what arrives.

        Raises StreamLost, also when the deadline passes, or when more than `room` bytes have come in: they were not asked for.
        """

    def receive(self, deadline: float) -> bytes:
        """At least one byte, or b"" where the other side has ended. Raises StreamLost, also when the deadline passes."""

    def close(self) -> None:
        """Ends both directions; raises nothing and does nothing a second time."""

    def last_words(self) -> str:
        """What is known about why the stream ended, or ""; may wait a moment for it where it has ended."""


def silence(seconds: float) -> str:
    """How a passed deadline is told."""
    return f"no answer within {round(max(seconds, 0), 1):g} s"


class Inbox:
    """What arrived while something was being sent, in order."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._held = 0

    def put(self, chunk: bytes, *, room: int) -> None:
        self._held += len(chunk)
        if self._held > room:
            raise StreamLost(f"the server sent {self._held} bytes, more than it was asked for")
        self._chunks.append(chunk)

    def take(self) -> bytes:
        """All of it; b"" where nothing is waiting."""
        if not self._chunks:
            return b""
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._held = 0
        return data


class PipeStream:
    """The standard input and output of a child process: `ssh -s host sftp`, or a bare sftp-server."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        worth_telling: Callable[[str], str] = str.strip,
    ) -> None:
        """Starts the child. Raises OSError where the program cannot be run.

        `worth_telling` picks, from what it wrote to its standard error, what is told when the stream ends.

        It gets a session of its own: a Ctrl-C at the terminal is for this process to act on, and must not take the
        connection away from the item being finished.
        """
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            bufsize=0,
            start_new_session=True,
        )
        self._pipes = [pipe for pipe in (self._process.stdin, self._process.stdout, self._process.stderr) if pipe is not None]
        self._to, self._from, self._errors = (pipe.fileno() for pipe in self._pipes)
        for descriptor in (self._to, self._from, self._errors):
            os.set_blocking(descriptor, False)
        for descriptor in (self._to, self._from):
            # A limit of the account may refuse it: then the pipe stays at its 64 KiB and is only slower.
            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _CHUNK)
        self._poll = select.poll()
        self._poll.register(self._from, select.POLLIN)
        self._poll.register(self._errors, select.POLLIN)
        self._inbox = Inbox()
        self._worth_telling = worth_telling
        self._said = bytearray()
        self._ended = False  # its output
        self._over = False  # either way
        self._closed = False

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The child's exit status, None while it runs."""
        return self._process.poll()

    def send_all(self, data: bytes, deadline: float, *, room: int) -> None:
        rest = memoryview(data)
        started = time.monotonic()
        self._require_open()
        try:
            while rest:
                try:
                    rest = rest[os.write(self._to, rest) :]
                except BlockingIOError:
                    self._poll.register(self._to, select.POLLOUT)
                    self._wait(deadline, started)
                    if not self._ended and (chunk := self._take()):
                        self._inbox.put(chunk, room=room)
        except BrokenPipeError as error:
            self._over = True
            raise StreamLost("the connection was closed", untouched=len(rest) == len(data)) from error
        finally:
            with contextlib.suppress(KeyError):  # the usual case: nothing had to wait
                self._poll.unregister(self._to)

    def receive(self, deadline: float) -> bytes:
        self._require_open()
        started = time.monotonic()
        data = self._inbox.take()
        while not data and not self._ended:
            data = self._take()
            if not data and not self._ended:
                self._wait(deadline, started)
        return data

    def last_words(self) -> str:
        if self._over and not self._closed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
        return self._worth_telling(self.said())

    def said(self) -> str:
        """The end of what the child has written to its standard error so far."""
        if not self._closed:
            self._listen()
        return self._said.decode("utf-8", "backslashreplace")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        *both, errors = self._pipes
        for pipe in both:
            pipe.close()
        for end in (self._process.poll, self._process.terminate, self._process.kill):
            end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
                break
        self._listen()
        errors.close()

    def _require_open(self) -> None:
        if self._closed:
            raise StreamLost("the connection is closed", untouched=True)

    def _take(self) -> bytes:
        """What has arrived; b"" where nothing has, or where the child has ended its output (then `_ended` is set)."""
        try:
            data = os.read(self._from, _CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            self._ended = self._over = True
            self._poll.unregister(self._from)  # a poll would return at once for ever
        return data

    def _wait(self, deadline: float, started: float) -> None:
        """Until something can be done; what the child says is listened to, so that it never blocks on saying it."""
        left = deadline - time.monotonic()
        ready = self._poll.poll(max(left, 0) * 1000)
        if not ready:
            raise StreamLost(silence(deadline - started))
        if any(descriptor == self._errors for descriptor, _ in ready):
            self._listen()

    def _listen(self) -> None:
        """Keeps the end of what the child has said."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._errors, _TAIL):
                self._said += chunk
                del self._said[:-_TAIL]
            with contextlib.suppress(KeyError):
                self._poll.unregister(self._errors)  # ended, and so for the same reason
