"""The SSH layer by the `ssh` program: `ssh -s host sftp`, its pipes as the stream.

The user's ssh_config counts, with ProxyJump, agent, certificates, security keys and ControlMaster, and the ciphers run
natively in a process of their own. ssh never asks anything (BatchMode) and never accepts a key that is not known.

A pinned key is checked by ssh itself: KnownHostsCommand names the shown key as known exactly where its fingerprint is the
pinned one, and no other file of known keys is read.
"""

import math
import os
import re
import time
from functools import partial
from pathlib import Path
from typing import Final

from transports.endpoint import Endpoint
from transports.errors import AuthenticationFailed, HostKeyRejected, ServerFailure, Unreachable, Unsupported
from transports.sftp.attempts import DroppedEarly, Pauses, persistently
from transports.sftp.client import Client
from transports.sftp.streams import PipeStream
from transports.sftp.wire import ConnectionLost, ProtocolViolation, Wire

_SPARE: Final = 2.0  # seconds for ssh to report its own timeout before it is ended

# As sftp(1) starts it, and nothing of the user's configuration that would make a session something else than a stream.
_OPTIONS: Final = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ForkAfterAuthentication=no",
    "LogLevel=DEBUG1",
)

# Prints the shown key as a line of known_hosts where its fingerprint (%f) is the pinned one ($0).
_PIN: Final = """KnownHostsCommand=/bin/sh -c 'if [ "$1" = "$0" ]; then echo "$2 $3 $4"; fi' {pin} %f %H %t %K"""

# A server has a key of each type and shows one; the pinned one may be of any.
_KEY_TYPES: Final = (
    "",
    "ssh-ed25519",
    "ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521",
    "rsa-sha2-512,rsa-sha2-256",
)

# ssh ends with 255 whatever went wrong, and only its words tell a refused login, a rejected key and the network apart. So
# here, and nowhere else, words are read: those of ssh itself, which is started with LC_ALL=C.
_REACHED: Final = re.compile(r"^debug1: Connection established\.", re.MULTILINE)
_SPOKE: Final = re.compile(r"^debug1: Remote protocol version [0-9.]+, remote software version (.+?)\r?$", re.MULTILINE)
_SHOWN: Final = re.compile(r"^debug1: Server host key: (\S+) (SHA256:\S+?)\r?$", re.MULTILINE)
_KEY_REFUSED: Final = re.compile(r"^Host key verification failed\.", re.MULTILINE)
_KEY_TYPE_REFUSED: Final = re.compile(r"no matching host key type found")
_LOGIN_REFUSED: Final = re.compile(r"Permission denied \(|Too many authentication failures")
_NO_SESSION: Final = re.compile(r"open failed")
_NOT_ABLE: Final = re.compile(r"subsystem request failed|Unable to negotiate with|Bad configuration option")
_CHATTER: Final = re.compile(
    r"debug\d: |OpenSSH_|Authenticated to |Transferred: |Bytes per second: |Warning: Permanently added"
)


class _KeyTypeAbsent(Exception):
    """The server has no host key of the types that were asked for."""


def connect_openssh(endpoint: Endpoint, pauses: Pauses) -> tuple[Client, str]:
    """An SFTP session over ssh, and what the server calls itself.

    Raises Unreachable, HostKeyRejected, AuthenticationFailed, Unsupported (a password is given, no ssh, no SFTP), and
    ServerFailure from the session itself.
    """
    if any(secret is not None for secret in (endpoint.password, endpoint.location.password, endpoint.key_passphrase)):
        raise Unsupported(
            "connect", "", "engine 'openssh' takes no password or passphrase: use a key, an agent, or engine 'paramiko'"
        )
    deadline = time.monotonic() + endpoint.timeouts.connect
    rejected: HostKeyRejected | None = None
    for types in _KEY_TYPES if endpoint.host_key else _KEY_TYPES[:1]:
        try:
            return persistently(partial(_session, endpoint, types), pauses, deadline=deadline)
        except HostKeyRejected as error:
            rejected = error
        except _KeyTypeAbsent:
            continue
    raise rejected or HostKeyRejected("connect", "", "the server has no host key of a type that ssh knows")


def _session(endpoint: Endpoint, types: str) -> tuple[Client, str]:
    """One run of ssh, up to the greeting of SFTP."""
    try:
        stream = PipeStream(_command(endpoint, types), environment={**os.environ, "LC_ALL": "C"}, worth_telling=_worth_telling)
    except OSError as error:
        raise Unsupported("connect", "", f"the program ssh cannot be run: {error.strerror}") from error
    try:
        client = Client(Wire(stream, reply_timeout=endpoint.timeouts.reply), timeout=endpoint.timeouts.connect + _SPARE)
    except ProtocolViolation as error:
        raise ServerFailure("connect", "", error.reason) from error
    except ConnectionLost as error:
        stream.close()
        raise _explained(stream.said(), error.reason, endpoint) from error
    except BaseException:
        stream.close()
        raise
    spoke = _SPOKE.search(stream.said())
    return client, spoke[1] if spoke else ""


def _command(endpoint: Endpoint, types: str) -> list[str]:
    options = [*_OPTIONS, f"ConnectTimeout={max(1, math.ceil(endpoint.timeouts.connect))}"]
    if endpoint.host_key is not None:
        options += ["UserKnownHostsFile=/dev/null", "GlobalKnownHostsFile=/dev/null", _PIN.format(pin=endpoint.host_key)]
        options += ["ControlPath=none"]  # a shared connection was verified by other rules
    elif endpoint.known_hosts is not None:
        options += [f"UserKnownHostsFile={_quoted(endpoint.known_hosts)}", "GlobalKnownHostsFile=/dev/null"]
    if types:
        options.append(f"HostKeyAlgorithms={types}")
    if endpoint.key_files:
        options += ["IdentitiesOnly=yes", *(f"IdentityFile={_quoted(file)}" for file in endpoint.key_files)]
    command = ["ssh", *(part for option in options for part in ("-o", option))]
    location = endpoint.location
    if location.port is not None:
        command += ["-p", str(location.port)]
    if location.user:
        command += ["-l", location.user]
    return [*command, "-s", "--", location.host, "sftp"]


def _quoted(path: Path) -> str:
    """A path as the value of an option, in which ssh would split at spaces and expand `%`."""
    return f'"{str(path).replace("%", "%%")}"'


def _explained(said: str, reason: str, endpoint: Endpoint) -> Exception:
    """What a run of ssh that ended, or had to be ended, comes to."""
    words = _worth_telling(said) or reason
    if _KEY_TYPE_REFUSED.search(said) and endpoint.host_key:
        return _KeyTypeAbsent()
    if _KEY_REFUSED.search(said):
        return _key_rejected(said, words, endpoint)
    if _LOGIN_REFUSED.search(said):
        return AuthenticationFailed("connect", "", words)
    if _NOT_ABLE.search(said):
        return Unsupported("connect", "", words)
    if _NO_SESSION.search(said):
        detail = f"logged in, and the server opens no session: its MaxSessions is used up, or 0 ({words})"
        return Unreachable("connect", "", detail)
    if _REACHED.search(said) and not _SPOKE.search(said) and "timed out" not in said:
        return DroppedEarly(words)
    return Unreachable("connect", "", words)


def _key_rejected(said: str, words: str, endpoint: Endpoint) -> HostKeyRejected:
    shown = _SHOWN.search(said)
    what = f"the server shows {shown[1]} {shown[2]}" if shown else "the server's key was not shown"
    if endpoint.host_key:
        return HostKeyRejected(
            "connect", "", f"pinned is {endpoint.host_key}, and {what}: the key has changed, or this is another server"
        )
    pin = f"use --host-key {shown[2]}, or " if shown else ""
    return HostKeyRejected(
        "connect",
        "",
        f"the host key is unknown or has changed: {what}. Compare it with what its administrator says, then {pin}"
        f"correct known_hosts (ssh-keyscan). ssh says: {words}",
    )


def _worth_telling(said: str) -> str:
    """What ssh wrote, less its debug lines and its own statistics."""
    lines = (line.strip() for line in said.splitlines())
    return " ".join(line for line in lines if line and not _CHATTER.match(line))
