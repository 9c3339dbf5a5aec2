"""A driver that kills its own process before one of its operations, or inside one: every step is a place to die at."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gateway.handoff.driver import Driver
from protocol.operations import Content, Now, Operation, Pause, Store

_UNCOUNTED = (Now, Pause)  # nothing happens between them and the next


def die() -> None:
    """What `kill -9` does to this process, at this very point."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Deadly:
    """Content that kills whoever stores it, between its first byte and its end."""

    below: Content | bytes

    def chunks(self) -> Iterator[bytes]:
        data = self.below if isinstance(self.below, bytes) else b"".join(self.below.chunks())
        yield data[: len(data) // 2]
        die()


@dataclass
class Steps:
    """Counts operations over all procedures of one process, and dies at number `at`: before it, or `inside` its writing."""

    at: int = 0  # 0: never
    inside: bool = False
    taken: int = 0
    names: list[str] = field(default_factory=list)

    def about_to(self, operation: Operation[Any]) -> Operation[Any]:
        """The operation to be carried out in its place; may not return."""
        if isinstance(operation, _UNCOUNTED):
            return operation
        self.taken += 1
        self.names.append(type(operation).__name__)
        if self.taken == self.at:
            if not self.inside:
                die()
            if isinstance(operation, Store):
                return Store(operation.path, Deadly(operation.content), operation.algorithm)
        if self.taken == self.at + 1 and self.inside:
            die()
        return operation


class MortalDriver(Driver):
    """A driver whose process dies at one of its steps."""

    steps: Steps

    def _carry_out(self, operation: Operation[Any]) -> Any:
        return super()._carry_out(self.steps.about_to(operation))

    @classmethod
    def instead_of(cls, driver: Driver, steps: Steps) -> "MortalDriver":
        """Takes over another driver's connection and ledger."""
        mortal = cls(driver.connection, driver.clock, ledger=driver.ledger, handler=driver.handler)
        mortal.steps = steps
        return mortal


__all__ = ["Deadly", "MortalDriver", "Steps", "die"]
