"""Reaching a server and logging in: every refusal has its class, is told in words, and ends in bounded time."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from smbprotocol import Dialects

from testenv.proxy import Proxy
from testenv.servers import SmbServer
from tests.transports.smb.beside import Connect, content, fill
from transports.endpoint import Timeouts
from transports.errors import (
    AuthenticationFailed,
    NotFound,
    ShareNotFound,
    TransportError,
    Unreachable,
    UnsafePath,
    Unsupported,
)
from transports.smb.link import BoundedConnection

WRONG = "wrong-5ecret"


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@pytest.fixture
def ssh_like_server() -> Iterator[int]:
    """A server that speaks first and speaks no SMB; its first four bytes, read as a length, are 1.4 GB."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
                while client.recv(65536):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(timeout=10)
    assert not thread.is_alive()


def test_a_wrong_password_fails_while_another_session_is_open(connect: Connect) -> None:
    """A cache of sessions that goes by the user's name lets it in (lab; ARCHITECTURE, smbprotocol)."""
    good = connect()
    with pytest.raises(AuthenticationFailed) as caught:
        connect(password=WRONG)
    assert WRONG not in str(caught.value)
    assert WRONG not in repr(caught.value.__cause__)
    fill(good, "x")
    assert content(good, "x") == b"content"


@pytest.mark.parametrize("changes", [{"user": "nobody-of-this-name"}, {"user": "", "password": None}])
def test_an_unknown_user_is_refused(connect: Connect, changes: dict[str, Any]) -> None:
    with pytest.raises(AuthenticationFailed):
        connect(**changes)


def test_no_password_keeps_in_a_connection(connect: Connect, smb_server: SmbServer) -> None:
    drop = connect()
    (session,) = drop._link._connection.session_table.values()
    assert smb_server.password not in map(str, vars(session).values())


def test_a_missing_share_is_named(connect: Connect) -> None:
    with pytest.raises(ShareNotFound, match="no-such-share"):
        connect("no-such-share", "")


def test_a_missing_directory_is_named_in_full(connect: Connect, smb_server: SmbServer) -> None:
    with pytest.raises(NotFound) as caught:
        connect("data", "not/there")
    assert f"//127.0.0.1:{smb_server.port}/data/not/there" in str(caught.value)


def test_a_directory_that_smb_cannot_name_is_refused(connect: Connect) -> None:
    with pytest.raises(UnsafePath):
        connect("data", "a:stream")


def test_a_closed_port_is_unreachable(connect: Connect) -> None:
    """smb-connect-valueerror: smbprotocol says ValueError."""
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
        connect(port=closed_port())


def test_a_silent_server_is_unreachable_in_bounded_time(
    connect: Connect, smb_server: SmbServer, proxy_factory: Callable[[str, int], Proxy]
) -> None:
    """smb-listdir-blocks: smbprotocol waits for 60 s for the first answer, and for ever for the others."""
    proxy = proxy_factory(smb_server.host, smb_server.port)
    proxy.black_hole()
    started = time.monotonic()
    with pytest.raises(Unreachable):
        connect(port=proxy.port, timeouts=Timeouts(connect=1.0))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("after", [300, 700, 1200])
def test_a_server_that_falls_silent_during_the_login_is_unreachable(
    connect: Connect, smb_server: SmbServer, proxy_factory: Callable[[str, int], Proxy], after: int
) -> None:
    proxy = proxy_factory(smb_server.host, smb_server.port)
    seen = 0

    def silence(piece: bytes) -> bool:
        nonlocal seen
        seen += len(piece)
        proxy._silent = seen > after
        return False

    proxy.cut_reply_after(silence)
    started = time.monotonic()
    with pytest.raises(Unreachable):
        connect(port=proxy.port, timeouts=Timeouts(connect=1.0))
    assert time.monotonic() - started < 5


def test_a_login_that_is_cut_is_no_refused_password(
    connect: Connect, smb_server: SmbServer, proxy_factory: Callable[[str, int], Proxy]
) -> None:
    proxy = proxy_factory(smb_server.host, smb_server.port)
    proxy.cut_reply_after(600)
    with pytest.raises(Unreachable):
        connect(port=proxy.port)
    assert proxy.replies_cut == 1
    assert connect(port=proxy.port).capabilities.server


def test_a_server_of_another_kind_is_unreachable(connect: Connect, ssh_like_server: int) -> None:
    started = time.monotonic()
    with pytest.raises(Unreachable):
        connect(port=ssh_like_server, timeouts=Timeouts(connect=1.0))
    assert time.monotonic() - started < 5


def test_encryption_hides_what_is_written(
    connect: Connect, smb_server: SmbServer, proxy_factory: Callable[[str, int], Proxy]
) -> None:
    """smb-encrypt-ignored: on a session that is cached already, `encrypt=True` changes nothing."""
    proxy = proxy_factory(smb_server.host, smb_server.port)
    passed: list[bytes] = []

    def look(piece: bytes) -> bool:
        passed.append(piece)
        return False

    proxy.cut_reply_after(look)
    clear = connect(port=proxy.port)
    fill(clear, "clear", b"in plain sight")
    assert b"in plain sight" in b"".join(passed)
    passed.clear()
    hidden = connect(port=proxy.port, encrypt=True)
    assert "encrypted" in hidden.capabilities.server
    fill(hidden, "hidden", b"for nobody's eyes" * 100_000)
    assert content(hidden, "hidden") == b"for nobody's eyes" * 100_000
    assert b"for nobody's eyes" not in b"".join(passed)


def test_encryption_that_the_server_lacks_is_refused(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """SMB 2.1 has no encryption; the server is made to speak it by offering nothing newer."""
    monkeypatch.setattr(BoundedConnection, "connect", old_dialect(BoundedConnection.connect))
    plain = connect()
    assert plain.capabilities.server == "SMB 2.1"
    fill(plain, "x")
    with pytest.raises(Unsupported, match="encryption"):
        connect(encrypt=True)


def old_dialect(real: Callable[..., None]) -> Callable[..., None]:
    def connect(self: BoundedConnection, **options: float) -> None:
        partial(real, self, dialect=Dialects.SMB_2_1_0)(**options)

    return connect


def test_six_threads_that_connect_at_once_have_six_connections(connect: Connect) -> None:
    """smb-register-race: a shared cache opens six and keeps one."""
    failures: list[TransportError] = []

    def use(number: int) -> None:
        try:
            fill(connect(), f"x{number}")
        except TransportError as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not failures
    assert sorted(entry.name for entry in connect().scan()) == [f"x{number}" for number in range(6)]
