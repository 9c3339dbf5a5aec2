"""A ledger in an append-only text file, shared by the processes of one host.

A compare-and-set takes no lock. Its line names the version that the key had when it was read; the line is appended in one
piece (O_APPEND), and then the file is read on: the first line that names a version counts, for every reader alike, and the
others do not. Only then it is flushed to the disk, with all before it, and the caller told.

A file that has grown is followed by a shorter one. A *seal* is appended to it; what comes behind a seal does not count.
Everything before it goes into the next file, whoever writes that: the sealer, or, if that is dead or frozen, the first who
finds the seal and no next file. So nothing that counted is lost, and nobody waits for anybody.

Not for a folder that other hosts share: `O_APPEND` is not one step there.
"""

import hashlib
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

from gateway.errors import ConfigurationError
from gateway.handoff.clock import Clock
from gateway.handoff.ledger.base import Event, Ledger, is_wanted
from gateway.handoff.ledger.errors import LedgerUnavailable
from gateway.handoff.ledger.journal_files import JournalFolder, LineReader, Prepared, opened
from gateway.handoff.ledger.journal_lines import FORMAT, Head, Record, Seal, encoded
from gateway.handoff.ledger.journal_replay import Damaged, LaterFormat, Replay, events
from protocol.ledger import Entry
from protocol.names import ItemId

COMPACT_AT = 4 << 20  # bytes of changes, beside twice what the last compaction kept
KEPT_HISTORY = 64 << 20  # bytes of older files
_COURTESY = 0.25  # seconds that the others leave to the sealer
_PAUSE = 0.002
_LONGEST_NAME = 255  # bytes


class JournalLedger(Ledger):
    """One consumer group's journal. Every process holds all entries in memory: some 1 KiB for each key.

    The history goes back as far as `keep` bytes of older files do; what is older is summed up as each key's last change.
    """

    def __init__(
        self, folder: Path, consumer: str, clock: Clock, *, compact_at: int = COMPACT_AT, keep: int = KEPT_HISTORY
    ) -> None:
        """Makes the folder and the first file if they are missing, and reads what is there. Raises as `open_ledger`."""
        self._folder = JournalFolder(folder / _folder_name(consumer))
        self._consumer = consumer
        self._clock = clock
        self._compact_at = compact_at
        self._keep = keep
        self._lock = threading.Lock()
        self._mark = secrets.token_hex(4)
        self._lines = 0
        self._number = 0
        self._reader: LineReader | None = None
        self._replay = Replay(0, consumer)
        with self._translated():
            self._folder.path.mkdir(parents=True, exist_ok=True)
            self._catch_up()

    def __str__(self) -> str:
        return f"the ledger journal://{self._folder.path}"

    def _swap(self, key: str, before: Entry | None, after: Entry) -> bool:
        with self._lock, self._translated():
            while True:
                self._catch_up()
                if self._replay.index.get(key) != before:
                    return False
                by = self._own_mark()
                self._append(encoded(Record(self._replay.version(key) + 1, by, key, after)))
                match self._read_on(by):
                    case True:
                        os.fdatasync(self._handle())
                        self._compact_if_long()
                        return True
                    case False:
                        return False
                    case None if not self._replay.sealed:
                        raise Damaged(
                            self._number, "the line that was just appended is not in it: it was cut short or replaced"
                        )

    def read(self, key: str) -> Entry | None:
        with self._lock, self._translated():
            self._catch_up()
            return self._replay.index.get(key)

    def unarchived(self) -> list[tuple[str, Entry]]:
        with self._lock, self._translated():
            self._catch_up()
            return self._replay.index.unarchived()

    def highest_settled(self, group: str) -> int | None:
        with self._lock, self._translated():
            self._catch_up()
            return self._replay.index.highest_settled(group)

    def history(self, item: ItemId | None = None, key: str | None = None, since: str | None = None) -> Iterator[Event]:
        with self._translated():
            for event in self._events():
                if is_wanted(event, item, key, since):
                    yield event

    def close(self) -> None:
        with self._lock:
            self._drop()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except LaterFormat as error:
            raise ConfigurationError(f"{self}: {error}; every worker of this host needs the later one") from error
        except Damaged as error:
            raise LedgerUnavailable(
                f"{self} is damaged: {error}. Stop the workers that share it, and "
                "restore the folder, or move it away: then nothing is known of what was done before"
            ) from error
        except OSError as error:
            raise LedgerUnavailable(
                f"{self} cannot be used: {error.strerror}; see whether its folder can be written to and has space"
            ) from error

    def _handle(self) -> int:
        assert self._reader is not None  # noqa: S101 - `_catch_up` has opened it
        return self._reader.handle

    def _own_mark(self) -> str:
        self._lines += 1
        return f"{os.getpid()}.{self._mark}.{self._lines}"

    def _append(self, data: bytes) -> None:
        if os.write(self._handle(), data) != len(data):
            # What is there is a fragment now, and no line. The rest would be one no more: others may have written since.
            raise OSError(0, "the disk took only a part of a line")

    def _read_on(self, by: str = "") -> bool | None:
        """Takes the lines that were appended. Whether the one with our mark counts; None: it is not among them."""
        assert self._reader is not None  # noqa: S101 - `_catch_up` has opened it
        counts = None
        try:
            for data in self._reader:
                match self._replay.take(data, self._reader.offset):
                    case Seal(), _:
                        break
                    case Record() as record, counted if record.by == by:
                        counts = counted
                    case _:
                        pass
        except BaseException:
            # A line was read and perhaps not taken: what we hold may be wrong from here on.
            self._drop()
            raise
        return counts

    def _catch_up(self) -> None:
        """Reads to the end of the live file, which is another one if that which we knew was sealed."""
        while self._reader is None:
            self._open_last()
        self._read_on()
        if os.fstat(self._handle()).st_nlink == 0:
            self._read_on()
            if not self._replay.sealed:
                raise Damaged(self._number, "it was removed")
        deadline = self._clock.monotonic() + _COURTESY
        while self._replay.sealed:
            if self._open(self._number + 1) or self._open_last():
                self._read_on()
            elif self._clock.monotonic() < deadline:
                self._clock.sleep(_PAUSE)
            else:
                with self._begun() as prepared:
                    prepared.link()

    def _open_last(self) -> bool:
        """Opens the file with the highest number; False where that is the one we have. The first is made if there is none."""
        numbers = self._folder.numbers()
        if not numbers and self._number == 0:
            with self._begun() as prepared:
                prepared.link()
            numbers = self._folder.numbers()
        if not numbers or numbers[-1] < self._number:
            raise Damaged(self._number, "it and what followed it were removed")
        return (numbers[-1] > self._number or self._reader is None) and self._open(numbers[-1])

    def _open(self, number: int) -> bool:
        try:
            handle = os.open(self._folder.file(number), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        follows = self._replay.sealed and number == self._number + 1
        replay = self._replay.successor() if follows else Replay(number, self._consumer)
        self._drop()
        self._reader, self._replay, self._number = LineReader(handle), replay, number
        # Its name has to be on the disk before anybody relies on what is in it.
        self._folder.sync()
        return True

    def _drop(self) -> None:
        """Forgets the file and what was read of it."""
        if self._reader is not None:
            os.close(self._reader.handle)
        self._reader, self._replay = None, Replay(0, self._consumer)

    @contextmanager
    def _begun(self) -> Iterator[Prepared]:
        """The next file, not yet to be seen, with all that is known by now."""
        number = self._number + 1
        prepared = self._folder.prepare(number, self._own_mark())
        try:
            prepared.write(encoded(Head(FORMAT, number, self._consumer)))
            prepared.write(b"".join(encoded(record) for record in self._replay.records()))
            yield prepared
        finally:
            prepared.close()

    def _compact_if_long(self) -> None:
        reader = self._reader
        if reader is None or reader.offset < self._compact_at + 2 * self._replay.kept_until:
            return
        try:
            self._compact()
        except OSError:
            # The change that was asked for is made, and is not to be reported as failed: a full disk will be by the next.
            self._compact_at *= 2
            self._replay.touched = None

    def _compact(self) -> None:
        """Seals the live file and goes on with a shorter one."""
        touched = self._replay.touched = set()
        with self._begun() as prepared:
            # Nearly all of it is on the disk before the seal, behind which the others wait.
            prepared.sync()
            self._append(encoded(Seal(self._own_mark())))
            self._read_on()
            prepared.write(b"".join(encoded(record) for record in self._replay.records(touched)))
            prepared.link()
        self._catch_up()
        self._folder.remove_older(self._number, self._keep)

    def _events(self) -> Iterator[Event]:
        with ExitStack() as stack:
            for position, (number, handle) in enumerate(self._open_all(stack)):
                reader = LineReader(handle)
                lines = ((data, reader.offset) for data in reader)
                yield from events(lines, Replay(number, self._consumer), first=position == 0)

    def _open_all(self, stack: ExitStack) -> list[tuple[int, int]]:
        """The numbers and handles of all files that are kept, without a gap up to the last."""
        while True:
            numbers = self._folder.numbers()
            row = [number for position, number in enumerate(numbers) if numbers[-1] - number == len(numbers) - 1 - position]
            try:
                return [(number, stack.enter_context(opened(self._folder.file(number)))) for number in row]
            except FileNotFoundError:
                stack.close()  # removed meanwhile, as the oldest are


def _folder_name(consumer: str) -> str:
    """A consumer group's folder: its name, as far as a file system takes it."""
    name = quote(consumer, safe=" ")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _LONGEST_NAME:
        name = f"{name[:100]}-{hashlib.sha256(consumer.encode()).hexdigest()}"
    return name
