"""Keeping consumers going: polling, waiting, coming back after an endpoint was away, stopping between two items."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.errors import DeliveryFailed
from gateway.handoff.clock import Backoff, Clock
from gateway.handoff.consumer import Consumer
from protocol.errors import OutcomeUnresolved
from transports.errors import OutcomeUnknown, Unreachable


@dataclass(frozen=True, slots=True)
class Loop:
    """How a consumer is kept going. `trouble` is told of an endpoint that is away; `poll` is in seconds."""

    stop: threading.Event
    clock: Clock
    trouble: Callable[[Exception], None]
    poll: float = 1.0
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.5, largest=60.0))

    def run(self, consumer: Consumer) -> None:
        """Takes items until `stop` is set. An endpoint that is away is tried again, ever more slowly.

        Raises whatever needs a person: a refused login, a drop that is no longer fit, a file system that denies.
        """
        failures = 0
        while not self.stop.is_set():
            try:
                dealt = consumer.sweep_once(self.stop)
            except (Unreachable, OutcomeUnknown, OutcomeUnresolved, DeliveryFailed) as error:
                failures += 1
                self.trouble(error)
                consumer.driver.connection.lost()
                self.stop.wait(self.backoff.delay(failures, self.clock))
                continue
            failures = 0
            if not dealt:
                self.stop.wait(self.poll)

    def run_once(self, consumer: Consumer) -> None:
        """Takes what is there until nothing is left, each item at most once, or until `stop` is set."""
        while not self.stop.is_set() and consumer.sweep_once(self.stop):
            pass


def run_all(jobs: list[Callable[[], None]], stop: threading.Event) -> list[BaseException]:
    """Runs each job in a thread of its own and waits for all. The first that fails stops the others; returns the failures."""
    failures: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(job,), name=f"worker-{n}") for n, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Joined in short turns, so that a second Ctrl-C reaches the main thread.
        while thread.is_alive():
            thread.join(0.2)
    return failures
