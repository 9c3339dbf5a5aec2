"""Bad networks and busy servers: refusals, silence, cuts, and the one thing that is tried again."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testenv.proxy import Proxy
from testenv.servers import SftpServer
from tests.transports.sftp.helpers import ENGINES, Connect, got, names, put
from tests.transports.sftp.sshd import ScratchSshd
from transports.endpoint import Timeouts
from transports.errors import OutcomeUnknown, Unreachable
from transports.sftp import SftpTransport, connect_sftp
from transports.sftp.ssh_channel import ChannelStream, SshSocket

MIB = 1024 * 1024


class Waits:
    """Pauses that take no time, and are kept; `at_first` is done in the first of them."""

    def __init__(self, at_first: Callable[[], object] = lambda: None) -> None:
        self.taken: list[float] = []
        self._at_first = at_first

    def sleep(self, seconds: float) -> None:
        self.taken.append(seconds)
        if len(self.taken) == 1:
            self._at_first()

    def random(self) -> float:
        return 0.5


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_with_too_many_logins_under_way_is_tried_again(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, opened: Any, engine: str
) -> None:
    """Cases max-startups, eof-before-open: it hangs up before it says a word, and means "a little later"."""
    server = sshd("MaxStartups 1:100:1")
    pending = socket.create_connection(("127.0.0.1", server.port))
    pending.recv(100)

    def leave() -> None:
        pending.close()
        time.sleep(0.5)  # the server notices that the other login has gone

    waits = Waits(leave)
    endpoint = server.endpoint(tmp_path, engine=engine)
    transport = opened.enter_context(connect_sftp(endpoint, sleep=waits.sleep, random=waits.random))
    assert "sshd" in names(transport)
    assert waits.taken == [0.25]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_that_stays_full_is_given_up_after_growing_pauses(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, engine: str
) -> None:
    server = sshd("MaxStartups 1:100:1")
    waits = Waits()
    with socket.create_connection(("127.0.0.1", server.port)) as pending:
        pending.recv(100)
        with pytest.raises(Unreachable, match=r"MaxStartups.*5 times"):
            connect_sftp(server.endpoint(tmp_path, engine=engine), sleep=waits.sleep, random=waits.random)
    assert waits.taken == [0.25, 0.5, 1.0, 2.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_listens(connect: Connect, engine: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match="refused"):
        connect(engine, "", port=port)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_that_never_speaks_is_given_up_in_time(connect: Connect, engine: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        with pytest.raises(Unreachable):
            connect(engine, "", port=silent.getsockname()[1], timeouts=Timeouts(connect=1.0))
        assert time.monotonic() - started < 8


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("after", [1, 4, 7])
def test_a_server_that_falls_silent_while_logging_in_is_given_up_in_time(
    connect: Connect, sftp_server: SftpServer, proxy_factory: Callable[[str, int], Proxy], engine: str, after: int
) -> None:
    """At any step: the banner, the key exchange, the login, the opening of the channel."""
    proxy = proxy_factory(sftp_server.host, sftp_server.port)
    pieces = 0

    def enough(data: bytes) -> bool:
        nonlocal pieces
        pieces += 1
        if pieces >= after:
            proxy._silent = True  # it is the proxy's own thread that asks
        return False

    proxy.cut_reply_after(enough)
    started = time.monotonic()
    with pytest.raises(Unreachable):
        connect(engine, "", port=proxy.port, timeouts=Timeouts(connect=1.0))
    assert time.monotonic() - started < 10


def test_what_is_not_ssh_is_told(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        with pytest.raises(Unreachable, match=r"HTTP/1\.1 400"):
            connect("paramiko", "", port=listener.getsockname()[1], timeouts=Timeouts(connect=3.0))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("operation", ["claim", "publish", "delete", "create", "make_dir"])
def test_a_change_whose_reply_is_lost_is_made_and_of_unknown_outcome(
    connect: Connect,
    sftp_server: SftpServer,
    sftp_dir: str,
    proxy_factory: Callable[[str, int], Proxy],
    engine: str,
    operation: str,
) -> None:
    """Case rename-lost-reply: the caller reconnects, and looks."""
    proxy = proxy_factory(sftp_server.host, sftp_server.port)
    transport = connect(engine, sftp_dir, port=proxy.port)
    put(transport, "x", b"data")
    calls: dict[str, Callable[[], object]] = {
        "claim": lambda: transport.claim("x", "C_x"),
        "publish": lambda: transport.publish("x", "y"),
        "delete": lambda: transport.delete("x"),
        "create": lambda: transport.create("new"),
        "make_dir": lambda: transport.make_dir("new"),
    }
    left = {"claim": ["C_x"], "publish": ["x", "y"], "delete": [], "create": ["new", "x"], "make_dir": ["new", "x"]}
    proxy.cut_reply_after(1)
    with pytest.raises(OutcomeUnknown) as caught:
        calls[operation]()
    assert caught.value.operation == operation
    with pytest.raises(Unreachable):
        transport.stat("x")
    assert names(connect(engine, sftp_dir)) == left[operation]
    if operation == "publish":
        again = connect(engine, sftp_dir)
        assert got(again.open_read("x")) == got(again.open_read("y")) == b"data"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cut_connection_is_unreachable_for_who_only_looks(
    connect: Connect, sftp_server: SftpServer, sftp_dir: str, proxy_factory: Callable[[str, int], Proxy], engine: str
) -> None:
    proxy = proxy_factory(sftp_server.host, sftp_server.port)
    transport = connect(engine, sftp_dir, port=proxy.port)
    proxy.cut()
    for call in (lambda: transport.stat(""), lambda: list(transport.scan()), lambda: transport.open_read("x")):
        with pytest.raises(Unreachable):
            call()


def swallowing(
    connect: Connect, server: SftpServer, folder: str, proxy_factory: Callable[[str, int], Proxy], engine: str
) -> tuple[SftpTransport, Proxy]:
    proxy = proxy_factory(server.host, server.port)
    return connect(engine, folder, port=proxy.port, timeouts=Timeouts(reply=1.0)), proxy


@pytest.mark.parametrize("engine", ENGINES)
def test_a_peer_that_vanishes_is_noticed_by_who_writes(
    connect: Connect, sftp_server: SftpServer, sftp_dir: str, proxy_factory: Callable[[str, int], Proxy], engine: str
) -> None:
    """A machine that was switched off answers nothing and refuses nothing."""
    transport, proxy = swallowing(connect, sftp_server, sftp_dir, proxy_factory, engine)
    sink = transport.create("B_x")
    proxy.black_hole()
    started = time.monotonic()
    with pytest.raises(Unreachable):
        sink.write(os.urandom(64 * MIB))
    assert time.monotonic() - started < 10
    with pytest.raises(Unreachable):
        sink.abort()


def test_a_socket_whose_peer_takes_nothing_gives_up() -> None:
    """paramiko sends again and again to a socket that is full, for ever."""

    def send_on() -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                stuck.send(bytes(65536))

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        SshSocket(socket.create_connection(listener.getsockname()), patience=0.5) as stuck,
    ):
        stuck.settimeout(0.1)
        started = time.monotonic()
        with pytest.raises(ConnectionAbortedError, match="takes no more data"):
            send_on()
        assert 0.4 < time.monotonic() - started < 5


@pytest.mark.parametrize("engine", ENGINES)
def test_a_peer_that_vanishes_is_noticed_by_who_reads(
    connect: Connect, sftp_server: SftpServer, sftp_dir: str, proxy_factory: Callable[[str, int], Proxy], engine: str
) -> None:
    folder = sftp_server.local(sftp_dir)
    assert folder is not None
    (folder / "large").touch()
    os.truncate(folder / "large", 256 * MIB)
    transport, proxy = swallowing(connect, sftp_server, sftp_dir, proxy_factory, engine)
    with transport.open_read("large") as source:
        source.read()
        proxy.black_hole()
        started = time.monotonic()
        with pytest.raises(Unreachable, match="no answer within 1 s"):
            b"".join(source)
        assert time.monotonic() - started < 10


@pytest.mark.parametrize("engine", ENGINES)
def test_a_distant_link_is_kept_full(
    connect: Connect, sftp_server: SftpServer, sftp_dir: str, proxy_factory: Callable[[str, int], Proxy], engine: str
) -> None:
    """Case paramiko-slow-read: asking for one block after the other, 8 MiB would cost 32 round trips of 0.2 s each way."""
    proxy = proxy_factory(sftp_server.host, sftp_server.port)
    transport = connect(engine, sftp_dir, port=proxy.port)
    proxy.delay(0.1)
    data = os.urandom(8 * MIB)
    started = time.monotonic()
    put(transport, "x", data)
    written = time.monotonic()
    assert got(transport.open_read("x")) == data
    read = time.monotonic()
    assert written - started < 4.5
    assert read - written < 4.5


@pytest.mark.parametrize("engine", ENGINES)
def test_new_keys_are_agreed_upon_in_the_midst_of_a_transfer(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, opened: Any, engine: str
) -> None:
    server = sshd("RekeyLimit 3M")
    transport = opened.enter_context(connect_sftp(server.endpoint(tmp_path, engine=engine)))
    data = os.urandom(10 * MIB)
    put(transport, "x", data)
    assert got(transport.open_read("x")) == data


def test_new_keys_asked_for_from_here_interrupt_nothing(connect: Connect, sftp_dir: str) -> None:
    """paramiko asks for them after 512 MiB in one direction."""
    transport = connect("paramiko", sftp_dir)
    stream = transport._client.wire._stream
    assert isinstance(stream, ChannelStream)
    stream._transport.packetizer.REKEY_BYTES = 3 * MIB
    data = os.urandom(10 * MIB)
    put(transport, "x", data)
    assert got(transport.open_read("x")) == data
