"""A file being made, and a file being read, through fsspec."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from transports import errors
from transports.base import CHUNK, Sink, Source
from transports.fsspec_bridge.errors import translated


class FsspecSink(Sink):
    def __init__(self, system: Any, full: str, path: str, file: Any) -> None:
        self._system = system
        self._full = full
        self._path = path
        self._file: Any = file
        self._written = 0
        self._finished = False

    @property
    def acknowledged(self) -> int:
        return 0  # what is buffered, where, and until when, differs between file systems

    def write(self, data: bytes) -> None:
        if self._file is None:
            raise errors.ServerFailure("write", self._path, "the file is closed already")
        with translated("write", self._path):
            self._file.write(data)
        self._written += len(data)

    def commit(self) -> None:
        if self._file is None:
            raise errors.ServerFailure("commit", self._path, "the file is closed already")
        file, self._file = self._file, None
        with translated("commit", self._path):
            file.close()
            self._system.invalidate_cache(self._full)
            size = self._system.info(self._full)["size"]
        if size != self._written:
            raise errors.ServerFailure("commit", self._path, f"{self._written} bytes were written and {size} are there")
        self._finished = True

    def abort(self) -> None:
        if self._finished:
            return
        self._finished = True
        file, self._file = self._file, None
        with translated("abort", self._path):
            try:
                if file is not None:
                    file.close()
            finally:
                with suppress(FileNotFoundError):
                    self._system.rm_file(self._full)

    def leave(self) -> None:
        file, self._file = self._file, None
        self._finished = True
        if file is not None:
            with suppress(Exception):  # whatever the file system raises: the file stays as it is
                file.close()


class FsspecSource(Source):
    def __init__(self, path: str, size: int, file: Any, read: Callable[[int, int], bytes], start: int = 0) -> None:
        self.size = size
        self._path = path
        self._file = file
        self._read = read
        self._at = start

    def read(self, limit: int = CHUNK) -> bytes:
        end = min(self._at + limit, self.size)
        if end <= self._at:
            return b""
        with translated("read", self._path):
            data = self._read(self._at, end)
        if not data:
            raise errors.ChangedWhileReading("read", self._path, f"it ended after {self._at} of {self.size} bytes")
        self._at += len(data)
        return data

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()
