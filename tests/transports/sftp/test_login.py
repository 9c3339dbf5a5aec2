"""Logging in: by whatever the endpoint gives, once, and with a reason where it is refused."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest

from testenv.proxy import Proxy
from testenv.servers import SftpServer
from tests.transports.sftp.helpers import ENGINES, Connect, names
from tests.transports.sftp.interactive import Asking, AskingServer, HangsUp, WantsTwo
from tests.transports.sftp.sshd import ScratchSshd, fingerprint_of, keygen
from transports.endpoint import Endpoint, Timeouts
from transports.errors import AuthenticationFailed, Denied, NotFound, ServerFailure, Unreachable, UnsafePath, Unsupported
from transports.secret import Secret
from transports.sftp import connect_sftp
from transports.sftp.ssh_channel import ChannelStream
from transports.urls import Location


def test_a_wrong_password_is_refused_once_and_not_told(
    connect: Connect, sftp_server: SftpServer, proxy_factory: Callable[[str, int], Proxy]
) -> None:
    proxy = proxy_factory(sftp_server.host, sftp_server.port)
    with pytest.raises(AuthenticationFailed, match="refused the password") as caught:
        connect("paramiko", "", password="not/this@one", port=proxy.port)
    assert proxy.accepted == 1
    assert sftp_server.user in str(caught.value)
    assert "not/this@one" not in f"{caught.value} {caught.value.__cause__!r} {caught.value.__dict__}"


def test_a_wrong_password_is_wrong_also_beside_a_session_of_the_right_one(connect: Connect, sftp_dir: str) -> None:
    transport = connect("paramiko", sftp_dir)
    with pytest.raises(AuthenticationFailed):
        connect("paramiko", sftp_dir, password="wrong")
    assert names(transport) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_key_that_the_server_does_not_know_is_refused(connect: Connect, tmp_path: Path, engine: str) -> None:
    with pytest.raises(AuthenticationFailed):
        connect(engine, "", password=None, key_files=(keygen(tmp_path / "stranger"),))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_key_file_logs_in(connect: Connect, sftp_server: SftpServer, sftp_dir: str, engine: str) -> None:
    assert names(connect(engine, sftp_dir, password=None, key_files=(sftp_server.key_file,))) == []


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_an_encrypted_key_is_opened_by_its_passphrase(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, opened: Any, kind: str
) -> None:
    server = sshd()
    key = keygen(tmp_path / "locked", kind, "open sesame")
    (server.folder / "user.pub").write_bytes(key.with_suffix(".pub").read_bytes())
    right = server.endpoint(tmp_path, key_files=(key,), key_passphrase=Secret("open sesame"))
    assert "sshd" in names(opened.enter_context(connect_sftp(right)))
    with pytest.raises(AuthenticationFailed, match="is encrypted: give its passphrase"):
        connect_sftp(server.endpoint(tmp_path, key_files=(key,)))
    with pytest.raises(AuthenticationFailed, match="cannot be used with this passphrase") as caught:
        connect_sftp(server.endpoint(tmp_path, key_files=(key,), key_passphrase=Secret("wrong")))
    assert "wrong" not in str(caught.value)


def test_a_key_file_that_is_no_key_is_told(connect: Connect, tmp_path: Path) -> None:
    for name, content in (("absent", None), ("text", b"not a key"), ("bytes", bytes(range(256))), ("empty", b"")):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(AuthenticationFailed, match=f"{name} cannot be"):
            connect("paramiko", "", password=None, key_files=(tmp_path / name,))


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A running agent, by its socket; it holds nothing."""
    address = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(address)], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    while not address.exists():
        assert process.poll() is None
    monkeypatch.setenv("SSH_AUTH_SOCK", str(address))
    yield address
    process.terminate()
    process.wait(10)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_agent_logs_in_where_nothing_is_given(
    agent: Path, sshd: Callable[..., ScratchSshd], tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    server = sshd()
    endpoint = server.endpoint(tmp_path, engine=engine, key_files=())
    with pytest.raises(AuthenticationFailed):
        connect_sftp(endpoint)
    subprocess.run(["ssh-add", "-q", str(server.user_key)], check=True, timeout=30, stdin=subprocess.DEVNULL)
    assert "sshd" in names(opened.enter_context(connect_sftp(endpoint)))


def test_the_accounts_own_keys_log_in_where_nothing_is_given(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    server = sshd()
    (tmp_path / ".ssh").mkdir()
    keygen(tmp_path / ".ssh" / "id_ecdsa", "ecdsa", "locked: the agent's business")
    (tmp_path / ".ssh" / "id_ed25519").write_bytes(server.user_key.read_bytes())
    assert "sshd" in names(opened.enter_context(connect_sftp(server.endpoint(tmp_path, key_files=()))))


@pytest.fixture
def asking(tmp_path: Path, opened: Any) -> Callable[[Asking], Endpoint]:
    """Serves an interface; returns the endpoint to reach it with the password `in/out@home:50% #1`."""

    def serve(interface: Asking) -> Endpoint:
        key = keygen(tmp_path / "host")
        server = opened.enter_context(AskingServer(interface, paramiko.Ed25519Key.from_private_key_file(str(key))))
        location = Location("sftp", "/drop", host="127.0.0.1", port=server.port, user="drop")
        return Endpoint(location, password=Secret("right"), host_key=fingerprint_of(key))

    return serve


def test_a_server_that_asks_in_a_dialogue_is_answered(asking: Callable[[Asking], Endpoint]) -> None:
    interface = Asking("right")
    with pytest.raises(Unsupported, match="logged in, and the server offers no SFTP"):
        connect_sftp(asking(interface))
    assert interface.answers == [["right"]]


def test_a_wrong_password_is_given_once_in_a_dialogue(asking: Callable[[Asking], Endpoint]) -> None:
    """A server that asks again must not be told the same again: three of that lock an account."""
    interface = Asking("another")
    with pytest.raises(AuthenticationFailed, match="refused the password"):
        connect_sftp(asking(interface))
    assert interface.answers == [["right"], [""]]


def test_a_server_that_wants_a_key_and_a_password_gets_both(asking: Callable[[Asking], Endpoint], tmp_path: Path) -> None:
    interface = WantsTwo("right")
    endpoint = asking(interface)
    key = keygen(tmp_path / "key")
    with pytest.raises(Unsupported, match="logged in"):
        connect_sftp(Endpoint(endpoint.location, endpoint.password, key_files=(key,), host_key=endpoint.host_key))
    assert interface.answers == [["right"]]


def test_a_password_that_the_server_does_not_take_is_not_sent(asking: Callable[[Asking], Endpoint]) -> None:
    interface = WantsTwo("right")
    with pytest.raises(AuthenticationFailed, match="nothing that it takes was given; it takes publickey"):
        connect_sftp(asking(interface))
    assert interface.answers == []


def test_a_refused_password_is_not_tried_in_another_way(asking: Callable[[Asking], Endpoint]) -> None:
    interface = HangsUp("right")
    with pytest.raises(AuthenticationFailed, match="refused the password"):
        connect_sftp(asking(interface))
    assert interface.attempts == 1


def test_the_program_ssh_is_given_no_password(connect: Connect) -> None:
    for secret in ({"password": "x"}, {"key_passphrase": Secret("x")}):
        with pytest.raises(Unsupported, match="engine 'openssh' takes no password"):
            connect("openssh", "", **secret)


@pytest.mark.parametrize("host", ["-oProxyCommand=touch /tmp/x", ""])
def test_a_host_that_would_be_an_option_is_refused(connect: Connect, host: str) -> None:
    with pytest.raises(Unsupported, match="is not a host name"):
        connect("openssh", "", host=host)


def test_no_ssh_program_is_told(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unsupported, match="the program ssh cannot be run"):
        connect("openssh", "")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_without_sftp_is_told(sshd: Callable[..., ScratchSshd], tmp_path: Path, engine: str) -> None:
    with pytest.raises(Unsupported):
        connect_sftp(sshd(subsystem="").endpoint(tmp_path, engine=engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_whose_sftp_program_does_not_run_is_told(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, engine: str
) -> None:
    with pytest.raises(Unreachable, match="the server ended the session"):
        connect_sftp(sshd(subsystem="/nowhere/sftp-server").endpoint(tmp_path, engine=engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_account_whose_login_prints_something_is_told(sshd: Callable[..., ScratchSshd], tmp_path: Path, engine: str) -> None:
    server = sshd(subsystem="echo Last login: yesterday; exec /usr/lib/openssh/sftp-server")
    with pytest.raises(ServerFailure, match=r"Last login: yesterday.*login script"):
        connect_sftp(server.endpoint(tmp_path, engine=engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_that_allows_no_session_says_so_clearly(sshd: Callable[..., ScratchSshd], tmp_path: Path, engine: str) -> None:
    """Case max-sessions: `ChannelException(2, 'Connect failed')`."""
    server = sshd("MaxSessions 0")
    with pytest.raises(Unreachable, match="MaxSessions"):
        connect_sftp(server.endpoint(tmp_path, engine=engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_second_connection_needs_no_second_session(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, opened: Any, engine: str
) -> None:
    """Cases max-sessions, paramiko-threads-hang: one transport is one connection, and one channel."""
    endpoint = sshd("MaxSessions 1").endpoint(tmp_path, engine=engine)
    first, second = (opened.enter_context(connect_sftp(endpoint)) for _ in range(2))
    assert names(first) == names(second)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_root_is_found_or_told(connect: Connect, sftp_server: SftpServer, sftp_dir: str, engine: str) -> None:
    folder = sftp_server.local(sftp_dir)
    assert folder is not None
    (folder / "file").touch()
    (folder / "link").symlink_to(".")
    (folder / "inside").touch()
    with pytest.raises(NotFound, match=f"{sftp_server.data}/{sftp_dir}/absent.*make it, or correct the path"):
        connect(engine, f"{sftp_dir}/absent")
    with pytest.raises(NotFound, match="is not a folder"):
        connect(engine, f"{sftp_dir}/file")
    assert "inside" in names(connect(engine, f"{sftp_dir}/link"))
    with pytest.raises(UnsafePath):
        connect(engine, "a\0b")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_root_in_the_home_directory(connect: Connect, sftp_server: SftpServer, engine: str) -> None:
    location = replace(sftp_server.endpoint().location, path="", home=True)
    home = connect(engine, "", location=location)
    made = f"made-{os.urandom(4).hex()}"
    home.make_dir(made)
    assert names(connect(engine, "", location=replace(location, path=made))) == []
    home.remove_dir(made)


def test_a_root_that_may_not_be_entered_is_denied(connect: Connect, sftp_server: SftpServer) -> None:
    folder = sftp_server.local(sftp_server.foreign)
    assert folder is not None
    shut = folder / f"shut-{os.urandom(4).hex()}"
    (shut / "inside").mkdir(parents=True)
    shut.chmod(0o700)
    with pytest.raises(Denied):
        connect(
            "paramiko",
            f"{sftp_server.foreign}/{shut.name}/inside",
            user=sftp_server.foreign_user,
            password=sftp_server.foreign_password,
        )


def test_the_fast_ciphers_are_preferred(connect: Connect, sftp_dir: str) -> None:
    stream = connect("paramiko", sftp_dir)._client.wire._stream
    assert isinstance(stream, ChannelStream)
    assert stream._transport.local_cipher == "aes128-gcm@openssh.com"


@pytest.mark.parametrize("engine", ENGINES)
def test_close_leaves_no_thread_and_no_process(connect: Connect, sftp_dir: str, engine: str) -> None:
    before = set(threading.enumerate())
    transport = connect(engine, sftp_dir)
    names(transport)
    transport.close()
    assert set(threading.enumerate()) == before


def test_a_failed_login_leaves_no_thread(connect: Connect, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(AuthenticationFailed):
        connect("paramiko", "", password="wrong")
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Unreachable):
        connect("paramiko", "", port=silent.getsockname()[1], timeouts=Timeouts(connect=0.5))
    assert set(threading.enumerate()) == before
