"""Logging in over an SSH connection whose host key has been accepted: keys, agent, password, and what a refusal means.

A refusal is told as AuthenticationFailed and is never tried again: a few of them lock an account. A connection that ends
meanwhile is Unreachable, unless credentials were refused before: servers hang up after too many.
"""

import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paramiko

from transports.endpoint import Endpoint
from transports.errors import AuthenticationFailed, ConnectionFailed, Unreachable

_DEFAULT_KEYS: Final = ("id_ed25519", "id_ecdsa", "id_rsa")
_KEY_TYPES: Final = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


@dataclass(frozen=True, slots=True)
class _Way:
    """One thing to try. `attempt` returns the methods that the server still wants, [] for none."""

    method: str
    name: str
    attempt: Callable[[], list[str]]


def log_in(transport: paramiko.Transport, endpoint: Endpoint, user: str, *, deadline: float) -> None:
    """Authenticates, by whatever the endpoint gives and the server takes, also where it wants two of them.

    Raises AuthenticationFailed, Unreachable.
    """
    refused: list[str] = []
    # To ask with no credentials is how SSH tells what the server takes; it does not count as an attempt.
    allowed = _tried(transport, _Way("none", "", lambda: transport.auth_none(user)), refused, deadline) or []
    with closing(_ways(transport, endpoint, user)) as ways:
        for way in ways:
            if transport.is_authenticated():
                return
            if way.method in allowed:
                still = _tried(transport, way, refused, deadline)
                allowed = allowed if still is None else still
    if not transport.is_authenticated():
        tried = f"it refused {', '.join(refused)}" if refused else "nothing that it takes was given"
        raise AuthenticationFailed(
            "connect", "", f"the server does not let {user!r} in: {tried}; it takes {', '.join(allowed) or 'nothing more'}"
        )


def _tried(transport: paramiko.Transport, way: _Way, refused: list[str], deadline: float) -> list[str] | None:
    """One attempt. Returns the methods that the server takes next, None for the same as before; notes a refusal."""
    transport.auth_timeout = max(deadline - time.monotonic(), 0.1)
    try:
        return way.attempt()
    except paramiko.BadAuthenticationType as error:
        if way.name:
            refused.append(way.name)
        return list(error.allowed_types)
    except (paramiko.SSHException, EOFError, OSError) as error:
        if not transport.is_active() or time.monotonic() >= deadline:
            raise _ended(refused, way.name, error) from error
        # Anything but a plain refusal is worth telling: a key that cannot sign, for one.
        refused.append(way.name if isinstance(error, paramiko.AuthenticationException) else f"{way.name} ({error})")
        return None


def _ended(refused: list[str], name: str, error: Exception) -> ConnectionFailed:
    if refused:
        return AuthenticationFailed("connect", "", f"the server refused {', '.join(refused)}, and hung up")
    return Unreachable("connect", "", f"the connection ended while logging in{f' by {name}' if name else ''}: {error}")


def _ways(transport: paramiko.Transport, endpoint: Endpoint, user: str) -> Generator[_Way]:
    for file in endpoint.key_files:
        yield _by_key(transport, user, _load(file, endpoint), f"the key {file}")
    secret = endpoint.password or endpoint.location.password
    if secret is not None:
        password = secret.reveal()
        yield _Way("password", "the password", lambda: transport.auth_password(user, password, fallback=False))
        yield _Way("keyboard-interactive", "the password", lambda: transport.auth_interactive(user, _Answers(password)))
    elif not endpoint.key_files:
        yield from _usual_keys(transport, user)


def _usual_keys(transport: paramiko.Transport, user: str) -> Generator[_Way]:
    """What `ssh` would try: the agent, then the account's own keys that need no passphrase."""
    with closing(paramiko.Agent()) as agent:
        for held in agent.get_keys():
            yield _by_key(transport, user, held, f"the agent's key {held.comment or held.get_name()}")
    for file in (Path.home() / ".ssh" / name for name in _DEFAULT_KEYS):
        if file.exists():
            try:
                key = _read(file, None)
            except (OSError, paramiko.SSHException):
                continue  # nobody named it: an encrypted or odd key there is the agent's business
            yield _by_key(transport, user, key, f"the key {file}")


def _by_key(transport: paramiko.Transport, user: str, key: paramiko.PKey, name: str) -> _Way:
    return _Way("publickey", name, lambda: transport.auth_publickey(user, key))


def _load(file: Path, endpoint: Endpoint) -> paramiko.PKey:
    passphrase = endpoint.key_passphrase.reveal() if endpoint.key_passphrase else None
    try:
        return _read(file, passphrase)
    except OSError as error:
        raise AuthenticationFailed("connect", "", f"the key file {file} cannot be read: {error.strerror or error}") from error
    except paramiko.PasswordRequiredException as error:
        raise AuthenticationFailed("connect", "", f"the key file {file} is encrypted: give its passphrase") from error
    except paramiko.SSHException as error:
        hint = " with this passphrase" if passphrase else ""
        raise AuthenticationFailed("connect", "", f"the key file {file} cannot be used{hint}: {error}") from error


def _read(file: Path, passphrase: str | None) -> paramiko.PKey:
    """Any type of key, with its certificate where one lies beside it. Raises OSError, SSHException."""
    first: Exception | None = None
    for kind in _KEY_TYPES:
        try:
            key = kind.from_private_key_file(str(file), passphrase)
        except paramiko.PasswordRequiredException:
            raise
        except (paramiko.SSHException, ValueError) as error:
            first = first or error
            continue
        certificate = file.with_name(file.name + "-cert.pub")
        if certificate.exists():
            try:
                key.load_certificate(str(certificate))
            except ValueError as error:
                raise paramiko.SSHException(f"{certificate} is not a certificate of this key") from error
        return key
    raise paramiko.SSHException(str(first))


class _Answers:
    """Answers a keyboard-interactive dialogue: the password once, to the first hidden question, then nothing.

    A second question means that the password was wrong or that more is wanted; to repeat it could lock the account.
    """

    def __init__(self, password: str) -> None:
        self._password = password

    def __call__(self, title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        answers = []
        for _, echoed in prompts:
            answer, self._password = ("", self._password) if echoed else (self._password, "")
            answers.append(answer)
        return answers
