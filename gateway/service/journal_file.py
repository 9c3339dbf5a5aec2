"""Files of lines that several processes append to, and that are rotated by size: `x.jsonl`, `x.jsonl.1`, ... the oldest last.

A line is appended in one write, under a lock on the file itself, so that whoever rotates does so alone and a line that a full
disk has cut is taken back before the next one is written. A process that is frozen while it holds the lock keeps the others
for a second at most: then they append without it, which one write to the end of a file allows.
"""

import contextlib
import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

_LOCK_PATIENCE = 1.0  # seconds
_FIRST_NAP = 0.0005  # seconds; doubled
_TAIL = re.compile(r"\.([1-9][0-9]{0,3})")
_ROTATIONS = 8  # that may happen while files are being opened
_MODE = 0o640  # what passed here is for the operators' group, and for nobody else


@dataclass(slots=True)
class LineFile:
    """Appends lines. For any number of threads, and of processes that are given the same limits.

    A file that would grow beyond `max_bytes` becomes number 1, and so on; those above number `keep` are removed. A file that
    somebody else has moved away or deleted is made anew.
    """

    path: Path
    max_bytes: int
    keep: int
    _file: int = -1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def append(self, line: bytes) -> None:
        """Writes a line, which ends in a newline, into the operating system's hands; it is not waited for the disk.

        Raises OSError; then nothing of the line is in the file, unless the process was killed or the lock was not to be had.
        """
        with self._lock:
            for _ in range(16):  # whoever gets the lock late finds the file rotated, and looks for the new one
                self._open()
                with self._locked() as locked:
                    if not self._is_current():
                        continue
                    if locked and self._is_full(len(line)):
                        self._rotate()
                        continue
                    self._write(line, locked=locked)
                    return
            raise OSError(f"{self.path} is moved away again and again")

    def _open(self) -> None:
        if self._file >= 0 and self._is_current():
            return
        self._close()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._file = os.open(self.path, flags, _MODE)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            self._file = os.open(self.path, flags, _MODE)

    def _is_current(self) -> bool:
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._file))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[bool]:
        """Holds the lock of the file that is open; False where it was not to be had in time."""
        file, nap, deadline, locked = self._file, _FIRST_NAP, time.monotonic() + _LOCK_PATIENCE, False
        while not locked:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked = True
            except BlockingIOError:
                if time.monotonic() > deadline:
                    break
                time.sleep(nap)
                nap = min(nap * 2, 0.05)
        try:
            yield locked
        finally:
            if locked:
                fcntl.flock(file, fcntl.LOCK_UN)

    def _is_full(self, more: int) -> bool:
        size = os.fstat(self._file).st_size
        return size > 0 and size + more > self.max_bytes

    def _rotate(self) -> None:
        # From the oldest on, each by one rename: a reader that goes the other way misses none. The name of the present file
        # is free at the very end, so nobody begins the next one before.
        for number, path in reversed(numbered(self.path)):
            if number >= self.keep:
                path.unlink(missing_ok=True)
            else:
                path.rename(_numbered(self.path, number + 1))
        self.path.rename(_numbered(self.path, 1))

    def _write(self, line: bytes, *, locked: bool) -> None:
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) not in (b"\n", b""):
            line = b"\n" + line  # behind what a process wrote that was killed, or lost its power, in the middle
        written = 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError:
            if locked and written:
                with contextlib.suppress(OSError):  # the error that matters is the first
                    os.ftruncate(self._file, size)
            raise

    def close(self) -> None:
        """Gives the file back. The next append opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def numbered(path: Path) -> list[tuple[int, Path]]:
    """The rotated files of a journal, the latest first, which is number 1. Raises OSError where its folder cannot be read."""
    names = os.listdir(path.parent)
    tails = (_TAIL.fullmatch(name.removeprefix(path.name)) for name in names if name.startswith(path.name))
    numbers = sorted(int(tail[1]) for tail in tails if tail is not None)
    return [(number, _numbered(path, number)) for number in numbers]


def open_files(path: Path) -> list[BinaryIO]:
    """Every file of a journal, the oldest first, opened so that what is rotated meanwhile is neither missed nor read twice.

    The caller closes them. Raises OSError; a journal that nobody has begun yet has no files.
    """
    files: list[BinaryIO] = []
    seen: list[os.stat_result] = []
    try:
        highest = max((number for number, _ in numbered(path)), default=0)
    except FileNotFoundError:
        return files
    try:
        # The way that rotation goes: a file that is moved on meanwhile is met again under its next number.
        for number in range(highest + _ROTATIONS):
            try:
                file = (_numbered(path, number) if number else path).open("rb")
            except FileNotFoundError:
                continue
            facts = os.fstat(file.fileno())
            if any(os.path.samestat(facts, other) for other in seen):
                file.close()
            else:
                files.append(file)
                seen.append(facts)
    except OSError:
        close_files(files)
        raise
    return files[::-1]


def close_files(files: list[BinaryIO]) -> None:
    """Gives files back."""
    for file in files:
        file.close()
