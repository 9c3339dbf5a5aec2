"""An sshd of one test: for settings that the shared server must not have. It runs as this user and takes this user's key."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from transports.endpoint import Endpoint
from transports.urls import Location

_PATIENCE = 10.0  # seconds for the server to answer


def keygen(file: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A new key pair; returns the private key's file."""
    size = ["-b", "2048"] if kind == "rsa" else []  # a larger one takes seconds to find
    command = ["ssh-keygen", "-q", "-t", kind, *size, "-N", passphrase, "-f", str(file)]
    subprocess.run(command, check=True, timeout=30, stdin=subprocess.DEVNULL)
    return file


def fingerprint_of(key: Path) -> str:
    """As `ssh-keygen -l` writes it."""
    said = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(key)], check=True, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
    )
    return said.stdout.split()[1]


class ScratchSshd:
    """sshd on a free port, with a host key of each of `kinds`, and further lines for its configuration."""

    def __init__(
        self, folder: Path, *options: str, kinds: Sequence[str] = ("ed25519",), subsystem: str = "internal-sftp"
    ) -> None:
        self.folder = folder
        self.host_keys = {kind: keygen(folder / f"host_{kind}", kind) for kind in kinds}
        self.user_key = keygen(folder / "user")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.config = folder / "sshd_config"
        lines = [
            f"ListenAddress 127.0.0.1:{self.port}",
            *(f"HostKey {file}" for file in self.host_keys.values()),
            f"PidFile {folder / 'pid'}",
            f"AuthorizedKeysFile {folder / 'user.pub'}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "PermitRootLogin prohibit-password",
            *([f"Subsystem sftp {subsystem}"] if subsystem else []),
            *options,
        ]
        self.config.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it, as root
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f", str(self.config)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self._wait()

    def fingerprint(self, kind: str = "ed25519") -> str:
        """Of one of its host keys."""
        return fingerprint_of(self.host_keys[kind])

    def endpoint(self, path: Path, **changes: Any) -> Endpoint:
        """A folder of this machine through this server, with the key of this user and the host key pinned."""
        location = Location("sftp", str(path), host="127.0.0.1", port=self.port, user=getpass.getuser())
        settings = {"key_files": (self.user_key,), "host_key": self.fingerprint(next(iter(self.host_keys))), **changes}
        return Endpoint(location, **settings)

    def known_hosts_line(self, kind: str = "ed25519", name: str = "") -> str:
        """A line of known_hosts for one of its keys."""
        public = self.host_keys[kind].with_suffix(".pub").read_text(encoding="utf-8").split()
        return f"{name or f'[127.0.0.1]:{self.port}'} {public[0]} {public[1]}\n"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _wait(self) -> None:
        until = time.monotonic() + _PATIENCE
        while True:
            # Looked at from outside: a connection would count as a login under way.
            listening = f"{0x0100007F:08X}:{self.port:04X} 00000000:0000 0A"
            if listening in Path("/proc/net/tcp").read_text(encoding="ascii"):
                return
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise RuntimeError("sshd does not start: " + (self.folder / "log").read_text("utf-8", "replace"))
            time.sleep(0.02)
