"""What one server can promise, from what it offers, told once when the connection is made."""

import secrets
from typing import Final

from transports.base import Capabilities, Fact, Guarantee
from transports.sftp.client import FSYNC, HARDLINK, POSIX_RENAME
from transports.sftp.edge import Edge
from transports.sftp.packets import Code
from transports.sftp.wire import StatusError

_LONGEST_NAME: Final = 255  # bytes, where the server does not tell
_WINDOWS: Final = "OpenSSH_for_Windows"


def find_capabilities(edge: Edge, server: str) -> Capabilities:
    """Asks what the extension list leaves open. Writes nothing. Raises StatusError and ConnectionLost."""
    client = edge.client
    volume = edge.volume("")
    renames = client.offers(POSIX_RENAME)
    plain = Guarantee.CHECKED if renames or _allows_rename(edge) else Guarantee.NONE
    without = "the server does not offer posix-rename@openssh.com; " + (
        "version 3's RENAME may be two steps" if plain is Guarantee.CHECKED else "and it refuses RENAME"
    )
    if renames and _WINDOWS in server:
        rename = Fact(Guarantee.CHECKED, f"{_WINDOWS} deletes the target of posix-rename first")
    elif renames:
        rename = Fact(Guarantee.ATOMIC, "posix-rename@openssh.com is rename(2)")
    else:
        rename = Fact(plain, without)
    if client.offers(HARDLINK):
        publish = Fact(Guarantee.ATOMIC, "hardlink@openssh.com is link(2), which never replaces")
    elif renames:
        publish = Fact(Guarantee.CHECKED, "no hardlink@openssh.com: an exclusive reservation of the target, then posix-rename")
    else:
        publish = Fact(plain, without)
    return Capabilities(
        server=server or "SFTP version 3",
        create=Fact(Guarantee.ATOMIC, "SSH_FXF_EXCL in the open request"),
        publish=publish,
        claim=rename if not renames else Fact(Guarantee.ATOMIC, "posix-rename@openssh.com, to a name of one's own"),
        replace=rename if renames else Fact(Guarantee.NONE, without),
        durable=(
            Fact(Guarantee.ATOMIC, "fsync@openssh.com before close; the folder's own entry is the server's affair")
            if client.offers(FSYNC)
            else Fact(Guarantee.NONE, "the server does not offer fsync@openssh.com")
        ),
        pattern=False,
        notification=False,
        resume=True,
        longest_name=volume.longest_name if volume and volume.longest_name else _LONGEST_NAME,
        time_resolution=1.0,
    )


def _allows_rename(edge: Edge) -> bool:
    """Whether RENAME is allowed at all, asked with names that do not exist: a server that forbids it says so first."""
    nowhere = edge.at(f"T_{secrets.token_hex(8)}")
    try:
        edge.client.rename(nowhere, nowhere + b"_")
    except StatusError as error:
        return error.code not in (Code.PERMISSION_DENIED, Code.OP_UNSUPPORTED)
    return True
