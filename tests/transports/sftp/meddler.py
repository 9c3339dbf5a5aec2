"""A real sftp-server whose answers pass through a meddler: one fault each, for what no real server here can be made to do."""

import os
from collections.abc import Sequence
from struct import pack, unpack
from typing import Final

from transports.sftp.packets import HAS_PERMISSIONS, HAS_SIZE, Code, Fields, Op, string, uint32
from transports.sftp.streams import PipeStream, StreamLost

OK_STATUS: Final = uint32(Code.OK) + string(b"") + string(b"")
FAILURE_STATUS: Final = uint32(Code.FAILURE) + string(b"Failure") + string(b"")


class Meddler(PipeStream):
    """Passes everything on as it is, and keeps a record. A kind of it overrides `ask` or `answer`."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self.asked: list[Op] = []  # every request so far
        self.extensions: list[str] = []  # of those, the extended ones
        self.most_under_way = 0
        self._ops: dict[int, Op] = {}
        self._rest = b""

    def ask(self, op: Op, fields: Fields) -> None:
        """Sees a request before it is sent. May raise StreamLost: the connection ends there, and the request was not sent."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        """What to make of the answer to a request: its type, and its fields after the id."""
        return kind, body

    def send_all(self, data: bytes, deadline: float, *, room: int) -> None:
        op = Op(data[4])
        self.asked.append(op)
        if op is Op.EXTENDED:
            self.extensions.append(Fields(data, 9).string().decode())
        self.ask(op, Fields(data, 9))
        if op is not Op.INIT:
            self._ops[int.from_bytes(data[5:9], "big")] = op
            self.most_under_way = max(self.most_under_way, len(self._ops))
        super().send_all(data, deadline, room=room)

    def receive(self, deadline: float) -> bytes:
        given = b""
        while not given:
            data = super().receive(deadline)
            if not data:
                return b""
            self._rest += data
            while len(self._rest) >= 4 and len(self._rest) >= 4 + (length := int.from_bytes(self._rest[:4], "big")):
                packet, self._rest = self._rest[4 : 4 + length], self._rest[4 + length :]
                given += self._meddled(packet)
        return given

    def _meddled(self, packet: bytes) -> bytes:
        kind = Op(packet[0])
        if kind is Op.VERSION:
            kind, body = self.answer(Op.INIT, kind, packet[1:])
            return string(bytes([kind]) + body)
        op = self._ops.pop(int.from_bytes(packet[1:5], "big"))
        kind, body = self.answer(op, kind, packet[5:])
        return string(bytes([kind]) + packet[1:5] + body)


class NoExtensions(Meddler):
    """A server of the plain draft."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        return (kind, body[:4]) if kind is Op.VERSION else (kind, body)


class FailingClose(Meddler):
    """Its storage reports a full quota only when a file is closed, as NFS does."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        return (kind, FAILURE_STATUS) if op is Op.CLOSE else (kind, body)


class FailingSync(Meddler):
    """Its storage cannot be flushed."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        failed = op is Op.EXTENDED and self.extensions[-1].startswith("fsync") and kind is Op.STATUS
        return (kind, FAILURE_STATUS) if failed else (kind, body)


class LosesOneWrite(Meddler):
    """Refuses the second block, and has room again for all that follow: the size comes out right, and a hole is in it."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self._writes = 0

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        if op is Op.WRITE:
            self._writes += 1
            if self._writes == 2:
                return kind, FAILURE_STATUS
        return kind, body


class OverReportsSize(Meddler):
    """Tells one byte more than a file has, as a gateway to a compressed store does."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        if kind is Op.ATTRS:
            flags, size = unpack(">IQ", body[:12])
            return kind, pack(">IQ", flags, size + 1) + body[12:]
        return kind, body


class GrowsInListings(Meddler):
    """Tells a larger size by name than of the open file: the file was cut between the two looks."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        if op is Op.LSTAT and kind is Op.ATTRS:
            flags, size = unpack(">IQ", body[:12])
            return kind, pack(">IQ", flags, size + 3_000_000) + body[12:]
        return kind, body


class ShrinksWhenOpened(Meddler):
    """Tells a smaller size of the open file than by name, and gives all of it: the file grew again behind the look."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        if op is Op.FSTAT and kind is Op.ATTRS:
            flags, size = unpack(">IQ", body[:12])
            return kind, pack(">IQ", flags, size - 1000) + body[12:]
        return kind, body


class NoSizes(Meddler):
    """Leaves the size out."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        if kind is Op.ATTRS:
            return kind, uint32(int.from_bytes(body[:4], "big") & ~HAS_SIZE) + body[12:]
        return kind, body


class ShortReads(Meddler):
    """Gives a third of what is asked for, and never more than 5000 bytes."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        if kind is Op.DATA:
            data = body[4:]
            return kind, string(data[: min(5000, len(data) // 3 + 1)])
        return kind, body


class NoTypesInListings(Meddler):
    """Lists names without attributes."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        if op is not Op.READDIR or kind is not Op.NAME:
            return kind, body
        fields = Fields(body)
        bare = [pack(">I", count := fields.uint32())]
        for _ in range(count):
            bare += [string(fields.string()), string(fields.string()), uint32(0)]
            fields.attributes()
        return kind, b"".join(bare)


class NamesPaths(Meddler):
    """Lists a name that would lead out of the folder."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        if op is Op.READDIR and kind is Op.NAME:
            return kind, body.replace(b"innocent_name", b"../../etc/pwd")
        return kind, body


class CutBeforeRename(Meddler):
    """The connection breaks between the two steps of a publication, before the second is sent."""

    def ask(self, op: Op, fields: Fields) -> None:
        second = op is Op.REMOVE or (op is Op.EXTENDED and self.extensions[-1].startswith("posix-rename"))
        if second:
            raise StreamLost("cut on purpose", untouched=True)


class NoLinkAllowed(Meddler):
    """A file system without hard links, or a file of somebody else: link() is EPERM."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        return kind, body

    def send_all(self, data: bytes, deadline: float, *, room: int) -> None:
        # The name of the extension is spoiled in the request, so that the server itself refuses it.
        spoiled = data.replace(b"hardlink@openssh.com", b"hardlink@nowhere.com") if data[4] == Op.EXTENDED else data
        super().send_all(spoiled, deadline, room=room)


class NoTypes(Meddler):
    """Tells no permissions, and so no types."""

    def answer(self, op: Op, kind: Op, body: bytes) -> tuple[Op, bytes]:
        if kind is not Op.ATTRS:
            return kind, body
        flags = int.from_bytes(body[:4], "big")
        # The fields are size, owner and group, permissions, times.
        return kind, uint32(flags & ~HAS_PERMISSIONS) + body[4:20] + body[24:]


def resident(pid: int | None = None) -> int:
    """The resident memory of a process, in bytes; this one's where none is named."""
    with open(f"/proc/{pid or os.getpid()}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
