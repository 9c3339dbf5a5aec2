"""Keeping consumers going: polling, waiting, coming back after an endpoint was away, stopping between two items."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.errors import DeliveryFailed
from gateway.handoff.clock import Backoff, Clock
from gateway.handoff.consumer import Consumer
from gateway.handoff.contents import Progress
from gateway.handoff.ledger.errors import LedgerUnavailable
from protocol.errors import OutcomeUnresolved
from transports.errors import OutcomeUnknown, TransportError, Unreachable

_LONGEST_NAP = 0.5  # seconds: how late a stop may be noticed while nothing happens
_LONGEST_PAUSE = 5.0  # seconds: a clock that is set is noticed as soon
_QUICKER = 8  # after something came, the first looks are so much closer together than `poll`


def _now() -> float:
    """It is open at any time."""
    return 0.0


def _ignore(closed: bool, /) -> None:
    """For callers that are not interested."""


@dataclass(frozen=True, slots=True)
class Loop:
    """How a consumer is kept going. `trouble` is told of an endpoint that is away; `poll` is the longest time between two looks
    at an idle drop, in seconds; after something has come they are closer together. `opens_in` says for how many seconds no
    item may be taken yet. `turn` is called each time round, with whether that is so."""

    stop: threading.Event
    clock: Clock
    trouble: Callable[[Exception], None]
    poll: float = 1.0
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.5, largest=60.0))
    opens_in: Callable[[], float] = _now
    turn: Callable[[bool], None] = _ignore

    def is_set(self) -> bool:
        """Whether to take no further item: told to stop, or outside the time windows."""
        return self.stop.is_set() or self.opens_in() > 0

    def run(self, consumer: Consumer) -> None:
        """Takes items until `stop` is set. An endpoint that is away is tried again, ever more slowly.

        Raises whatever needs a person: a refused login, a drop that is no longer fit, a file system that denies.
        """
        failures = idle = 0
        while not self.stop.is_set():
            closed = self.opens_in()
            if closed > 0:
                self.turn(True)
                self.stop.wait(min(closed, _LONGEST_PAUSE))
                continue
            try:
                dealt = consumer.sweep_once(self)
                self.turn(False)
            except (Unreachable, OutcomeUnknown, OutcomeUnresolved, DeliveryFailed, LedgerUnavailable) as error:
                failures += 1
                self.trouble(error)
                consumer.driver.connection.lost()
                self.stop.wait(self.backoff.delay(failures, self.clock))
                continue
            failures = 0
            idle = 0 if dealt else idle + 1
            consumer.driver.connection.rest()
            if idle:
                self._wait(consumer, min(self.poll, self.poll / _QUICKER * 2.0 ** min(idle - 1, 10)))

    def _wait(self, consumer: Consumer, seconds: float) -> None:
        """Until the next look, or until the drop may have changed. A stop is noticed soon in either case."""
        end = self.clock.monotonic() + seconds
        while not self.stop.is_set() and (left := end - self.clock.monotonic()) > 0:
            nap_end = self.clock.monotonic() + min(left, _LONGEST_NAP)
            # The next look meets the same trouble, and tells of it.
            with contextlib.suppress(TransportError):
                if consumer.wait(min(left, _LONGEST_NAP)):
                    return
            self.stop.wait(max(0.0, nap_end - self.clock.monotonic()))

    def run_once(self, consumer: Consumer) -> None:
        """Takes what is there until nothing is left, each item at most once, or until `stop` is set."""
        while not self.stop.is_set() and consumer.sweep_once(self.stop):
            pass
        # What is done but for an open file, or was seen half put away, is not left behind without need.
        end = self.clock.monotonic() + consumer.rules.busy_patience
        while (consumer.holds() or consumer.would_heal()) and not self.stop.is_set() and self.clock.monotonic() < end:
            self.stop.wait(_LONGEST_NAP)
            consumer.sweep_once(self.stop)


def run_all(jobs: list[Callable[[], None]], stop: threading.Event, interrupted: threading.Event) -> list[BaseException]:
    """Runs each job in a thread of its own and waits for all. The first that fails stops the others; returns the failures.

    A KeyboardInterrupt in the waiting thread sets `stop` and `interrupted`, which jobs look at (`interruptible`), and the
    waiting goes on; a second one is passed on, and jobs that have not ended by then are left behind.
    """
    failures: list[BaseException] = []
    ended: list[str] = []
    one_ended = threading.Event()

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
            failures.append(error)
            stop.set()
        finally:
            ended.append(threading.current_thread().name)
            one_ended.set()

    # As daemons they cannot keep a process that somebody wants gone: one may wait for a server that says nothing.
    threads = [threading.Thread(target=guarded, args=(job,), name=f"worker-{n}", daemon=True) for n, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    while len(ended) < len(threads):
        try:
            # Not by `join`: interrupted, it takes a thread that runs for one that has ended (Python before 3.13). And in short
            # turns, so that Ctrl-C reaches this thread.
            one_ended.wait(0.2)
            one_ended.clear()
        except KeyboardInterrupt:
            if interrupted.is_set():
                raise
            stop.set()
            interrupted.set()
    return failures


def interruptible(progress: Progress, interrupted: threading.Event) -> Progress:
    """A progress callback that ends whatever it is told of by KeyboardInterrupt, once `interrupted` is set."""

    def advance(count: int) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        progress(count)

    return advance
