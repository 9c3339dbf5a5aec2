"""Delivering items into a folder of this host."""

import contextlib
from dataclasses import dataclass

from gateway.errors import DeliveryFailed
from gateway.handoff.consumer import Delivery
from gateway.handoff.contents import Progress, ignore_progress
from protocol.contents import Payload
from transports.base import Kind, Sink, Source, Transport
from transports.errors import AlreadyExists, TransportError
from transports.paths import unsafe_because

_MOST_DOUBLES = 1000


@dataclass(slots=True)
class _Counted:
    """A sink that tells how much has passed, and whose failure is not the fault of what is read."""

    sink: Sink
    progress: Progress
    wanted: str

    def write(self, data: bytes) -> None:
        try:
            self.sink.write(data)
        except TransportError as error:
            raise DeliveryFailed(f"{self.wanted} cannot be written: {error}") from error
        self.progress(len(data))


def usable_source_name(payload: Payload) -> str | None:
    """What the producer called the file, where that can be the name of a file here; it is a stranger's word."""
    name = payload.source_name
    if name is None or unsafe_because(name) or name.startswith(".") or name != name.strip() or len(name.encode()) > 200:
        return None
    return name


@dataclass(frozen=True, slots=True)
class ToFolder:
    """Delivers payloads into a folder: written under a hidden name, verified, then renamed, never over anything.

    A file that is there already with the same content was delivered by a run that was cut before it could say so; one
    with other content stays, and the new one gets "+1" before its suffix.
    """

    folder: Transport
    original_names: bool = False
    progress: Progress = ignore_progress

    def __call__(self, delivery: Delivery) -> None:
        delivery.outcome = ", ".join([self._deliver(delivery, payload) for payload in delivery.contents.payloads])

    def _deliver(self, delivery: Delivery, payload: Payload) -> str:
        wanted = delivery.rules.grammar.format(payload.name)
        if self.original_names:
            wanted = usable_source_name(payload) or wanted
        # The owner id is this run's alone: a worker that was thought dead may still be writing the same item.
        part = f".{delivery.rules.grammar.format(payload.name)}.{delivery.owner}.part"
        try:
            if delivery.redelivered or delivery.attempt > 1:
                self._tidy(delivery.rules.grammar.format(payload.name))
            sink = self._create(part)
        except TransportError as error:
            raise DeliveryFailed(f"{wanted} cannot be written: {error}") from error
        with sink:
            delivery.fetch(payload, _Counted(sink, self.progress, wanted))
            try:
                sink.commit()
            except TransportError as error:
                raise DeliveryFailed(f"{wanted} cannot be written: {error}") from error
        try:
            return self._reveal(part, wanted)
        except BaseException as error:
            # It is verified, but nobody looks for it under this name: the item goes back and is read again.
            with contextlib.suppress(TransportError):
                self.folder.delete(part)
            if isinstance(error, TransportError):
                raise DeliveryFailed(f"{wanted} cannot be delivered: {error}") from error
            raise

    def _create(self, part: str) -> Sink:
        try:
            return self.folder.create(part)
        except AlreadyExists:
            self.folder.delete(part)  # of an earlier attempt of ours
            return self.folder.create(part)

    def _tidy(self, name: str) -> None:
        """Takes away what runs that were cut have left of this item; one that is only slow finds its file gone, and fails."""
        for entry in self.folder.scan("", f".{name}.*.part"):
            with contextlib.suppress(TransportError):
                self.folder.delete(entry.name)

    def _reveal(self, part: str, wanted: str) -> str:
        stem, dot, suffix = wanted.partition(".")
        for again in range(_MOST_DOUBLES):
            name = f"{stem}+{again}{dot}{suffix}" if again else wanted
            try:
                self.folder.publish(part, name)
            except AlreadyExists:
                if self._same(part, name):
                    self.folder.delete(part)
                    return name
            else:
                return name
        raise DeliveryFailed(f"{wanted} is there {_MOST_DOUBLES} times over; clear the folder")

    def _same(self, first: str, second: str) -> bool:
        ours, there = self.folder.stat(first), self.folder.stat(second)
        if there.kind is not Kind.FILE or ours.size != there.size:
            return False
        with self.folder.open_read(first) as one, self.folder.open_read(second) as other:
            while data := one.read():
                if _exactly(other, len(data)) != data:
                    return False
        return True


def _exactly(source: Source, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := source.read(size - len(data))):
        data += more
    return data
