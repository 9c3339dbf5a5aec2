"""The SSH layer by paramiko: a verified server, a login, and an SFTP channel with room for bulk.

paramiko brings SSH itself; its SFTP client is not used. One deadline covers everything from the first packet to the open
channel, also the steps for which paramiko has none.
"""

import getpass
import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from transports.endpoint import Endpoint
from transports.errors import HostKeyRejected, Unreachable, Unsupported
from transports.sftp.attempts import DroppedEarly, Pauses, persistently
from transports.sftp.client import Client
from transports.sftp.edge import asking
from transports.sftp.host_keys import DEFAULT_PORT, SYSTEM_FILES, KnownKey, fingerprint, judge, kind_of, known_keys, user_files
from transports.sftp.ssh_channel import ChannelStream, SshSocket
from transports.sftp.ssh_login import log_in
from transports.sftp.wire import Wire

# GCM first: it is encryption and integrity in one pass of one library call, and several times faster here.
_CIPHERS: Final = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
_MACS: Final = (
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-sha1",
)
_HOST_KEYS: Final = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
_ALGORITHMS: Final = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}  # of a key type, where they differ from its name

_WINDOW: Final = 16 * 1024 * 1024  # bytes; more than this module's readers ever have under way
_PACKET: Final = 128 * 1024  # bytes
_PATIENCE: Final = 2.0  # seconds for paramiko's thread to end
_KEEPALIVE: Final = 30  # seconds; below the patience of the usual firewall

# paramiko reports its troubles here as well as by exceptions: they are told once, by the exception.
_LOG: Final = "transports.sftp.ssh"
logging.getLogger(_LOG).addHandler(logging.NullHandler())


def connect_paramiko(endpoint: Endpoint, pauses: Pauses) -> tuple[Client, str]:
    """An SFTP session, and what the server calls itself.

    Raises Unreachable, HostKeyRejected, AuthenticationFailed, Unsupported (no common algorithm, no SFTP), and ServerFailure
    from the session itself.
    """
    deadline = time.monotonic() + endpoint.timeouts.connect
    transport = _Dialer(endpoint, pauses, deadline).connected()
    try:
        with _in_time(transport, deadline, "login"):
            log_in(transport, endpoint, endpoint.location.user or getpass.getuser(), deadline=deadline)
            channel = _open_subsystem(transport)
        transport.set_keepalive(_KEEPALIVE)
        with asking("connect", ""):
            wire = Wire(ChannelStream(channel, transport), reply_timeout=endpoint.timeouts.reply)
            client = Client(wire, timeout=endpoint.timeouts.connect)
        return client, transport.remote_version.removeprefix("SSH-2.0-")
    except BaseException:
        _end(transport)
        raise


class _Dialer:
    """Reaches the server and settles which of its keys counts."""

    def __init__(self, endpoint: Endpoint, pauses: Pauses, deadline: float) -> None:
        self._endpoint = endpoint
        self._host = endpoint.location.host
        self._port = endpoint.location.port or DEFAULT_PORT
        self._pauses = pauses
        self._deadline = deadline

    def connected(self) -> paramiko.Transport:
        """A connection whose host key is accepted. Raises Unreachable, HostKeyRejected, Unsupported."""
        if self._endpoint.host_key is not None:
            return self._pinned(self._endpoint.host_key)
        known = self._known()
        transport = self._negotiated(_preferring(known))
        blob = transport.get_remote_server_key().asbytes()
        verdict = judge(blob, known, self._host, self._port)
        if not verdict.accepted:
            _end(transport)
            raise HostKeyRejected("connect", "", verdict.reason)
        return transport

    def _pinned(self, pin: str) -> paramiko.Transport:
        """A server has a key of each type and shows one: types are offered until the pinned key is shown."""
        kinds: Sequence[str] = _preferring(())
        shown: list[str] = []
        while kinds:
            try:
                transport = self._negotiated(kinds)
            except Unsupported:
                if not shown:
                    raise
                break  # it has no key of the types that are left
            blob = transport.get_remote_server_key().asbytes()
            if fingerprint(blob) == pin:
                return transport
            _end(transport)
            shown.append(f"{kind_of(blob)} {fingerprint(blob)}")
            kinds = [kind for kind in kinds if kind not in _ALGORITHMS.get(kind_of(blob), (kind_of(blob),))]
        raise HostKeyRejected(
            "connect",
            "",
            f"pinned is {pin}, and the server shows {', '.join(shown)}: the key has changed, or this is another server",
        )

    def _known(self) -> list[KnownKey]:
        given = self._endpoint.known_hosts
        if given is not None and not given.exists():
            raise HostKeyRejected("connect", "", f"the known_hosts file {given} does not exist")
        files = (given,) if given is not None else (*user_files(Path.home()), *SYSTEM_FILES)
        try:
            return known_keys(files, self._host, self._port)
        except OSError as error:
            raise HostKeyRejected("connect", "", f"known_hosts cannot be read: {error}") from error

    def _negotiated(self, kinds: Sequence[str]) -> paramiko.Transport:
        return persistently(lambda: self._negotiate(kinds), self._pauses, deadline=self._deadline)

    def _negotiate(self, kinds: Sequence[str]) -> paramiko.Transport:
        """One connection, encrypted, its server not yet trusted."""
        connection = self._dial()
        transport = paramiko.Transport(connection, default_window_size=_WINDOW, default_max_packet_size=_PACKET)
        transport.set_log_channel(_LOG)
        options = transport.get_security_options()
        options.ciphers, options.digests, options.key_types = _CIPHERS, _MACS, tuple(kinds)
        left = max(self._deadline - time.monotonic(), 0.1)
        transport.banner_timeout = transport.handshake_timeout = left
        try:
            transport.start_client(timeout=left)
            transport.get_remote_server_key()  # `start_client` returns also when its time is over
        except (paramiko.SSHException, EOFError, OSError) as error:
            _end(transport)
            raise self._not_negotiated(connection, error) from error
        except BaseException:
            _end(transport)
            raise
        return transport

    def _not_negotiated(self, connection: SshSocket, error: Exception) -> Exception:
        where = f"{self._host} port {self._port}"
        if isinstance(error, IncompatiblePeer):
            return Unsupported("connect", "", f"{where} has no algorithm in common with this client: {error}")
        if time.monotonic() >= self._deadline:
            seconds = self._endpoint.timeouts.connect
            return Unreachable("connect", "", f"{where} takes the connection, and does not answer within {seconds:g} s")
        if not connection.spoke_ssh:
            return DroppedEarly(connection.opening.decode("utf-8", "backslashreplace").strip())
        return Unreachable("connect", "", f"{where}: {str(error) or 'the connection was closed'}")

    def _dial(self) -> SshSocket:
        where = f"{self._host} port {self._port}"
        try:
            left = max(self._deadline - time.monotonic(), 0.1)
            return SshSocket(socket.create_connection((self._host, self._port), left), patience=self._endpoint.timeouts.reply)
        except socket.gaierror as error:
            raise Unreachable("connect", "", f"the name {self._host!r} is not known: {error.strerror}") from error
        except TimeoutError as error:
            raise Unreachable("connect", "", f"{where} does not answer within {self._endpoint.timeouts.connect:g} s") from error
        except OSError as error:
            raise Unreachable("connect", "", f"{where}: {error.strerror or error}") from error


def _preferring(known: Sequence[KnownKey]) -> list[str]:
    """Every host key algorithm, those of the known keys first: the server then shows a key that can be recognised."""
    first = [name for key in known for name in _ALGORITHMS.get(key.kind, (key.kind,)) if name in _HOST_KEYS]
    return list(dict.fromkeys([*first, *_HOST_KEYS]))


def _open_subsystem(transport: paramiko.Transport) -> paramiko.Channel:
    try:
        channel = transport.open_session()
    except paramiko.ChannelException as error:
        detail = (
            f"logged in, and the server opens no session (code {error.code}, {error.text}): its MaxSessions is used up, or 0"
        )
        raise Unreachable("connect", "", detail) from error
    try:
        channel.invoke_subsystem("sftp")
    except paramiko.SSHException as error:
        if not transport.is_active():
            raise
        raise Unsupported("connect", "", "logged in, and the server offers no SFTP to this account") from error
    return channel


@contextmanager
def _in_time(transport: paramiko.Transport, deadline: float, step: str) -> Iterator[None]:
    """Ends the connection at the deadline: some waits of paramiko have no other end."""
    timer = threading.Timer(max(deadline - time.monotonic(), 0.1), transport.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (paramiko.SSHException, EOFError, OSError) as error:
        late = time.monotonic() >= deadline
        raise Unreachable(
            "connect", "", f"no {step} in time" if late else f"the connection ended during {step}: {error}"
        ) from error
    finally:
        timer.cancel()
        timer.join()


def _end(transport: paramiko.Transport) -> None:
    transport.packetizer.complete_handshake()  # else its timer's thread lives on
    transport.close()
    if transport.is_alive():
        transport.join(_PATIENCE)
    transport.sock.close()
