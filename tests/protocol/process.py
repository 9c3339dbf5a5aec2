"""Processes: procedures on their way through a directory, which faults can befall and which can be killed at any step."""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from protocol.operations import Claim, Delete, MakeFolder, Now, Operation, Outcome, Pause, Procedure, Publish
from tests.protocol.directory import Directory

T = TypeVar("T")


class Disconnected(Exception):
    """The connection died, and this call is known to have changed nothing, or at most to have left an unfinished file."""


class Fault(Enum):
    """What can befall one operation. Of reads and stores, a lost reply is a lost connection."""

    LOST_BEFORE = "the request was lost"
    LOST_AFTER = "the reply was lost"
    LATE = "the reply was lost, and the server carries the request out some time later"
    CUT = "the server died between link and unlink"
    BUSY = "somebody has the file open"
    DOWN = "no connection could be had"


def touches(operation: Operation[Any]) -> bool:
    """Whether an operation reaches the directory; the clock and a pause do not."""
    return not isinstance(operation, Now | Pause)


@dataclass(slots=True)
class Process(Generic[T]):
    """One procedure on its way through a directory. `faults` and `before` are by the number of the operation, from 1."""

    directory: Directory
    procedure: Procedure[T]
    faults: Callable[[int, Operation[Any]], Fault | None] = lambda _number, _operation: None
    before: Callable[[int, Operation[Any]], object] = lambda _number, _operation: None
    alive: bool = True
    done: bool = False
    error: BaseException | None = None
    number: int = 0  # of operations that were begun and reach the directory
    _result: T | None = None
    operation: Operation[Any] | None = None
    _work: Generator[None, None, Any] | None = field(default=None)

    @property
    def result(self) -> T:
        if self.error is not None:
            raise self.error
        assert self.done, "the procedure has not come to its end"
        return self._result  # type: ignore[return-value] # None where that is its result

    def step(self) -> bool:
        """One visible step; False once the procedure has ended."""
        if self.operation is None and self._work is None and self.alive:
            self._advance(None, None)
        if not self.alive or self.operation is None:
            return False
        if self._work is None:
            self._begin(self.operation)
        assert self._work is not None
        try:
            next(self._work)
        except StopIteration as stop:
            self._advance(stop.value, None)
        except Exception as error:  # noqa: BLE001 - thrown into the procedure, as a driver does
            self._advance(None, error)
        return self.alive

    def run(self) -> T:
        """To the end, alone."""
        while self.step():
            pass
        return self.result

    def kill(self) -> None:
        """Ends the procedure here, as when its host loses power: what was begun stays as it is."""
        self.alive = False
        self._work = None
        self.procedure.close()

    def interrupt(self) -> None:
        """Throws what Ctrl-C throws into the operation that is due; the procedure may then clean up, step by step."""
        self._advance(None, KeyboardInterrupt())

    def _begin(self, operation: Operation[Any]) -> None:
        fault = None
        if touches(operation):
            self.number += 1
            self.before(self.number, operation)
            fault = self.faults(self.number, operation)
        changes = isinstance(operation, Publish | Claim | Delete | MakeFolder)
        self._work = self.directory.perform(operation) if fault is None else self._faulty(operation, fault, changes=changes)

    def _faulty(self, operation: Operation[Any], fault: Fault, *, changes: bool) -> Generator[None, None, Any]:
        if fault is Fault.BUSY and changes:
            return Outcome.BUSY
        if fault is Fault.DOWN or (not changes and fault is Fault.LOST_BEFORE):
            raise Disconnected(str(fault.value))
        if not changes:
            yield from self.directory.perform(operation)
            raise Disconnected(str(fault.value))
        if fault is Fault.LOST_AFTER:
            self.directory.change(operation)
        elif fault is Fault.LATE:
            self.directory.late.append(operation)
        elif fault is Fault.CUT:
            self.directory.cut(operation)
        return Outcome.UNKNOWN

    def _advance(self, value: Any, error: BaseException | None) -> None:
        self._work = None
        try:
            self.operation = self.procedure.send(value) if error is None else self.procedure.throw(error)
        except StopIteration as stop:
            self.alive, self.done, self._result = False, True, stop.value
        except BaseException as failure:  # noqa: BLE001 - it is the procedure's result
            self.alive, self.error = False, failure


def run(
    directory: Directory,
    procedure: Procedure[T],
    faults: Mapping[int, Fault] | None = None,
    before: Mapping[int, Callable[[], object]] | None = None,
) -> T:
    """A procedure's result, with faults and a rival's deeds at given operations."""
    planned, deeds = faults or {}, before or {}
    process = Process(
        directory,
        procedure,
        faults=lambda number, _: planned.get(number),
        before=lambda number, _: deeds[number]() if number in deeds else None,
    )
    return process.run()


def cut_everywhere(make: Callable[[], tuple[Directory, Procedure[Any]]]) -> Iterator[Directory]:
    """The directory as a procedure leaves it that is killed before its first visible step, and after each but the last."""
    steps = 0
    while True:
        directory, procedure = make()
        process = Process(directory, procedure)
        if not all([process.step() for _ in range(steps)]):
            return
        process.kill()
        yield directory
        steps += 1
