"""Where a directory is and how to log in there: everything `connect` needs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from transports.secret import Secret
from transports.urls import Location


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `connect` bounds reaching and logging in; `reply` bounds the wait for each single answer."""

    connect: float = 15.0
    reply: float = 60.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A location and the credentials and settings to reach it.

    SFTP: `key_files` are private keys (`key_passphrase` opens them); with no password and no key the SSH agent and the
    default keys are tried. `host_key` pins the server's key by its OpenSSH fingerprint ("SHA256:..."); else `known_hosts`
    (None: the user's and the system's file) must know it. `engine` picks the SSH layer. SMB: `encrypt` refuses an
    unencrypted session.
    """

    location: Location
    password: Secret | None = None
    key_files: tuple[Path, ...] = ()
    key_passphrase: Secret | None = None
    host_key: str | None = None
    known_hosts: Path | None = None
    engine: Literal["paramiko", "openssh"] = "paramiko"
    encrypt: bool = False
    timeouts: Timeouts = field(default_factory=Timeouts)
