"""Whether a server answers in its own protocol.

A connection that opens proves nothing: a container engine accepts for a server that is not up yet.
"""

import socket
import struct
import time
from collections.abc import Callable

Probe = Callable[[str, int], str]


class NotAnswering(Exception):
    """Nobody answers there in the protocol that is expected."""


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise NotAnswering(f"closed after {len(data)} bytes")
        data += more
    return data


def ssh(host: str, port: int) -> str:
    """The software that an SSH server names in its banner, such as "OpenSSH_9.2p1 Debian-2". Raises NotAnswering, OSError."""
    with socket.create_connection((host, port), timeout=5) as connection:
        line = b""
        while not line.endswith(b"\n"):
            line += _receive(connection, 1)
            if len(line) > 255:
                break
        if not line.startswith(b"SSH-2.0-"):
            raise NotAnswering(f"not an SSH banner: {line!r}")
        # A server that is left without a word waits two minutes for it.
        connection.sendall(b"SSH-2.0-probe\r\n")
        return line.decode("utf-8", "replace").strip().removeprefix("SSH-2.0-")


_DIALECTS = (0x0202, 0x0210, 0x0300)


def smb(host: str, port: int) -> str:
    """The dialect that an SMB server picks, such as "SMB 3.0". Raises NotAnswering, OSError."""
    header = struct.pack("<4sHHIHHIIQIIQ16s", b"\xfeSMB", 64, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, bytes(16))
    body = struct.pack("<HHHHI16sQ", 36, len(_DIALECTS), 1, 0, 0, bytes(16), 0) + struct.pack("<3H", *_DIALECTS)
    packet = header + body
    with socket.create_connection((host, port), timeout=5) as connection:
        connection.sendall(struct.pack(">I", len(packet)) + packet)
        (size,) = struct.unpack(">I", _receive(connection, 4))
        reply = _receive(connection, min(size, 70))
    if reply[:4] != b"\xfeSMB" or reply[8:12] != bytes(4) or len(reply) < 70:
        raise NotAnswering(f"not an answer to an SMB negotiation: {reply!r}")
    (dialect,) = struct.unpack_from("<H", reply, 68)
    return f"SMB {dialect >> 8}.{dialect >> 4 & 15}"


def wait(probe: Probe, host: str, port: int, *, patience: float, alive: Callable[[], bool]) -> str:
    """What `probe` says, as soon as it says anything.

    Raises NotAnswering after `patience` seconds, and at once when `alive` tells that the server has ended.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return probe(host, port)
        except (OSError, NotAnswering) as error:
            if not alive():
                raise NotAnswering("the server has ended") from error
            if time.monotonic() > deadline:
                raise NotAnswering(f"no answer on {host}:{port} for {patience:g} s: {error}") from error
        time.sleep(0.05)
