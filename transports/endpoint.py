"""Where a directory is and how to log in there: everything `connect` needs, and nothing that may be printed by accident."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Scheme = Literal["memory", "file", "sftp", "smb", "fsspec"]


class Secret:
    """A password or passphrase that no log, error or repr shows. `reveal()` is the one way to read it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret('**********')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> str:
        # A pickle, a cache or a crash report would carry it out in clear.
        raise TypeError("a Secret is not written anywhere")


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed drop URL. `str()` of it is the URL again, less the password.

    `path` is absolute ("/data/in") for file and sftp, relative to the home directory when `home` is set
    (`sftp://host/~/in`), and relative to the share for smb. For fsspec, `protocol` names the file system
    (`fsspec+s3://bucket/in`: protocol "s3", host "bucket").
    """

    scheme: Scheme
    path: str
    host: str = ""
    port: int | None = None
    user: str = ""
    domain: str = ""
    password: Secret | None = None
    share: str = ""
    home: bool = False
    protocol: str = ""

    def __str__(self) -> str:
        from transports.urls import format_url  # the grammar of URLs lives in one module, and it needs this class

        return format_url(self)


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
