"""When a server counts as answering."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testenv import probe


@contextmanager
def server_that_says(words: bytes) -> Iterator[int]:
    """A server that sends the words to each client, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return  # closed: the test is over
                with connection:
                    connection.sendall(words)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=5)


def test_an_ssh_banner_gives_the_software() -> None:
    with server_that_says(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n") as port:
        assert probe.ssh("127.0.0.1", port) == "OpenSSH_9.2p1 Debian-2"


@pytest.mark.parametrize("words", [b"", b"SSH-2.0-Open", b"220 ftp ready\r\n", b"x" * 1000])
@pytest.mark.parametrize("ask", [probe.ssh, probe.smb])
def test_other_words_are_no_answer(ask: probe.Probe, words: bytes) -> None:
    with server_that_says(words) as port, pytest.raises((probe.NotAnswering, OSError)):
        ask("127.0.0.1", port)


def test_waiting_ends_after_its_patience() -> None:
    started = time.monotonic()
    with (
        server_that_says(b"not yet\r\n") as port,
        pytest.raises(probe.NotAnswering, match=r"no answer on 127\.0\.0\.1:\d+ for 0\.3 s"),
    ):
        probe.wait(probe.ssh, "127.0.0.1", port, patience=0.3, alive=lambda: True)
    assert time.monotonic() - started < 2


def test_waiting_ends_at_once_for_a_server_that_has_ended() -> None:
    started = time.monotonic()
    with server_that_says(b"") as port, pytest.raises(probe.NotAnswering, match="has ended"):
        probe.wait(probe.ssh, "127.0.0.1", port, patience=60, alive=lambda: False)
    assert time.monotonic() - started < 2
