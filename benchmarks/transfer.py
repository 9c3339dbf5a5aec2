"""Bytes a second of the transports' own writing and reading, as ratios to what the libraries under them offer.

    python benchmarks/transfer.py [--size 64] [--rounds 3]

In one run each, alternating, against paramiko's `putfo` and `getfo` and smbclient's `open_file`; on a local disk against
plain files. The libraries' ways flush nothing and check less; ours commits to stable storage, and hashes nothing here.
"""

import argparse
import io
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import paramiko
import smbclient

from benchmarks.places import TRANSPORTS, Place, place, say
from transports.base import CHUNK, Transport
from transports.connect import connect
from transports.endpoint import Endpoint

_MIB = 1 << 20
_smb: Any = smbclient  # it ships no types


class Nowhere(io.RawIOBase):
    """Takes bytes and keeps none."""

    def write(self, data: object, /) -> int:
        return len(data)  # type: ignore[arg-type] # any buffer has a length

    def writable(self) -> bool:
        return True


def timed(action: Callable[[], None]) -> float:
    """Seconds."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def write_ours(transport: Transport, name: str, data: bytes) -> None:
    """As a producer writes."""
    with transport.create(name) as sink:
        for at in range(0, len(data), CHUNK):
            sink.write(data[at : at + CHUNK])
        sink.commit()


def read_ours(transport: Transport, name: str) -> None:
    """As a consumer reads."""
    with transport.open_read(name) as source:
        for _ in source:
            pass


class Theirs:
    """The library's own way to one place."""

    def write(self, name: str, data: bytes) -> None:
        raise NotImplementedError

    def read(self, name: str) -> None:
        raise NotImplementedError


class PlainFiles(Theirs):
    """A local disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, data: bytes) -> None:
        with (self.folder / name).open("xb") as file:
            file.write(data)

    def read(self, name: str) -> None:
        with (self.folder / name).open("rb") as file:
            while file.read(CHUNK):
                pass


class Paramiko(Theirs):
    """paramiko's SFTP client."""

    def __init__(self, endpoint: Endpoint) -> None:
        at = endpoint.location
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())  # noqa: S507 - a server of our own, on 127.0.0.1
        password = at.password.reveal() if at.password is not None else None
        client.connect(at.host, at.port or 22, at.user, password, allow_agent=False, look_for_keys=False)
        self.client = client
        self.sftp = client.open_sftp()
        self.folder = at.path

    def write(self, name: str, data: bytes) -> None:
        self.sftp.putfo(io.BytesIO(data), f"{self.folder}/{name}")

    def read(self, name: str) -> None:
        self.sftp.getfo(f"{self.folder}/{name}", cast(IO[bytes], Nowhere()))


class Smbclient(Theirs):
    """smbprotocol's high-level client."""

    def __init__(self, endpoint: Endpoint) -> None:
        at = endpoint.location
        password = at.password.reveal() if at.password is not None else None
        _smb.register_session(at.host, username=f"{at.domain}\\{at.user}", password=password, port=at.port or 445)
        self.folder = rf"\\{at.host}\{at.share}" + "\\" + at.path.replace("/", "\\")
        self.port = at.port or 445

    def write(self, name: str, data: bytes) -> None:
        with _smb.open_file(rf"{self.folder}\{name}", mode="xb", port=self.port) as file:
            file.write(data)

    def read(self, name: str) -> None:
        with _smb.open_file(rf"{self.folder}\{name}", mode="rb", port=self.port, buffering=0) as file:
            while file.read(_MIB):
                pass


def library(transport: str, at: Place) -> Theirs:
    """What to compare with."""
    if transport == "local":
        return PlainFiles(at.seen)
    endpoint = at.address.endpoint()
    return Paramiko(endpoint) if transport == "sftp" else Smbclient(endpoint)


def compare(transport: str, size: int, rounds: int) -> None:
    """One row to write, one to read."""
    data = os.urandom(_MIB) * size
    with place(transport) as at, connect(at.address.endpoint()) as ours:
        theirs = library(transport, at)
        say(f"{transport} ({at.server}), {size} MiB, best of {rounds}")
        writes: list[tuple[float, float]] = []
        reads: list[tuple[float, float]] = []
        for number in range(rounds):
            mine, other = f"ours{number}", f"theirs{number}"
            writes.append((timed(partial(write_ours, ours, mine, data)), timed(partial(theirs.write, other, data))))
            reads.append((timed(partial(read_ours, ours, mine)), timed(partial(theirs.read, other))))
        for what, pairs in (("write", writes), ("read", reads)):
            best, best_other = (min(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in pairs)
            say(f"  {what:6} {size / best:7.1f} MiB/s, the library {size / best_other:7.1f} MiB/s; median ratio {ratio:.2f}")


def main(arguments: list[str]) -> int:
    """Runs the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--transports", default=",".join(TRANSPORTS))
    parser.add_argument("--size", type=int, default=64, help="MiB")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    for transport in options.transports.split(","):
        compare(transport, options.size, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
