"""Runs one route until it is told to stop, whatever happens to its endpoints: no route's trouble is another's.

starting ──> running <──> paused          outside the time windows
   │  ^         │
   v  │         v
  away <────────┘                         an endpoint does not answer: tried again, ever more slowly
 failed                                   needs a person: a refused login, an unfit drop. Tried again rarely, so that no
                                          account is locked; at once after a reload that changes the route
"""

import contextlib
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

import structlog

from gateway.drop import Drop
from gateway.errors import ConfigurationError, GatewayError, UnfitDrop
from gateway.handoff.clock import Backoff, Clock
from gateway.handoff.consumer import Consumer, Delivery, Event, Ordering, Result
from gateway.handoff.driver import Driver
from gateway.handoff.heartbeat import DEFAULT_TTL, Heartbeat
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.errors import LedgerUnavailable
from gateway.handoff.ledger.memory import MemoryLedger
from gateway.handoff.ordering import Strictness
from gateway.handoff.throttle import Throttle
from gateway.service.answers import Answers
from gateway.service.board import Board, RouteState, RouteView
from gateway.service.fanout import Destination, FanOut, Waiting
from gateway.service.filters import Filter
from gateway.service.loop import Loop, run_all
from gateway.service.receipts import Carrier
from gateway.service.records import Records
from gateway.service.telling import Progress, Teller
from gateway.service.tracing import NO_TRACING, ItemSpan, Tracing, traceparent_of
from gateway.service.transitions import Hub, What
from gateway.times import Window, is_open, next_opening
from protocol.errors import ProtocolError
from protocol.names import Name
from protocol.recovery import Ages
from transports.errors import (
    AuthenticationFailed,
    Denied,
    HostKeyRejected,
    NotFound,
    ShareNotFound,
    TransportError,
    UnsafePath,
    Unsupported,
)

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

_PERSON_NEEDED = (
    AuthenticationFailed,
    ConfigurationError,
    Denied,
    HostKeyRejected,
    UnfitDrop,
    UnsafePath,
    Unsupported,
)
_RARELY = 900.0  # seconds until a route that needs a person is tried again
_AWAY = Backoff(base=0.5, largest=60.0)


@dataclass(frozen=True, slots=True)
class End:
    """A destination of a route: its name in the configuration, the drop, and the ledger that records what it has."""

    name: str
    drop: Drop
    records: Callable[[], Ledger] = MemoryLedger


@dataclass(frozen=True, slots=True)
class Route:
    """A route as it is configured, with nothing open yet. `poll` and `lease_ttl` are in seconds, `bandwidth` in bytes a second.

    `settings` is what it was made of: a route whose settings are the same after a reload goes on undisturbed.
    """

    title: str
    source: Drop
    ends: tuple[End, ...]
    groups: tuple[str, ...]
    source_name: str = "source"
    ordering: Ordering = Ordering.SHUFFLE
    workers: int = 1
    max_attempts: int = 5
    poll: float = 1.0
    lease_ttl: float = DEFAULT_TTL
    strictness: Strictness = field(default_factory=Strictness)
    ledger: Callable[[], Ledger] = MemoryLedger
    book: Callable[[], Ledger] = MemoryLedger  # which receipts were carried
    ages: Ages = field(default_factory=lambda: Ages(before=None))
    suffixes: frozenset[str] = frozenset()
    meta: Mapping[str, object] = field(default_factory=dict)
    counter: bool = False
    original_names: bool = False
    bandwidth: float | None = None
    windows: tuple[Window, ...] = ()
    timezone: str | None = None
    settings: object = None
    tracing: Tracing = NO_TRACING

    def view(self) -> RouteView:
        """The route as the board shows it."""
        ends = tuple(end.name for end in self.ends)
        return RouteView(self.title, self.source_name, ends, self.groups, ordering=self.ordering.value)

    def sends_receipts(self, end: End) -> bool:
        """Whether what becomes of items at a destination is carried back to the source."""
        rules = end.drop.rules
        return not self.original_names and any(rules.writes_receipt(group) for group in self.groups)

    def opens_in(self) -> float:
        """Seconds until one of its time windows opens; 0 inside one."""
        if not self.windows:
            return 0.0
        now = datetime.now(ZoneInfo(self.timezone)) if self.timezone else datetime.now().astimezone()
        if is_open(self.windows, now):
            return 0.0
        return max(0.1, (next_opening(self.windows, now) - now).total_seconds())


class Runner:
    """One route, running in threads of its own: one that supervises, and one for each worker."""

    def __init__(self, route: Route, board: Board, hub: Hub, clock: Clock, *, once: bool = False) -> None:
        self.route = route
        self.failure: BaseException | None = None  # what needs a person, while it does
        self.item_failed = False  # whether an item was not forwarded, and not just left to another worker
        self._board = board
        self._clock = clock
        self._once = once
        self._teller = Teller(route.title, route.source_name, route.source.rules, hub, clock)
        self._stop = threading.Event()
        self._round = threading.Event()  # ends the present attempt to run, and nothing else
        self._interrupted = threading.Event()
        self._up = False  # whether it has ever run
        self._well = False  # whether it has since its last failure
        self._thread = threading.Thread(target=self._supervise, name=f"route {route.title}", daemon=True)
        board.add_route(route.view())

    def start(self) -> None:
        """Begins, in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Asks it to end between two items."""
        self._stop.set()
        self._round.set()

    def interrupt(self) -> None:
        """Asks it to give back the items at hand, and end."""
        self._interrupted.set()
        self.stop()

    def join(self, timeout: float | None = None) -> bool:
        """Waits for its end; False where it has not come within `timeout` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def ended(self) -> bool:
        """Whether it runs no longer."""
        return not self._thread.is_alive()

    # In the supervising thread.

    def _supervise(self) -> None:
        tries = 0
        while not self._stop.is_set():
            self._round = threading.Event()
            if self._stop.is_set():
                break
            try:
                self._run()
            except Exception as error:  # noqa: BLE001 - told below, each kind in its way
                if self._once:
                    self.failure = error
                    break
                tries = 1 if self._well else tries + 1
                self._well = False
                self._stop.wait(self._tell_of(error, tries))
            else:
                break
        self._set(RouteState.STOPPED)

    def _tell_of(self, error: Exception, tries: int) -> float:
        """Shows what is wrong, and says for how many seconds the route waits before it tries again."""
        for number in range(self.route.workers):
            self._board.beat(self.route.title, str(number))  # their threads are gone, and come back by the same names
        if self._is_away(error):
            self._trouble(error)
            return _AWAY.delay(tries, self._clock)
        known = isinstance(error, GatewayError | TransportError | ProtocolError)
        text = str(error) if known else f"a fault of dropgate itself, please report it: {type(error).__name__}: {error}"
        details = {} if known else {"trace": "".join(traceback.format_exception(error))}
        self._set(RouteState.FAILED, text)
        self.failure = error
        log.error("route needs a person", route=self.route.title, error=text, tried_again_in=_RARELY, **details)
        return _RARELY

    def _is_away(self, error: Exception) -> bool:
        if isinstance(error, NotFound | ShareNotFound):
            return self._up  # a disk that was unmounted comes back; what never was there is a wrong setting
        return isinstance(error, TransportError | LedgerUnavailable) and not isinstance(error, _PERSON_NEEDED)

    def _run(self) -> None:
        """Opens all that the route needs, and runs its workers until it is told to stop. Raises the first failure."""
        with contextlib.ExitStack() as stack:
            ledger = stack.enter_context(self.route.ledger())
            heartbeat = stack.enter_context(self.route.source.heartbeat(self.route.lease_ttl))
            destinations = tuple(self._destination(end, stack) for end in self.route.ends)
            waiting = Waiting(destinations)
            throttle = Throttle(self.route.bandwidth, self._clock) if self.route.bandwidth else None
            jobs = [self._job(str(n), ledger, heartbeat, waiting, throttle, stack) for n in range(self.route.workers)]
            self.failure, self._up, self._well = None, True, True
            self._set(RouteState.RUNNING)
            carrier = self._carrier(ledger, destinations, stack)
            if carrier is not None and not self._once:
                carrier.start()
            failures = run_all(jobs, self._round, self._interrupted)
            if carrier is not None and self._once:
                carrier.round()
        if failures and not isinstance(failures[0], KeyboardInterrupt):
            raise failures[0]

    def _destination(self, end: End, stack: contextlib.ExitStack) -> Destination:
        drop = replace(end.drop, groups=tuple(dict.fromkeys((*end.drop.groups, *self.route.groups))))
        ledger = stack.enter_context(end.records())
        return Destination(
            end.name,
            drop,
            Records(ledger, self._clock),
            counter=self.route.counter,
            original_names=self.route.original_names,
            one_of_several=len(self.route.ends) > 1,
            traced=self.route.tracing is not NO_TRACING,
            clock=self._clock,
        )

    def _carrier(self, ledger: Ledger, destinations: tuple[Destination, ...], stack: contextlib.ExitStack) -> Carrier | None:
        """What brings receipts back to the source; None where no destination sends any. It ends with the stack."""
        route = self.route
        names = [end.name for end in route.ends if route.sends_receipts(end)]
        if not names:
            return None
        book = stack.enter_context(route.book())
        sending = tuple(
            Answers(one.name, one.drop, route.groups, book, one.records if one.counter else None)
            for one in destinations
            if one.name in names
        )
        others = tuple(end.name for end in route.ends if end.name not in names)
        carrier = Carrier(
            route.source, sending, others, route.groups, ledger, self._teller, self._clock, route.poll, route.opens_in
        )
        stack.callback(carrier.close)
        return carrier

    def _job(
        self,
        name: str,
        ledger: Ledger,
        heartbeat: Heartbeat,
        waiting: Waiting,
        throttle: Throttle | None,
        stack: contextlib.ExitStack,
    ) -> Callable[[], None]:
        route = self.route
        beat = partial(self._board.beat, route.title, name)
        progress = Progress(self._teller, self._board, self._interrupted, throttle, len(route.ends), beat)
        span: list[ItemSpan] = []

        def tell(what: What, delivery: Delivery, destination: str, text: str) -> None:
            self._teller.step(what, delivery, destination, text)
            for one in span:
                _trace(one, what, destination, text)

        fan_out = FanOut(waiting, progress.advance, tell, beat)
        stack.callback(fan_out.close)
        fan_out.connect()
        wanted = Filter(route.source.rules, route.suffixes, route.meta) if route.suffixes or route.meta else None

        def handle(delivery: Delivery) -> None:
            progress.begin(delivery)
            try:
                with self._traced(delivery) as one:
                    span[:] = [one]
                    fan_out(delivery)
            finally:
                span.clear()
                progress.end()
                self._board.set_away(route.title, waiting.away())

        def is_wanted(driver: Driver, token: Name) -> bool:
            return (wanted is None or wanted(driver, token)) and waiting.worth_a_try(driver, token)

        consumer: Consumer = stack.enter_context(
            route.source.consumer(
                route.groups,
                handle,
                self._report,
                ledger=ledger,
                heartbeat=heartbeat,
                notice=lambda text: log.warning("notice", route=route.title, text=text),
                ordering=route.ordering,
                strictness=route.strictness,
                ages=route.ages,
                max_attempts=route.max_attempts,
                once=self._once,
                wanted=is_wanted,
            )
        )
        consumer.driver.alive = beat

        def trouble(error: Exception) -> None:
            beat()
            self._trouble(error)

        def turn(closed: bool) -> None:
            beat()
            self._set(RouteState.PAUSED if closed else RouteState.RUNNING)

        loop = Loop(self._round, self._clock, trouble, route.poll, opens_in=route.opens_in, turn=turn)
        return lambda: (loop.run_once if self._once else loop.run)(consumer)

    # In a worker's thread.

    def _traced(self, delivery: Delivery) -> contextlib.AbstractContextManager[ItemSpan]:
        manifest = delivery.contents.manifest
        meta = manifest.meta if manifest is not None else {}
        item = f"{delivery.item.group}{delivery.rules.grammar.digits(delivery.item.number)}"
        created = manifest.created if manifest is not None else ""
        return self.route.tracing.item(self.route.title, item, delivery.key, traceparent_of(meta), created)

    def _trouble(self, error: Exception) -> None:
        self._set(RouteState.AWAY, str(error))
        log.warning("endpoint away, trying again", route=self.route.title, error=str(error))

    def _set(self, state: RouteState, trouble: str = "") -> None:
        self._board.set_state(self.route.title, state, trouble)

    def _report(self, event: Event) -> None:
        fields: dict[str, object] = {
            "route": self.route.title,
            "group": event.item.group,
            "sequence": self.route.source.rules.grammar.digits(event.item.number),
            "attempt": event.attempt,
        }
        if event.contents is not None:
            fields["bytes"] = sum(payload.size or 0 for payload in event.contents.payloads)
        if event.left:
            fields["left"] = list(event.left)
        if event.result in (Result.PROCESSED, Result.ACKNOWLEDGED):
            log.info("forwarded", **fields, outcome=event.outcome)
        else:
            self.item_failed = self.item_failed or event.result is not Result.LOST
            log.warning(event.result.value, **fields, error=event.error)
        self._teller.event(event)


def _trace(span: ItemSpan, what: What, destination: str, text: str) -> None:
    match what:
        case What.PUBLISHED:
            span.published(destination)
        case What.KNOWN:
            span.known(destination)
        case What.REFUSED:
            span.refused(destination, text)
