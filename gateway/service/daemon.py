"""Runs the routes of a configuration side by side until it is told to stop."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog

from gateway.drop import Drop
from gateway.handoff.clock import Clock
from gateway.handoff.consumer import Consumer, Event, Ordering, Result
from gateway.handoff.contents import ignore_progress
from gateway.handoff.heartbeat import DEFAULT_TTL, Heartbeat
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.memory import MemoryLedger
from gateway.handoff.ordering import Strictness
from gateway.service.loop import Loop, interruptible, run_all
from gateway.service.routes import Forward
from protocol.recovery import Ages

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")


@dataclass(frozen=True, slots=True)
class Route:
    """A route with its two ends opened: what the daemon needs of the configuration. `poll` is in seconds."""

    title: str
    source: Drop
    destination: Drop
    groups: tuple[str, ...]
    ordering: Ordering = Ordering.SHUFFLE
    workers: int = 1
    max_attempts: int = 5
    poll: float = 1.0
    lease_ttl: float = DEFAULT_TTL
    strictness: Strictness = field(default_factory=Strictness)
    ledger: Ledger = field(default_factory=MemoryLedger)
    ages: Ages = field(default_factory=lambda: Ages(before=None))


@dataclass(slots=True)
class Daemon:
    """All routes of one process. `stop` ends it between two items, `interrupted` gives back those at hand: no claim is left."""

    routes: list[Route]
    stop: threading.Event
    clock: Clock = field(default_factory=Clock)
    interrupted: threading.Event = field(default_factory=threading.Event)
    failed: bool = False  # whether an item was not forwarded, and not just left to another worker

    def run(self, *, once: bool = False) -> None:
        """Connects every route, then runs them until `stop`; with `once`, until their sources are empty.

        Raises the first failure that needs a person, after all routes have stopped.
        """
        with contextlib.ExitStack() as stack:
            jobs: list[Callable[[], None]] = []
            for route in self.routes:
                stack.callback(route.ledger.close)
                heartbeat = stack.enter_context(route.source.heartbeat(route.lease_ttl))
                jobs.extend(self._job(route, heartbeat, stack, once) for _ in range(route.workers))
            log.info("started", routes=[route.title for route in self.routes])
            failures = run_all(jobs, self.stop, self.interrupted)
        log.info("stopped")
        if failures:
            raise failures[0]

    def _job(self, route: Route, heartbeat: Heartbeat, stack: contextlib.ExitStack, once: bool) -> Callable[[], None]:
        groups = dict.fromkeys((*route.destination.groups, *route.groups))
        producer = stack.enter_context(replace(route.destination, groups=tuple(groups)).producer())
        consumer: Consumer = stack.enter_context(
            route.source.consumer(
                route.groups,
                Forward(producer, interruptible(ignore_progress, self.interrupted)),
                lambda event: self._report(route, event),
                ledger=route.ledger,
                heartbeat=heartbeat,
                notice=lambda text: log.warning("notice", route=route.title, text=text),
                ordering=route.ordering,
                strictness=route.strictness,
                ages=route.ages,
                max_attempts=route.max_attempts,
                once=once,
            )
        )

        def trouble(error: Exception) -> None:
            log.warning("endpoint away, trying again", route=route.title, error=str(error))

        loop = Loop(self.stop, self.clock, trouble, route.poll)
        return lambda: (loop.run_once if once else loop.run)(consumer)

    def _report(self, route: Route, event: Event) -> None:
        fields: dict[str, object] = {
            "route": route.title,
            "group": event.item.group,
            "sequence": route.source.rules.grammar.digits(event.item.number),
            "attempt": event.attempt,
        }
        if event.contents is not None:
            fields["bytes"] = sum(payload.size or 0 for payload in event.contents.payloads)
        if event.left:
            fields["left"] = list(event.left)
        if event.result in (Result.PROCESSED, Result.ACKNOWLEDGED):
            log.info("forwarded", **fields, outcome=event.outcome)
        else:
            self.failed = self.failed or event.result is not Result.LOST
            log.warning(event.result.value, **fields, error=event.error)
