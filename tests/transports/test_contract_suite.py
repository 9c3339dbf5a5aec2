"""The conformance suite catches the faults it is there for: each backend here is named by its fault, and fails its test."""

import inspect
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from transports import errors
from transports.base import CHUNK, Entry, Kind, Sink, Source, Transport
from transports.contract import Place, PlantedContract, TransportContract
from transports.contract.races import Crew
from transports.local.transport import LocalTransport


class Suite(TransportContract, PlantedContract):
    """All of it. The name keeps pytest from collecting it."""


class Local(LocalTransport):
    """A right backend, with the paths of its files at hand for others to be wrong with."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.root = Path(root)


# Between the two halves of a wrong step, seconds: what a server far away takes. Without it the halves meet only by luck.
APART = 0.001


class PublishLooksFirst(Local):
    """A no-replace rename that is check-then-rename, as Samba's."""

    def publish(self, src: str, dst: str) -> None:
        if (self.root / dst).exists():
            raise errors.AlreadyExists("publish", dst)
        time.sleep(APART)
        os.rename(self.root / src, self.root / dst)


class ClaimCopies(Local):
    """A move that is a copy and a delete: two may have copied before one deletes."""

    def claim(self, src: str, dst: str) -> None:
        try:
            (self.root / dst).write_bytes((self.root / src).read_bytes())
        except FileNotFoundError as error:
            raise errors.NotFound("claim", src) from error
        time.sleep(APART)
        (self.root / src).unlink(missing_ok=True)


class PlainSink(Sink):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")

    @property
    def acknowledged(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def commit(self) -> None:
        self._file.close()

    def abort(self) -> None:
        self._file.close()

    def leave(self) -> None:
        self._file.close()


class CreateLooksFirst(Local):
    """exists(), and then an open for writing."""

    def create(self, path: str) -> Sink:
        if (self.root / path).exists():
            raise errors.AlreadyExists("create", path)
        time.sleep(APART)
        return PlainSink(self.root / path)


class AbortLeavesTheFile(Local):
    def create(self, path: str) -> Sink:
        super().create(path).abort()
        return PlainSink(self.root / path)


class ReplaceDeletesFirst(Local):
    """For a moment there is neither the old file nor the new one."""

    def replace(self, src: str, dst: str) -> None:
        (self.root / dst).unlink(missing_ok=True)
        time.sleep(APART)
        super().replace(src, dst)


class EarlyEnd(Source):
    """The end of the file is the end of the reading, whatever was promised at the opening."""

    def __init__(self, path: Path) -> None:
        self.size = path.stat().st_size
        self._path = path
        self._at = 0

    def read(self, limit: int = CHUNK) -> bytes:
        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read(limit)
        self._at += len(data)
        return data

    def close(self) -> None:
        """Nothing stays open."""


class ShortFileIsWhole(Local):
    def open_read(self, path: str, start: int = 0) -> Source:
        try:
            return EarlyEnd(self.root / path)
        except FileNotFoundError as error:
            raise errors.NotFound("open_read", path) from error


class ReadsAllAtOnce(Local):
    def open_read(self, path: str, start: int = 0) -> Source:
        source = super().open_read(path)
        source.held = source.read(source.size)  # type: ignore[attr-defined]  # to hold it is the fault
        return super().open_read(path) if source.size == 0 else _Again(source)


class _Again(Source):
    def __init__(self, source: Any) -> None:
        self.size = source.size
        self._held = source.held
        self._at = 0

    def read(self, limit: int = CHUNK) -> bytes:
        self._at += limit
        return bytes(self._held[self._at - limit : self._at])

    def close(self) -> None:
        self._held = b""


class ReadsFromTheStart(Local):
    def open_read(self, path: str, start: int = 0) -> Source:
        return super().open_read(path)


class GoesOnWithAnEmptyFile(Local):
    def resume(self, path: str, at: int, before: bytes = b"") -> Sink:
        sink = super().resume(path, at, before)
        os.truncate(self.root / path, 0)
        return sink


class GoesOnWithWhateverIsThere(Local):
    def resume(self, path: str, at: int, before: bytes = b"") -> Sink:
        return super().resume(path, at)


class CountsWhatIsNotThere(Local):
    """What was handed to a buffer is taken for stored."""

    def create(self, path: str) -> Sink:
        return _Buffered(super().create(path))


class _Buffered(PlainSink):
    def __init__(self, below: Sink) -> None:
        self._below = below
        self._given = 0

    @property
    def acknowledged(self) -> int:
        return self._given

    def write(self, data: bytes) -> None:
        self._given += len(data)

    def leave(self) -> None:
        self._below.leave()


class ScanEndsAtAStrangeName(Local):
    """paramiko's listings: one name that is not UTF-8 hides all others."""

    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        for entry in super().scan(folder, pattern):
            if entry.kind is Kind.OTHER:
                raise UnicodeDecodeError("utf-8", b"", 0, 1, "invalid start byte")
            yield entry


class PatternFoldsCase(Local):
    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        from fnmatch import fnmatch

        return (entry for entry in super().scan(folder) if fnmatch(entry.name.lower(), pattern.lower()))


class ClaimIsQuietWhenLost(Local):
    def claim(self, src: str, dst: str) -> None:
        try:
            super().claim(src, dst)
        except errors.NotFound:
            return


class ServerClockIsAhead(Local):
    def server_time(self, folder: str = "") -> float:
        return super().server_time(folder) + 3600


class MakesItsRoot(Local):
    def __init__(self, root: str) -> None:
        Path(root).mkdir(exist_ok=True)
        super().__init__(root)


CAUGHT = [
    (PublishLooksFirst, "test_race_to_publish_has_one_winner_each"),
    (ClaimCopies, "test_race_to_claim_has_one_winner_each"),
    (ClaimCopies, "test_race_for_one_counter_hands_out_each_step_once"),
    (CreateLooksFirst, "test_race_to_create_has_one_winner_each"),
    (ReplaceDeletesFirst, "test_race_of_readers_with_a_replacer_shows_whole_files"),
    (AbortLeavesTheFile, "test_an_uncommitted_file_is_removed"),
    (AbortLeavesTheFile, "test_an_error_while_writing_removes_the_file_and_is_not_hidden"),
    (ShortFileIsWhole, "test_a_file_that_shrinks_is_no_whole_file"),
    (ShortFileIsWhole, "test_a_link_is_not_followed"),
    (ShortFileIsWhole, "test_a_link_to_a_folder_leads_nowhere"),
    (ShortFileIsWhole, "test_an_unsafe_path_is_refused_by_every_member_and_harms_nothing"),
    (ReadsAllAtOnce, "test_reading_holds_little_however_large_the_file"),
    (ReadsFromTheStart, "test_a_file_is_read_from_a_byte_on"),
    (GoesOnWithAnEmptyFile, "test_from_less_than_there_is_and_from_exactly_that"),
    (GoesOnWithWhateverIsThere, "test_a_file_that_cannot_be_the_one_that_was_left_is_not_touched"),
    (CountsWhatIsNotThere, "test_a_file_is_gone_on_with_from_what_was_acknowledged"),
    (ScanEndsAtAStrangeName, "test_strange_names_end_no_scan_and_cannot_be_used"),
    (PatternFoldsCase, "test_a_pattern_goes_by_exact_case_and_knows_two_signs"),
    (ClaimIsQuietWhenLost, "test_a_renamed_file_can_be_claimed_back_and_forth"),
    (ServerClockIsAhead, "test_the_clock_is_the_one_that_stamps_files"),
    (MakesItsRoot, "test_a_root_that_is_not_there_is_said_at_once"),
]


def connect_to(backend: type[Local], root: Path, below: str) -> Transport:
    return backend(str(root / below))


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew(processes=True)
    yield crew
    crew.dismiss()


def _run(test: str, backend: type[Local], root: Path, crew: Crew) -> None:
    root.mkdir()
    method = getattr(Suite(), test)
    with backend(str(root)) as transport:
        have = {
            "place": Place(connect=partial(connect_to, backend, root), folder=root),
            "transport": transport,
            "folder": root,
            "crew": crew,
            "tmp_path": root.parent,
        }
        method(**{name: have[name] for name in inspect.signature(method).parameters})


@pytest.mark.parametrize(("backend", "test"), CAUGHT, ids=lambda value: getattr(value, "__name__", value))
def test_a_wrong_backend_is_caught(backend: type[Local], test: str, tmp_path: Path, crew: Crew) -> None:
    _run(test, Local, tmp_path / "right", crew)
    with pytest.raises((AssertionError, errors.TransportError, OSError, ValueError, pytest.fail.Exception)):
        _run(test, backend, tmp_path / "wrong", crew)
