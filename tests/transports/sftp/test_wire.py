"""The session itself: hostile answers, silence, and what is known when it breaks."""

import getpass
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import paramiko
import pytest

from testenv.servers import BareSftp
from tests.transports.sftp.helpers import Meddled, names, put
from tests.transports.sftp.meddler import Meddler
from tests.transports.sftp.sshd import ScratchSshd
from transports.endpoint import Timeouts
from transports.errors import OutcomeUnknown, ServerFailure, TransportError, Unreachable, UnsafePath
from transports.sftp import SftpTransport, streams
from transports.sftp.packets import Fields, Malformed, Op, parse_names, string, uint32
from transports.sftp.ssh_channel import ChannelStream
from transports.sftp.streams import PipeStream, Stream, StreamLost


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that was stopped on purpose needs no time to end by itself."""
    monkeypatch.setattr(streams, "_PATIENCE", 0.2)


QUICK = Timeouts(connect=3.0, reply=0.5)


class Canned:
    """A stream whose server says what it was told to say, whatever it is asked."""

    def __init__(self, *packets: bytes) -> None:
        self._packets = list(packets)
        self.closed = False

    def send_all(self, data: bytes, deadline: float, *, room: int) -> None:
        pass

    def receive(self, deadline: float) -> bytes:
        return self._packets.pop(0) if self._packets else b""

    def last_words(self) -> str:
        return ""

    def close(self) -> None:
        self.closed = True


VERSION_3 = string(bytes([Op.VERSION]) + uint32(3))
A_FOLDER = string(bytes([Op.ATTRS]) + uint32(0) + uint32(4) + uint32(0o040755))  # the answer to the look at the root
NO_RENAME = string(bytes([Op.STATUS]) + uint32(1) + uint32(2) + string(b"") + string(b""))


@pytest.mark.parametrize(
    ("packets", "told"),
    [
        ((b"\xff\xff\xff\xff",), "a packet of 4294967295 bytes"),
        ((uint32(0),), "a packet of 0 bytes"),
        ((string(bytes([Op.VERSION])),), "0 are left"),
        ((string(bytes([Op.VERSION]) + uint32(4)),), "version 4"),
        ((string(bytes([Op.VERSION]) + uint32(2)),), "version 2"),
        ((string(bytes([Op.HANDLE]) + uint32(3)),), "type 102"),
        ((string(bytes([Op.VERSION]) + uint32(3) + uint32(2**31)),), "a field of 2147483648 bytes"),
        ((VERSION_3, string(bytes([Op.ATTRS]) + uint32(9) + uint32(0))), "request 9"),
        ((VERSION_3, string(bytes([Op.DATA]) + uint32(0) + string(b"x"))), "type 103 in place of ATTRS"),
        ((VERSION_3, string(bytes([Op.ATTRS]) + uint32(0) + uint32(0x10))), "attribute flags 0x10"),
        ((VERSION_3, string(bytes([Op.ATTRS, 0, 0]))), "a field of 4 bytes where 2 are left"),
    ],
)
def test_an_answer_that_cannot_be_ends_the_session_with_a_reason(packets: tuple[bytes, ...], told: str) -> None:
    stream = Canned(*packets)
    with pytest.raises(ServerFailure, match="SFTP") as caught:
        SftpTransport.over_stream(stream, "/drop")
    assert told in str(caught.value)
    assert stream.closed


def test_a_second_answer_to_one_request_ends_the_session() -> None:
    transport = SftpTransport.over_stream(Canned(VERSION_3, A_FOLDER, NO_RENAME, NO_RENAME), "/drop")
    with pytest.raises(ServerFailure, match="was not made or is answered"):
        transport.stat("x")


def test_a_listing_cannot_announce_more_names_than_it_has_bytes_for() -> None:
    with pytest.raises(Malformed, match="4294967295 entries announced in 8 bytes"):
        parse_names(Fields(uint32(2**32 - 1) + bytes(8)))


def test_a_login_script_that_prints_is_told_from_a_broken_server(bare_sftp: BareSftp, tmp_path: Path) -> None:
    stream = PipeStream(["sh", "-c", f"echo Welcome to the machine; exec {bare_sftp.command[0]}"])
    with pytest.raises(ServerFailure, match=r"'Welcome to the machine\\n.*login script"):
        SftpTransport.over_stream(stream, str(tmp_path))


def test_a_server_that_never_greets_is_given_up_in_time(tmp_path: Path) -> None:
    """Case paramiko-prefetch-hang: every wait has an end."""
    started = time.monotonic()
    with pytest.raises(Unreachable, match="no answer within 1 s"):
        SftpTransport.over_stream(PipeStream(["sleep", "60"]), str(tmp_path), timeouts=Timeouts(connect=1.0))
    assert time.monotonic() - started < 8


def test_what_the_server_says_at_its_end_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no more processes for you"):
        SftpTransport.over_stream(PipeStream(["sh", "-c", "echo no more processes for you >&2; exit 1"]), str(tmp_path))


def server_of(transport: SftpTransport) -> int:
    stream = transport._client.wire._stream
    assert isinstance(stream, PipeStream)
    return stream.pid


CHANGES: dict[str, Callable[[SftpTransport], object]] = {
    "create": lambda t: t.create("new"),
    "publish": lambda t: t.publish("x", "y"),
    "claim": lambda t: t.claim("x", "y"),
    "replace": lambda t: t.replace("x", "y"),
    "delete": lambda t: t.delete("x"),
    "make_dir": lambda t: t.make_dir("new"),
    "remove_dir": lambda t: t.remove_dir("folder"),
}
LOOKS: dict[str, Callable[[SftpTransport], object]] = {
    "stat": lambda t: t.stat("x"),
    "scan": lambda t: list(t.scan()),
    "open_read": lambda t: t.open_read("x"),
    "free_space": lambda t: t.free_space(),
}


@pytest.mark.parametrize("operation", CHANGES)
def test_a_change_without_an_answer_is_of_unknown_outcome(bare: Callable[..., SftpTransport], operation: str) -> None:
    """Case rename-lost-reply: what was sent and not answered was made, or it was not."""
    transport = bare(timeouts=QUICK)
    put(transport, "x", b"data")
    transport.make_dir("folder")
    os.kill(server_of(transport), signal.SIGSTOP)
    with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.5 s") as caught:
        CHANGES[operation](transport)
    assert caught.value.operation == operation
    with pytest.raises(Unreachable):
        transport.stat("x")


@pytest.mark.parametrize("operation", LOOKS)
def test_a_look_without_an_answer_is_unreachable(bare: Callable[..., SftpTransport], operation: str) -> None:
    transport = bare(timeouts=QUICK)
    put(transport, "x", b"data")
    os.kill(server_of(transport), signal.SIGSTOP)
    with pytest.raises(Unreachable) as caught:
        LOOKS[operation](transport)
    assert caught.value.operation == operation


@pytest.mark.parametrize("operation", CHANGES)
def test_a_change_that_could_not_be_sent_was_not_made(bare: Callable[..., SftpTransport], drop: Path, operation: str) -> None:
    transport = bare()
    put(transport, "x", b"data")
    transport.make_dir("folder")
    os.kill(server_of(transport), signal.SIGKILL)
    wait_until_dead(server_of(transport))
    with pytest.raises(Unreachable) as caught:
        CHANGES[operation](transport)
    assert caught.value.operation == operation
    assert sorted(path.name for path in drop.iterdir()) == ["folder", "x"]


def test_after_a_lost_connection_every_call_says_so_at_once(bare: Callable[..., SftpTransport]) -> None:
    transport = bare(timeouts=Timeouts(reply=0.5))
    put(transport, "x", b"data")
    os.kill(server_of(transport), signal.SIGSTOP)
    with pytest.raises(TransportError):
        transport.stat("x")
    started = time.monotonic()
    more: list[Callable[[SftpTransport], object]] = [lambda t: t.wait_for_change("", 60), lambda t: t.server_time()]
    for call in [*CHANGES.values(), *LOOKS.values(), *more]:
        with pytest.raises(Unreachable):
            call(transport)
    assert time.monotonic() - started < 0.5


def echoed(stream: Stream, data: bytes) -> bytes:
    """Sends all, and only then takes what came back."""
    until = time.monotonic() + 20
    stream.send_all(data, until, room=2 * len(data))
    back = b""
    while len(back) < len(data):
        back += stream.receive(until)
    return back


def test_both_directions_of_a_pipe_may_be_full() -> None:
    """A server that waits for its answers to be taken takes no requests: a naive sender waits for it, for ever."""
    stream = PipeStream(["cat"])
    data = os.urandom(8 * 1024 * 1024)
    assert echoed(stream, data) == data
    stream.close()


def test_both_directions_of_a_channel_may_be_full(sshd: Callable[..., ScratchSshd]) -> None:
    server = sshd(subsystem="/bin/cat")
    transport = paramiko.Transport(("127.0.0.1", server.port))
    transport.connect(username=getpass.getuser(), pkey=paramiko.Ed25519Key.from_private_key_file(str(server.user_key)))
    channel = transport.open_session()
    channel.invoke_subsystem("sftp")
    stream = ChannelStream(channel, transport)
    data = os.urandom(24 * 1024 * 1024)
    assert echoed(stream, data) == data
    stream.close()


def test_a_server_that_floods_is_cut_off() -> None:
    """What comes while a sender waits is kept, but not without a bound."""
    stream = PipeStream(["cat", "/dev/zero"])
    try:
        with pytest.raises(StreamLost, match="more than it was asked for"):
            stream.send_all(bytes(4 * 1024 * 1024), time.monotonic() + 10, room=2 * 1024 * 1024)
    finally:
        stream.close()


@pytest.mark.parametrize(
    "path", ["a\0b", "a/\0", "new\nline", "..", "a/../../b", "back\\slash", "sur\udcffrogate", "/abs", "a//b"]
)
def test_an_unsafe_path_is_refused_before_anything_is_sent(meddled: Meddled, path: str) -> None:
    """Cases nul-kills-session, newline-in-manifest-name: a NUL ends a whole OpenSSH session."""
    transport, server = meddled(Meddler)
    sent = len(server.asked)
    for call in (transport.create, transport.open_read, transport.stat, transport.delete, transport.make_dir, transport.scan):
        with pytest.raises(UnsafePath):
            call(path)
    for rename in (transport.publish, transport.claim, transport.replace):
        with pytest.raises(UnsafePath):
            rename("x", path)
    assert len(server.asked) == sent
    assert names(transport) == []


def test_a_ctrl_c_at_the_terminal_does_not_reach_the_child(bare: Callable[..., SftpTransport]) -> None:
    """The item being finished still needs its connection."""
    assert os.getpgid(server_of(bare())) != os.getpgid(0)


def test_close_leaves_no_process(bare: Callable[..., SftpTransport]) -> None:
    transport = bare()
    pid = server_of(transport)
    transport.close()
    assert not Path(f"/proc/{pid}").exists()


def test_close_ends_a_server_that_is_stuck(bare: Callable[..., SftpTransport]) -> None:
    transport = bare()
    pid = server_of(transport)
    os.kill(pid, signal.SIGSTOP)
    transport.close()
    assert not Path(f"/proc/{pid}").exists()


def wait_until_dead(pid: int) -> None:
    until = time.monotonic() + 5
    while Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[2] != "Z":
        assert time.monotonic() < until
        time.sleep(0.01)
