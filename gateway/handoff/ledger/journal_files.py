"""The files of a journal: a row of numbered ones, of which the last is written to and the older ones are its history.

    0000000007.journal                   what `journal_lines` tells of
    0000000008.4711-9f3a12c4.tmp         becomes number 8, if nobody was faster

A number is made once, for ever: its file is prepared under another name and hard-linked, which never replaces. A process
that was frozen before the link, while the others went on and removed that number again, must not succeed either. So

    who makes a number     prepares its file, *then* looks that the number before it is there, then links
    who removes a number   finds the number before it gone, then removes what is prepared for this one, then it

If the maker's look finds the number before, that is removed later, and the prepared file is there to be found then.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gateway.errors import ConfigurationError

_NAME = re.compile(r"([0-9]{10})\.journal")
_PREPARED = re.compile(r"([0-9]{10})\..+\.tmp")
_READ = 1 << 20  # bytes


def file_name(number: int) -> str:
    """What a number is called."""
    return f"{number:010d}.journal"


class JournalFolder:
    """The folder of one consumer group's journal. Raises OSError throughout."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def numbers(self) -> list[int]:
        """The numbers there are, ascending."""
        return sorted(int(found[1]) for name in os.listdir(self.path) if (found := _NAME.fullmatch(name)))

    def file(self, number: int) -> Path:
        """Where a number is."""
        return self.path / file_name(number)

    def prepare(self, number: int, mark: str) -> "Prepared":
        """An empty file that can become this number. `mark` is the preparer's own."""
        return Prepared(self, number, self.path / f"{number:010d}.{mark}.tmp")

    def sync(self) -> None:
        """Names that were made are on the disk on return."""
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove_older(self, live: int, keep: int) -> None:
        """Removes the oldest files, until those before the live one have no more than `keep` bytes; one always stays."""
        numbers = [number for number in self.numbers() if number < live]
        sizes = {number: self._size(number) for number in numbers}
        for number in numbers[:-1]:
            if sum(sizes.values()) <= keep:
                return
            del sizes[number]
            for name in os.listdir(self.path):
                found = _PREPARED.fullmatch(name)
                if found and int(found[1]) <= number:
                    (self.path / name).unlink(missing_ok=True)
            self.file(number).unlink(missing_ok=True)

    def _size(self, number: int) -> int:
        try:
            return self.file(number).stat().st_size
        except FileNotFoundError:
            return 0  # another process removes as well


class Prepared:
    """A file in the making. Written by nobody else, and read by nobody before it has its number."""

    def __init__(self, folder: JournalFolder, number: int, path: Path) -> None:
        self._folder = folder
        self._number = number
        self._path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def write(self, data: bytes) -> None:
        """Appends all of it."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._handle, view) :]

    def sync(self) -> None:
        """What was written is on the disk on return."""
        os.fsync(self._handle)

    def link(self) -> None:
        """Gives it the number, unless that is there, or is no longer wanted."""
        self.sync()
        if not self._is_wanted():
            return
        try:
            os.link(self._path, self._folder.file(self._number))
        except (FileExistsError, FileNotFoundError):
            return  # another one was faster; perhaps by so much that ours was cleared away
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
                raise ConfigurationError(
                    f"{self._folder.path} is on a file system without hard links, where a journal cannot be kept"
                ) from error
            raise

    def _is_wanted(self) -> bool:
        if self._number == 1:
            return not self._folder.numbers()
        return self._folder.file(self._number - 1).exists()

    def close(self) -> None:
        """Takes the prepared name away; the number stays, if it was given."""
        os.close(self._handle)
        with suppress(FileNotFoundError):
            self._path.unlink()


class LineReader:
    """The whole lines of a growing file, each once, from its start."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.offset = 0  # where the next line begins

    def __iter__(self) -> Iterator[bytes]:
        """Those that are whole by now. `offset` is behind the line that was given last."""
        rest = b""
        while data := os.pread(self.handle, _READ, self.offset + len(rest)):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self.offset += len(line) + 1
                yield line


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A handle for reading."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)
