"""Connections that die: what is known afterwards, and that nothing hangs."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from smbprotocol.connection import Connection

from testenv.proxy import Proxy
from testenv.servers import SmbServer
from tests.transports.smb.beside import Connect, content, fill, names
from transports.endpoint import Timeouts
from transports.errors import OutcomeUnknown, TransportError, Unreachable
from transports.smb import SmbTransport

QUICK = Timeouts(connect=5.0, reply=1.0)
AT_MOST = 6.0  # seconds, for a call that is given one

Proxied = Callable[..., SmbTransport]


class Second:
    """True of the second piece that it is shown."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, piece: bytes) -> bool:
        self.seen += 1
        return self.seen == 2


@pytest.fixture
def proxy(smb_server: SmbServer, proxy_factory: Callable[[str, int], Proxy]) -> Proxy:
    return proxy_factory(smb_server.host, smb_server.port)


@pytest.fixture
def through(connect: Connect, proxy: Proxy) -> SmbTransport:
    """A connection through the proxy, whose answers may take one second."""
    return connect(port=proxy.port, timeouts=QUICK)


CALLS: dict[str, Callable[[SmbTransport], object]] = {
    "create": lambda drop: drop.create("new"),
    "open_read": lambda drop: drop.open_read("x"),
    "publish": lambda drop: drop.publish("x", "y"),
    "claim": lambda drop: drop.claim("x", "y"),
    "replace": lambda drop: drop.replace("x", "y"),
    "scan": lambda drop: list(drop.scan()),
    "stat": lambda drop: drop.stat("x"),
    "delete": lambda drop: drop.delete("x"),
    "make_dir": lambda drop: drop.make_dir("new"),
    "remove_dir": lambda drop: drop.remove_dir("folder"),
    "same_volume": lambda drop: drop.same_volume("", ""),
    "server_time": lambda drop: drop.server_time(),
    "free_space": lambda drop: drop.free_space(),
    "wait_for_change": lambda drop: drop.wait_for_change("", 0.1),
}
CHANGES = {"create", "publish", "claim", "delete", "make_dir", "remove_dir"}  # replace looks first, and is lost there


@pytest.mark.parametrize("member", CALLS)
def test_a_server_that_falls_silent_ends_every_call_in_bounded_time(
    connect: Connect, proxy: Proxy, through: SmbTransport, member: str
) -> None:
    """smb-listdir-blocks: without a deadline of ours the wait is for ever."""
    beside = connect()
    fill(beside, "x", b"data")
    beside.make_dir("folder")
    proxy.black_hole()
    started = time.monotonic()
    with pytest.raises(OutcomeUnknown if member in CHANGES else Unreachable):
        CALLS[member](through)
    assert time.monotonic() - started < AT_MOST
    # From then on the connection is dead, says so at once, and begins nothing.
    started = time.monotonic()
    with pytest.raises(Unreachable):
        through.claim("x", "y")
    assert time.monotonic() - started < 0.5
    assert names(beside) == ["folder", "x"]


def test_a_server_that_stops_reading_ends_a_large_write_in_bounded_time(through: SmbTransport, proxy: Proxy) -> None:
    """Sockets have buffers; once those are full it is the sending that would wait for ever."""
    sink = through.create("x")
    proxy.black_hole()
    started = time.monotonic()
    with pytest.raises(Unreachable):
        sink.write(bytes(256 * 1024 * 1024))
    with pytest.raises(TransportError):
        sink.abort()
    assert time.monotonic() - started < 2 * AT_MOST


def test_a_large_file_whose_reading_is_cut_is_not_a_short_file(connect: Connect, through: SmbTransport, proxy: Proxy) -> None:
    fill(connect(), "x", bytes(32 * 1024 * 1024))
    with through.open_read("x") as source:
        assert source.read()
        proxy.cut()
        with pytest.raises(Unreachable):
            for _ in source:
                pass


LOST: dict[str, tuple[Callable[[SmbTransport], object], list[str]]] = {
    "create": (lambda drop: drop.create("new"), ["new", "x"]),
    "claim": (lambda drop: drop.claim("x", "y"), ["y"]),
    # The link is made, and the server that loses the connection never hears of the removal.
    "publish": (lambda drop: drop.publish("x", "y"), ["x", "y"]),
    "delete": (lambda drop: drop.delete("x"), []),
    "make_dir": (lambda drop: drop.make_dir("new"), ["new", "x"]),
}


@pytest.mark.parametrize("member", LOST)
def test_a_lost_answer_leaves_the_outcome_unknown_and_is_never_success(
    connect: Connect, proxy: Proxy, through: SmbTransport, member: str
) -> None:
    """rename-lost-reply: the server did it, and the answer never came."""
    beside = connect()
    fill(beside, "x", b"data")
    call, expected = LOST[member]
    proxy.cut_reply_after(1)
    with pytest.raises(OutcomeUnknown) as caught:
        call(through)
    assert caught.value.operation == member
    deadline = time.monotonic() + 10
    while names(beside) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert names(beside) == expected
    for name in expected:
        if name in ("x", "y"):
            assert content(beside, name) == b"data"


def test_a_lost_answer_to_replace_leaves_one_of_the_two_files(connect: Connect, proxy: Proxy, through: SmbTransport) -> None:
    beside = connect()
    fill(beside, "x", b"new")
    fill(beside, "y", b"old")
    proxy.cut_reply_after(Second())
    with pytest.raises(OutcomeUnknown):
        through.replace("x", "y")
    deadline = time.monotonic() + 10
    while names(beside) != ["y"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert content(beside, "y") == b"new"


def test_an_upload_that_is_cut_leaves_the_older_file_alone(connect: Connect, proxy: Proxy, through: SmbTransport) -> None:
    """nifi-delete-before-transfer: the old version stays until the new one is whole."""
    beside = connect()
    fill(beside, "state", b"old")
    sink = through.create("T_new")
    sink.write(bytes(4 * 1024 * 1024))
    proxy.cut()
    with pytest.raises(Unreachable):
        sink.commit()
    with pytest.raises(Unreachable):
        sink.abort()
    assert content(beside, "state") == b"old"


def test_a_connection_that_was_cut_while_idle_is_told_and_a_new_one_works(
    connect: Connect, proxy: Proxy, through: SmbTransport
) -> None:
    """smb-idle-broken-pipe: a cached connection stays dead."""
    fill(through, "x", b"data")
    proxy.cut()
    with pytest.raises(Unreachable):
        through.stat("x")
    with pytest.raises(Unreachable):
        through.claim("x", "y")
    assert content(connect(port=proxy.port), "x") == b"data"


def test_a_killed_server_process_is_told(connect: Connect, smb_server: SmbServer) -> None:
    drop = connect(timeouts=QUICK)
    fill(drop, "x", b"data")
    smb_server.kill_sessions()
    with pytest.raises(Unreachable):
        drop.stat("x")
    assert content(connect(), "x") == b"data"


def test_a_child_of_a_fork_is_told_and_the_parent_goes_on(drop: SmbTransport, folder: Path) -> None:
    """smb-fork-hang: the child has the socket and not the thread that reads it, so it would wait for ever."""
    fill(drop, "x", b"data")
    drop.wait_for_change("", 0)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            started = time.monotonic()
            told = 0
            for call in CALLS.values():
                try:
                    call(drop)
                except Unreachable as error:
                    told += "fork" in str(error)
            drop.close()
            code = 0 if told == len(CALLS) and time.monotonic() - started < 5 else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
    assert ended[0] == child
    assert content(drop, "x") == b"data"
    assert names(drop) == ["x"]


def test_a_server_that_grants_no_credits_ends_a_call_in_bounded_time(connect: Connect) -> None:
    """smb-credits: there is nothing under way whose answer could bring any."""
    drop = connect(timeouts=QUICK)
    window = drop._link._connection.sequence_window
    window["high"] = window["low"]
    started = time.monotonic()
    with pytest.raises(Unreachable, match="credits"):
        drop.claim("x", "y")
    assert time.monotonic() - started < AT_MOST


def test_a_publication_whose_last_answer_is_lost_is_published(connect: Connect, proxy: Proxy, through: SmbTransport) -> None:
    beside = connect()
    fill(beside, "x", b"data")
    proxy.cut_reply_after(Second())
    with pytest.raises(OutcomeUnknown, match="published as 'y'"):
        through.publish("x", "y")
    deadline = time.monotonic() + 10
    while names(beside) != ["y"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert content(beside, "y") == b"data"


def test_without_hard_links_a_lost_answer_leaves_an_empty_file(connect: Connect, proxy: Proxy, through: SmbTransport) -> None:
    beside = connect()
    fill(beside, "x", b"data")
    through._hard_links = False
    proxy.cut_reply_after(Second())
    with pytest.raises(OutcomeUnknown):
        through.publish("x", "y")
    assert names(beside) == ["x", "y"]
    assert content(beside, "y") == b""


def test_an_interrupt_while_a_request_is_sent_ends_the_connection(drop: SmbTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a frame may be out, and whatever came next would be read as its other half."""
    fill(drop, "x")

    def interrupted(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "_send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            drop.claim("x", "y")
    with pytest.raises(Unreachable, match="interrupted"):
        drop.claim("x", "y")
