"""What a backend gives the conformance suite, and the few helpers that all its tests use."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from transports import errors
from transports.base import Transport

# What a step may say that cannot be done: all of these promise that nothing was changed.
REFUSALS = (
    errors.UnsafePath,
    errors.Denied,
    errors.Unsupported,
    errors.NotFound,
    errors.AlreadyExists,
    errors.Busy,
    errors.ServerFailure,
)


@dataclass(frozen=True, slots=True)
class Place:
    """One fresh, empty directory, and how to reach it.

    `connect("")` makes a new connection to it, and `connect("some/folder")` one that is rooted below. It is called in
    other processes too, so it must survive pickling: a function of a module, or a `functools.partial` of one. A backend
    that lives in one process says `processes=False` and is raced by threads.

    `folder` is the same directory as a folder of this machine, for `PlantedContract` only. `aliases`: the server shows
    names that it cannot express under others of its own. `hides_kinds`: the server shows symbolic links, pipes and the like
    as something else, or not at all.
    """

    connect: Callable[[str], Transport]
    processes: bool = True
    folder: Path | None = None
    aliases: bool = False
    hides_kinds: bool = False


class ContractBase:
    """The fixtures of every part of the suite. `place` is the one to override."""

    @pytest.fixture
    def place(self) -> Place:
        raise NotImplementedError("override the fixture `place`: it returns a Place for a fresh, empty directory")

    @pytest.fixture
    def transport(self, place: Place) -> Iterator[Transport]:
        with place.connect("") as transport:
            yield transport


def some_bytes(size: int) -> bytes:
    """The same bytes every time, in no pattern that a misplaced block could hide in."""
    return hashlib.shake_128(str(size).encode()).digest(size)


def fill(transport: Transport, path: str, data: bytes = b"content") -> None:
    """Makes a whole file."""
    with transport.create(path) as sink:
        sink.write(data)
        sink.commit()


def content(transport: Transport, path: str) -> bytes:
    """A whole file."""
    with transport.open_read(path) as source:
        return b"".join(source)


def same(got: bytes, wanted: bytes) -> bool:
    """Whether two contents are the same. An assertion that compares large ones itself explains the difference for hours."""
    return got == wanted


def names(transport: Transport, folder: str = "", pattern: str = "*") -> list[str]:
    """The names of a folder, sorted. A list, so that a name given twice is seen."""
    return sorted(entry.name for entry in transport.scan(folder, pattern))


@contextmanager
def refused(operation: str) -> Iterator[None]:
    """Inside, a step must be refused, by an error that promises that nothing was changed and names the step."""
    with pytest.raises(REFUSALS) as caught:
        yield
    assert caught.value.operation == operation
