"""The running test servers, as tests see them: addresses, accounts, folders, and a few ways to disturb them.

All three can be pickled, so that a test's own processes can use them too.
"""

import base64
import hashlib
import subprocess
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from testenv import spec
from testenv.control import ask
from testenv.spec import Kind
from transports.endpoint import Endpoint
from transports.secret import Secret
from transports.urls import Location

_ENDPOINT_FIELDS = frozenset(field.name for field in fields(Endpoint))


def _changed(endpoint: Endpoint, changes: dict[str, Any]) -> Endpoint:
    """The endpoint with some of its fields, or of its location's, changed. A password may be given as text."""
    if isinstance(changes.get("password"), str):
        changes["password"] = Secret(changes["password"])
    own = {name: value for name, value in changes.items() if name in _ENDPOINT_FIELDS}
    of_location = {name: value for name, value in changes.items() if name not in own}
    return replace(endpoint, location=replace(own.pop("location", endpoint.location), **of_location), **own)


def _user_info(user: str, password: str) -> str:
    return f"{quote(user, safe='')}:{quote(password, safe='')}"


@dataclass(frozen=True)
class SftpServer:
    """A real OpenSSH server. Paths are absolute on the server; relative ones are taken from `data`."""

    port: int
    version: str
    kind: Kind
    host_key: str  # of the Ed25519 key, as `ssh-keygen -l` writes it
    known_hosts: Path  # knows all of the server's keys
    key_file: Path  # a private key that `user` may log in with
    run: Path  # the folder that holds volume 1, on this machine
    control: Path
    host: str = spec.HOST
    user: str = spec.USER
    password: str = spec.PASSWORD
    foreign_user: str = spec.FOREIGN_USER
    foreign_password: str = spec.FOREIGN_PASSWORD
    data: str = spec.DATA  # volume 1, owned by `user`; the share `data` of the SMB server shows the same files
    other: str = spec.OTHER  # volume 2
    full: str = spec.FULL  # a file system of one MiB
    readonly: str = spec.READONLY  # a file system mounted read-only; holds present.txt
    foreign: str = spec.FOREIGN  # in volume 1: everybody may write there, and `foreign_user` owns nothing elsewhere

    def path(self, path: str = "") -> str:
        """The absolute path on the server."""
        return path if path.startswith("/") else f"{self.data}/{path}".rstrip("/")

    def endpoint(self, path: str = "", **changes: Any) -> Endpoint:
        """This server with its password and its host key pinned; `changes` are fields of `Endpoint` or `Location`."""
        location = Location("sftp", self.path(path), host=self.host, port=self.port, user=self.user)
        return _changed(Endpoint(location, password=Secret(self.password), host_key=self.host_key), changes)

    def url(self, path: str = "") -> str:
        """The URL of a folder, with user and password in it."""
        return f"sftp://{_user_info(self.user, self.password)}@{self.host}:{self.port}{quote(self.path(path))}"

    def local(self, path: str = "") -> Path | None:
        """The same path as this machine sees it; None outside volume 1."""
        return _local(self.run, self.data, self.path(path))

    def restart(self) -> None:
        """Restarts the server: every connection is cut, and only volume 1 keeps its files."""
        ask(self.control, "restart", "sftp")

    def kill_sessions(self) -> None:
        """Kills (SIGKILL) every process that serves a connection; the listener stays."""
        ask(self.control, "kill_sessions", "sftp")


@dataclass(frozen=True)
class SmbServer:
    """A real Samba server. Paths are relative to a share."""

    port: int
    version: str
    kind: Kind
    run: Path
    control: Path
    host: str = spec.HOST
    user: str = spec.USER
    password: str = spec.PASSWORD
    domain: str = spec.WORKGROUP
    foreign_user: str = spec.FOREIGN_USER
    foreign_password: str = spec.FOREIGN_PASSWORD
    data: str = "data"  # shares: volume 1,
    other: str = "other"  # volume 2,
    full: str = "full"  # a file system of one MiB,
    readonly: str = "readonly"  # and one that cannot be written to; holds present.txt
    foreign: str = "foreign"  # a folder of `data` that everybody may write to

    def endpoint(self, share: str = "data", path: str = "", **changes: Any) -> Endpoint:
        """A folder of a share, with the user's password; `changes` are fields of `Endpoint` or `Location`."""
        location = Location("smb", path, host=self.host, port=self.port, user=self.user, domain=self.domain, share=share)
        return _changed(Endpoint(location, password=Secret(self.password)), changes)

    def url(self, share: str = "data", path: str = "") -> str:
        """The URL of a folder, with domain, user and password in it."""
        user_info = f"{quote(self.domain, safe='')};{_user_info(self.user, self.password)}"
        return f"smb://{user_info}@{self.host}:{self.port}/{quote(share)}/{quote(path)}".rstrip("/")

    def local(self, share: str = "data", path: str = "") -> Path | None:
        """The same path as this machine sees it; None outside the share `data`."""
        return _local(self.run, self.data, f"{share}/{path}".rstrip("/"))

    def restart(self) -> None:
        """Restarts the server: every connection is cut, and only volume 1 keeps its files."""
        ask(self.control, "restart", "smb")

    def kill_sessions(self) -> None:
        """Kills (SIGKILL) every process that serves a logged-in connection; the listener stays."""
        ask(self.control, "kill_sessions", "smb")


@dataclass(frozen=True)
class BareSftp:
    """OpenSSH's `sftp-server`, spoken to over a pipe: the protocol itself, as this user, without SSH and without a login."""

    command: tuple[str, ...]
    version: str
    kind: str = "pipe"

    def open(self, *options: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
        """A fresh server: write requests to its `stdin`, read replies from its `stdout`, both unbuffered.

        It starts in `folder`; `options` are those of sftp-server(8), such as "-R" for read-only. It ends when its `stdin` is
        closed; `with` does that, and waits.
        """
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self.command, *options], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0, cwd=folder
        )


def _local(run: Path, data: str, path: str) -> Path | None:
    if path != data and not path.startswith(f"{data}/"):
        return None
    return run / "data" / path.removeprefix(data).lstrip("/")


def sftp_from(facts: dict[str, Any], control: Path) -> SftpServer:
    """The SFTP server that a keeper has told of. Writes its known_hosts file."""
    run, port = Path(facts["run"]), facts["port"]
    known_hosts = run / "known_hosts"
    # OpenSSH writes the port with the address, unless it is 22.
    known_hosts.write_text("".join(f"[{spec.HOST}]:{port} {line}\n" for line in facts["host_keys"]), encoding="utf-8")
    (blob,) = (line.split()[1] for line in facts["host_keys"] if line.startswith("ssh-ed25519 "))
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(blob)).digest()).decode().rstrip("=")
    return SftpServer(
        port=port,
        version=facts["version"],
        kind=facts["kind"],
        host_key=f"SHA256:{digest}",
        known_hosts=known_hosts,
        key_file=run / "user_key",
        run=run,
        control=control,
    )


def smb_from(facts: dict[str, Any], control: Path) -> SmbServer:
    """The SMB server that a keeper has told of."""
    return SmbServer(port=facts["port"], version=facts["version"], kind=facts["kind"], run=Path(facts["run"]), control=control)


_SFTP_SERVERS = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
    "/usr/libexec/sftp-server",
)


def find_bare_sftp() -> BareSftp:
    """This machine's own `sftp-server`. Raises FileNotFoundError with what to install."""
    for path in _SFTP_SERVERS:
        if Path(path).exists():
            # It does not tell its version; the client of the same build does.
            said = subprocess.run(
                ["ssh", "-V"], capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL
            )
            return BareSftp((path,), said.stderr.partition(",")[0].strip())
    raise FileNotFoundError("no sftp-server on this machine: apt-get install openssh-sftp-server openssh-client")
