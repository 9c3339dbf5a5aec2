"""The journal: every transition as a line of JSON in a rotating file and, where configured, as a row in the ledger's database.

It tells what happened; nothing is decided by it. So it never holds the hand-off up, and what could not be written is counted.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import structlog

from gateway.service.board import Board
from gateway.service.journal_file import LineFile, close_files, open_files
from gateway.service.journal_table import TableWriter
from gateway.service.transitions import Transition

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

FILE_NAME = "journal.jsonl"
_BLOCK = 64 * 1024  # bytes
_AT = b'{"at":"'  # how each of our lines begins


def default_journal() -> Path:
    """The journal of this user on this host, in the place where programs keep their state."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "dropgate" / FILE_NAME


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which transitions are asked for: all that fit every one that is given.

    `item` is a group and number; `drop` the source or a destination; `since` is compared as text with their times, so
    "2026-11-30" is that day (in UTC) and later.
    """

    item: str | None = None
    route: str | None = None
    since: str | None = None
    drop: str | None = None
    key: str | None = None

    def fits(self, one: Transition) -> bool:
        """Whether a transition is one of them."""
        return (
            (self.item is None or one.item == self.item)
            and (self.route is None or one.route == self.route)
            and (self.since is None or one.at >= self.since)
            and (self.drop is None or self.drop in (one.drop, one.destination))
            and (self.key is None or one.key == self.key)
        )

    def needles(self) -> tuple[bytes, ...]:
        """What a line must hold to be one of them: much quicker to find than to parse."""
        return tuple(json.dumps(text).encode() for text in (self.item, self.route, self.drop, self.key) if text is not None)


def as_line(transition: Transition) -> bytes:
    """A line of the journal, in ASCII."""
    return json.dumps(transition.as_record(), separators=(",", ":")).encode() + b"\n"


@dataclass(slots=True)
class Journal:
    """`record` is a listener of the hub. The file is rotated at `max_bytes`, and `keep` old ones stay beside it.

    `database` is the URL of a ledger's database, written to in the background. Trouble is told once in the log and on the
    `board`, until it is over; `errors` counts the lines that are not in the file, `lost_rows` those not in the database.
    """

    file: Path
    max_bytes: int
    keep: int
    database: str | None = None
    board: Board | None = None
    errors: int = 0
    _lines: LineFile = field(init=False)
    _rows: TableWriter | None = field(init=False)
    _missed: int = 0  # since the trouble began
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._lines = LineFile(self.file, self.max_bytes, self.keep)
        self._rows = None if self.database is None else TableWriter(self.database, self._tell_rows)

    @property
    def lost_rows(self) -> int:
        """Transitions that the database never took; they are in the file."""
        return 0 if self._rows is None else self._rows.lost

    def record(self, transition: Transition) -> None:
        """Appends a line, and hands a row on. Raises nothing; a full disk loses the line and stops nobody."""
        if self._rows is not None:
            self._rows.add(transition)
        try:
            self._lines.append(as_line(transition))
        except OSError as error:
            self._failed(error)
        else:
            if self._missed:
                self._works_again()

    def _failed(self, error: OSError) -> None:
        text = f"{self.file}: {error.strerror or error}; make room, or see whether its folder can be written to"
        with self._lock:
            first = not self._missed
            self.errors += 1
            self._missed += 1
        if first:
            log.error("the journal cannot be written", error=text)
        if self.board is not None:
            self.board.set_trouble("journal", text)

    def _works_again(self) -> None:
        with self._lock:
            missed, self._missed = self._missed, 0
        if missed:
            log.warning("the journal is written again", lines_missing=missed)
            if self.board is not None:
                self.board.set_trouble("journal", "")

    def _tell_rows(self, trouble: str) -> None:
        if trouble:
            log.warning("the journal's database cannot be written, trying again", error=trouble)
        else:
            log.info("the journal's database is written again")
        if self.board is not None:
            self.board.set_trouble("journal database", trouble)

    def read(
        self, item: str | None = None, route: str | None = None, since: str | None = None, limit: int | None = None
    ) -> Iterator[Transition]:
        """What was recorded and is kept, as `read_journal` gives it."""
        return read_journal(self.file, Wanted(item, route, since), limit)

    def close(self, timeout: float = 5.0) -> None:
        """Writes what the database has not had yet, for `timeout` seconds at most, and gives files and connections back."""
        if self._rows is not None:
            self._rows.close(timeout)
        self._lines.close()


def read_journal(path: Path, wanted: Wanted | None = None, limit: int | None = None) -> Iterator[Transition]:
    """The transitions in a journal's files, oldest first; with `limit`, the last so many of them.

    Lines that are none of ours, or were cut, are passed over. Raises OSError.
    """
    wanted = wanted or Wanted()
    files = open_files(path)
    try:
        if limit is not None:
            yield from _last(files, wanted, limit)
            return
        for file in files:
            yield from _select(file, wanted)
    finally:
        close_files(files)


def _last(files: list[BinaryIO], wanted: Wanted, limit: int, end: int | None = None) -> list[Transition]:
    """The last `limit`, oldest first. No more is read than that takes; of the last file nothing behind `end`."""
    needles, found = wanted.needles(), list[Transition]()
    for file in reversed(files):
        for line in _backwards(file, end):
            if len(found) >= limit:
                return found[::-1]
            one = _parsed(line, needles, wanted)
            if one is not None:
                found.append(one)
        end = None
    return found[::-1]


def _backwards(file: BinaryIO, end: int | None) -> Iterator[bytes]:
    """The lines of a file, the last first, without their newlines; it begins with what stands behind the last newline."""
    place = file.seek(0, os.SEEK_END) if end is None else end
    first = b""
    while place > 0:
        begin = max(0, place - _BLOCK)
        file.seek(begin)
        first, *lines = (file.read(place - begin) + first).split(b"\n")
        yield from reversed(lines)
        place = begin
    yield first


def tail_journal(
    path: Path, wanted: Wanted | None = None, limit: int | None = None, *, wait: Callable[[], bool]
) -> Iterator[Transition]:
    """As `read_journal`, and then whatever is recorded from there on, over any rotation, until `wait` says False.

    `wait` is called when there is nothing new, and sleeps for as long as the next look may be late.
    """
    wanted = wanted or Wanted()
    yield from _Follower(path, wanted).run(limit, wait)


@dataclass(slots=True)
class _Follower:
    """Reads on in the file that it holds, and goes to the next one once that was rotated."""

    path: Path
    wanted: Wanted
    _at: BinaryIO | None = None
    _begun: bytes = b""  # a line that its writer has not ended yet

    def run(self, limit: int | None, wait: Callable[[], bool]) -> Iterator[Transition]:
        files = open_files(self.path)
        self._at = files[-1] if files else None
        try:
            if limit is not None:
                end = _end_of_lines(files[-1]) if files else 0
                yield from _last(files, self.wanted, limit, end)
                for file in files[-1:]:
                    file.seek(end)
            else:
                for file in files:
                    yield from self._lines(file, last=file is self._at)
            close_files(files[:-1])
            while wait():
                yield from self._new()
        finally:
            close_files(files)
            if self._at is not None:
                self._at.close()

    def _new(self) -> Iterator[Transition]:
        if self._at is not None and self._is_latest():
            yield from self._lines(self._at, last=True)
            return
        files = open_files(self.path)
        place = self._place(files)
        later = files[place + 1 :]
        close_files(files[: place + 1])
        if self._at is not None:
            # Now that it is known to be rotated, nobody writes to it any more.
            yield from self._lines(self._at, last=not later)
        if later:
            if self._at is not None:
                self._at.close()
            self._at = later[-1]
            for file in later:
                yield from self._lines(file, last=file is self._at)
            close_files(later[:-1])

    def _is_latest(self) -> bool:
        try:
            return self._at is not None and os.path.samestat(self.path.stat(), os.fstat(self._at.fileno()))
        except FileNotFoundError:
            return False

    def _place(self, files: list[BinaryIO]) -> int:
        """Where the file that is held stands among them; -1: it is gone, or there was none."""
        if self._at is None:
            return -1
        held = os.fstat(self._at.fileno())
        return next((n for n, file in enumerate(files) if os.path.samestat(held, os.fstat(file.fileno()))), -1)

    def _lines(self, file: BinaryIO, *, last: bool) -> Iterator[Transition]:
        needles = self.wanted.needles()
        for line in file:
            whole = self._begun + line
            self._begun = b""
            if not whole.endswith(b"\n") and last:
                self._begun = whole  # the rest comes with the next look
                return
            one = _parsed(whole, needles, self.wanted)
            if one is not None:
                yield one


def _end_of_lines(file: BinaryIO) -> int:
    """Where a line that has not been ended begins: the end of the file, unless somebody is writing."""
    end = file.seek(0, os.SEEK_END)
    return end - len(next(_backwards(file, end)))


def _select(file: BinaryIO, wanted: Wanted) -> Iterator[Transition]:
    needles = wanted.needles()
    for line in file:
        one = _parsed(line, needles, wanted)
        if one is not None:
            yield one


def _parsed(line: bytes, needles: tuple[bytes, ...], wanted: Wanted) -> Transition | None:
    """The transition of a line; None where it is not wanted, or is none."""
    for needle in needles:
        if needle not in line:
            return None
    if wanted.since is not None and line.startswith(_AT) and line[len(_AT) :] < wanted.since.encode():
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    one = Transition.of_record(record) if isinstance(record, dict) else None
    return one if one is not None and wanted.fits(one) else None
