"""What the test servers are: their accounts, volumes and ports, the same in a container and as plain processes."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from testenv import probe

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = ROOT / "compose"

HOST = "127.0.0.1"
USER = "drop"
# What has to be encoded in a URL, and what a careless parser stumbles over.
PASSWORD = "in/out@home:50% #1"
FOREIGN_USER = "stranger"
FOREIGN_PASSWORD = "out/side@home:51% #2"
WORKGROUP = "DROPGATE"

DATA, OTHER, FULL, READONLY = "/srv/data", "/srv/other", "/srv/full", "/srv/readonly"
FOREIGN = f"{DATA}/foreign"

Name = Literal["sftp", "smb"]
Kind = Literal["container", "process"]


@dataclass(frozen=True, slots=True)
class Service:
    """One kind of server: its folder in compose/, the port in its container, how to see that it answers."""

    name: Name
    folder: str
    port: int
    probe: probe.Probe


SERVICES: Mapping[Name, Service] = {
    "sftp": Service("sftp", "openssh", 22, probe.ssh),
    "smb": Service("smb", "samba", 445, probe.smb),
}


def uid() -> int:
    """The number of the account that owns the volumes.

    Root can give a folder to anybody. Another user needs the files in the bind-mounted folder to be their own.
    """
    return os.getuid() or 2000


def environment(authorized_key: str) -> dict[str, str]:
    """What the entrypoints are told."""
    return {
        "DROP_USER": USER,
        "DROP_PASSWORD": PASSWORD,
        "DROP_UID": str(uid()),
        "FOREIGN_USER": FOREIGN_USER,
        "FOREIGN_PASSWORD": FOREIGN_PASSWORD,
        "FOREIGN_UID": str(uid() + 1),
        "WORKGROUP": WORKGROUP,
        "AUTHORIZED_KEY": authorized_key,
    }


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port
