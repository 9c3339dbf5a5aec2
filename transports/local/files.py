"""A file being made, and a file being read, on the local file system."""

import os
import stat
from contextlib import suppress

from transports import errors
from transports.base import CHUNK, Sink, Source, check_before, check_left, check_start
from transports.local.errors import error_for, translated
from transports.local.folders import flush


class LocalSink(Sink):
    """A file being made. It keeps its folder open, so that it finds itself again whatever happens to the path."""

    def __init__(self, folder: int, name: bytes, path: str, left: tuple[int, bytes] | None = None) -> None:
        """A new file, or one that was left, where to go on, and what stands before that.

        Takes over the folder's descriptor, also where it raises.
        """
        self._folder = folder
        self._name = name
        self._path = path
        self._written = left[0] if left is not None else 0
        self._finished = False
        try:
            self._file = _made(name, path, folder) if left is None else _left(name, path, folder, *left)
        except BaseException:
            os.close(folder)
            raise
        self._made = os.fstat(self._file)

    @property
    def acknowledged(self) -> int:
        return self._written

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        with translated("write", self._path):
            while rest:
                count = os.write(self._handle("write"), rest)
                self._written += count
                rest = rest[count:]

    def commit(self) -> None:
        with translated("commit", self._path):
            os.fsync(self._handle("commit"))
            size = os.fstat(self._file).st_size
            if size != self._written:
                raise errors.ServerFailure("commit", self._path, f"{self._written} bytes were written and {size} are there")
            # NFS and quotas report at close what they did not report before.
            self._close()
            flush(self._folder)
        self._finish()

    def abort(self) -> None:
        if self._finished:
            return
        try:
            with translated("abort", self._path):
                with suppress(OSError):  # the file is thrown away
                    self._close()
                self._remove()
        finally:
            self._finish()

    def leave(self) -> None:
        if not self._finished:
            with suppress(OSError):  # what it could not store is told at the commit of whoever goes on with it
                self._close()
            self._finish()

    def _handle(self, operation: str) -> int:
        if self._file < 0:
            raise errors.ServerFailure(operation, self._path, "the file is closed already")
        return self._file

    def _close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            # Somebody may have moved ours away and made another of its name: that one is not ours to remove.
            if os.path.samestat(os.stat(self._name, dir_fd=self._folder, follow_symlinks=False), self._made):
                os.unlink(self._name, dir_fd=self._folder)

    def _finish(self) -> None:
        self._finished = True
        os.close(self._folder)


def _made(name: bytes, path: str, folder: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, 0o666, dir_fd=folder)
    except OSError as error:
        raise error_for("create", path, error, change=True) from error


def _left(name: bytes, path: str, folder: int, at: int, before: bytes) -> int:
    """Opens a file that is there, with its offset at byte `at`."""
    # O_NONBLOCK: the open of a pipe that somebody put there would wait for its reader.
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with translated("resume", path):
        file = os.open(name, flags, dir_fd=folder)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                raise errors.Denied("resume", path, "it is not a regular file")
            check_left(path, at, about.st_size)
            check_before(path, at, before, os.pread(file, len(before), at - len(before)))
            os.lseek(file, at, os.SEEK_SET)
        except BaseException:
            os.close(file)
            raise
    return file


class LocalSource(Source):
    """A regular file, read to the size it had when it was opened."""

    def __init__(self, folder: int, name: bytes, path: str, start: int = 0) -> None:
        # O_NONBLOCK: the open of a pipe that somebody put there would wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with translated("open_read", path):
            self._file = os.open(name, flags, dir_fd=folder)
        self._path = path
        self._at = start
        try:
            about = os.fstat(self._file)
            if not stat.S_ISREG(about.st_mode):
                raise errors.Denied("open_read", path, "it is not a regular file")
            check_start(path, start, about.st_size)
            os.lseek(self._file, start, os.SEEK_SET)
        except BaseException:
            self.close()
            raise
        self.size = about.st_size
        self.modified = about.st_mtime

    def read(self, limit: int = CHUNK) -> bytes:
        wanted = min(limit, self.size - self._at)
        if not wanted:
            return b""
        try:
            data = os.read(self._file, wanted)
        except OSError as error:
            failure = error_for("read", self._path, error)
            if isinstance(failure, errors.NotFound):  # ESTALE: removed, or replaced, on another NFS host
                failure = errors.ChangedWhileReading("read", self._path, "it is gone from the server")
            raise failure from error
        if not data:
            raise errors.ChangedWhileReading("read", self._path, f"it ended after {self._at} of {self.size} bytes")
        self._at += len(data)
        return data

    def close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            with suppress(OSError):
                os.close(file)
