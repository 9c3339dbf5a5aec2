"""The handler of a route with any number of destinations: each gets the item once, and a retry goes only where it failed.

An item stays ready at its source until every destination has it. One that does not answer is left alone for a while, and
items that wait for nobody else are not even claimed meanwhile, so that the others get what comes without delay.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from gateway.drop import Drop
from gateway.errors import DeliveryFailed, GatewayError, HandlerFailed, NotYet, UnfitDrop
from gateway.handoff.clock import Backoff, Clock
from gateway.handoff.connection import Connection, Patience
from gateway.handoff.consumer import Delivery
from gateway.handoff.contents import Progress
from gateway.handoff.deliver import ToFolder
from gateway.handoff.driver import Driver
from gateway.service.records import Intent, Records
from gateway.service.routes import Forward, NumberTaken
from gateway.service.transitions import What
from protocol.errors import ProtocolError
from protocol.names import ItemId, Name
from transports.errors import AuthenticationFailed, Denied, HostKeyRejected, TransportError

_FRESH_NUMBERS = 5  # tries, where the counter's number turns out to be in use
_MOST_WAITING = 50_000  # items of which it is remembered whom they wait for
_REFUSED_FOR_GOOD = 900.0  # seconds until a login that was refused is tried again: an account may be locked by trying

Tell = Callable[[What, Delivery, str, str], None]  # what, of which item, at which destination, in words


class Way(Protocol):
    """How items get to one destination, over a connection of its own."""

    def deliver(self, delivery: Delivery, number: int, *, again: bool = False) -> str: ...

    def next_number(self, group: str) -> int: ...

    def rest(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class IntoFolder:
    """The way into a plain folder, under the names that the producers gave their files. A lost connection is made anew."""

    connection: Connection
    progress: Progress

    def deliver(self, delivery: Delivery, number: int, *, again: bool = False) -> str:
        """Delivers, and tells the names. `ToFolder` looks by itself whether a file is there. Raises as `ToFolder`."""
        del number, again
        try:
            ToFolder(self.connection.use(), original_names=True, progress=self.progress)(delivery)
        except TransportError as error:
            raise DeliveryFailed(f"the folder cannot be reached: {error}") from error
        except DeliveryFailed:
            self.connection.lost()  # perhaps that is what was wrong
            raise
        return f"delivered as {delivery.outcome}"

    def next_number(self, group: str) -> int:
        raise HandlerFailed(f"a folder has no counter, also not for {group!r}")

    def rest(self) -> None:
        self.connection.rest()

    def close(self) -> None:
        self.connection.close()


@dataclass(slots=True)
class Destination:
    """One destination, shared by a route's workers: what it is, what it has, and whether it is left alone just now."""

    name: str
    drop: Drop
    records: Records
    counter: bool = False  # numbers are its own counter's, not the source's
    original_names: bool = False  # a plain folder, and no drop
    traced: bool = False  # the item's trace goes on with it
    one_of_several: bool = False  # the others must not wait for it, and what it has is always recorded
    clock: Clock = field(default_factory=Clock)
    backoff: Backoff = field(default_factory=lambda: Backoff(base=1.0, largest=60.0))
    trouble: str = ""
    _failures: int = 0
    _alone_until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, progress: Progress, alive: Callable[[], None]) -> Way:
        """A way there for one worker, which calls `alive` now and then. Raises UnfitDrop and transport errors."""
        if self.original_names:
            connection = self.drop.connection()
            connection.use()
            return IntoFolder(connection, progress)
        producer = self.drop.producer(Patience(attempts=4) if self.one_of_several else None)
        producer.driver.alive = alive
        return Forward(producer, progress, self.traced)

    @property
    def records_always(self) -> bool:
        """Whether what it has is recorded for each item; of a single one the source's own ledger says it."""
        return self.one_of_several or self.counter

    def left_alone(self) -> float:
        """Seconds for which it is left alone; 0: it may be tried."""
        return max(0.0, self._alone_until - self.clock.monotonic())

    def failed(self, error: BaseException) -> None:
        """It could not take an item: leaves it alone, longer each time."""
        with self._lock:
            self._failures += 1
            pause = self.backoff.delay(self._failures, self.clock)
            if isinstance(error, AuthenticationFailed | HostKeyRejected | Denied | UnfitDrop):
                pause = _REFUSED_FOR_GOOD
            self._alone_until = self.clock.monotonic() + pause
            self.trouble = str(error)

    def answered(self) -> None:
        """It has taken an item."""
        with self._lock:
            self._failures, self._alone_until, self.trouble = 0, 0.0, ""


@dataclass(slots=True)
class Waiting:
    """Which items wait for which destinations, shared by a route's workers. Lost with the process, and found out anew."""

    destinations: tuple[Destination, ...]
    _missing: dict[ItemId, frozenset[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, item: ItemId, missing: frozenset[str]) -> None:
        """Who has not got an item yet; nobody: it is forgotten."""
        with self._lock:
            if not missing:
                self._missing.pop(item, None)
                return
            if len(self._missing) >= _MOST_WAITING:
                self._missing.clear()
            self._missing[item] = missing

    def has(self, item: ItemId, name: str) -> bool:
        """Whether this process has seen that a destination has an item for which others still wait."""
        missing = self._missing.get(item)
        return missing is not None and name not in missing

    def worth_a_try(self, driver: Driver, token: Name) -> bool:
        """Whether somebody for whom the item waits may be tried; a consumer's `wanted`."""
        del driver
        missing = self._missing.get(token.item)
        return missing is None or any(d.name in missing and not d.left_alone() for d in self.destinations)

    def away(self) -> tuple[str, ...]:
        """The destinations that are left alone just now."""
        return tuple(d.name for d in self.destinations if d.trouble)


@dataclass(slots=True)
class FanOut:
    """The handler of one worker. Not for two threads. `close` ends its connections."""

    waiting: Waiting
    progress: Progress
    tell: Tell
    alive: Callable[[], None] = lambda: None  # called now and then, also within a long step
    _ways: dict[str, Way] = field(default_factory=dict)

    def __call__(self, delivery: Delivery) -> None:
        destinations = self.waiting.destinations
        done: list[str] = []
        failed: list[tuple[Destination, GatewayError]] = []
        for destination in destinations:
            try:
                done.append(self._to(destination, delivery))
            except (HandlerFailed, DeliveryFailed, NotYet) as error:
                failed.append((destination, error))
                self.tell(What.REFUSED, delivery, destination.name, str(error))
        if len(destinations) > 1:
            self.waiting.note(delivery.item, frozenset(destination.name for destination, _ in failed))
        if failed:
            raise _together(destinations, failed)
        delivery.outcome = "; ".join(done)

    def connect(self) -> None:
        """Opens the way of a route's only destination, so that what is wrong with it is told before the first item.

        Of several the others must not wait for one that is away. Raises UnfitDrop and transport errors.
        """
        if len(self.waiting.destinations) == 1:
            self._way(self.waiting.destinations[0])

    def close(self) -> None:
        """Ends the connections to all destinations."""
        while self._ways:
            self._ways.popitem()[1].close()

    def _way(self, destination: Destination) -> Way:
        if destination.name not in self._ways:
            self._ways[destination.name] = destination.open(self.progress, self.alive)
        return self._ways[destination.name]

    def _to(self, destination: Destination, delivery: Delivery) -> str:
        only = len(self.waiting.destinations) == 1
        if not only and (left := destination.left_alone()):
            raise DeliveryFailed(f"{destination.name} is left alone for {left:.0f} s more: {destination.trouble}")
        try:
            outcome = self._once(destination, delivery)
        except DeliveryFailed as error:
            destination.failed(error.__cause__ or error)
            raise
        destination.answered()
        return outcome if only else f"{destination.name}: {outcome}"

    def _once(self, destination: Destination, delivery: Delivery) -> str:
        """Sees to it that the destination has the item. Its record is written before, and after."""
        records = destination.records
        begun_before = delivery.entry is None or delivery.entry.generation > 1
        intent = records.read(delivery.key) if begun_before or destination.records_always else None
        replayed = delivery.entry.replayed if delivery.entry is not None else ""
        to_set_back = replayed != "" and (intent is None or intent.entry.replayed != replayed)
        if intent is not None and intent.known and not to_set_back:
            if not self.waiting.has(delivery.item, destination.name):  # else it was told, and each retry would tell it anew
                self.tell(What.KNOWN, delivery, destination.name, "has it by an earlier run")
            return "was published before"
        try:
            way = self._way(destination)
        except (TransportError, ProtocolError, UnfitDrop) as error:
            raise DeliveryFailed(f"{destination.name}: {error}") from error
        if to_set_back or (intent is None and destination.records_always):
            number = delivery.item.number if intent is None else intent.item.number
            if intent is None and destination.counter:
                number = way.next_number(delivery.item.group)
            intent = self._intend(records, delivery, number, replayed)
        try:
            outcome = self._publish(destination, way, delivery, intent)
        finally:
            way.rest()
        known = outcome == "was published before"
        self.tell(What.KNOWN if known else What.PUBLISHED, delivery, destination.name, outcome)
        return outcome

    def _intend(self, records: Records, delivery: Delivery, number: int, replayed: str) -> Intent:
        item = ItemId(delivery.item.group, number)
        digest = delivery.contents.payloads[0].digest
        return records.intend(delivery.key, item, delivery.owner, digest, replayed=replayed)

    def _publish(self, destination: Destination, way: Way, delivery: Delivery, intent: Intent | None) -> str:
        again = (delivery.entry is None or delivery.entry.generation > 1) and not (intent is not None and intent.asked_again)
        if intent is None:
            return way.deliver(delivery, delivery.item.number, again=again)
        for attempt in range(1, _FRESH_NUMBERS + 1):
            try:
                outcome = way.deliver(delivery, intent.item.number, again=again)
            except NumberTaken:
                if not destination.counter or attempt == _FRESH_NUMBERS:
                    raise
                number = way.next_number(delivery.item.group)
                intent = destination.records.renumber(delivery.key, intent, ItemId(delivery.item.group, number))
            else:
                destination.records.published(delivery.key, intent)
                return outcome
        raise AssertionError("the loop returns or raises")


def _together(destinations: tuple[Destination, ...], failed: list[tuple[Destination, GatewayError]]) -> GatewayError:
    """One error for all. A single destination's own; of several, an attempt counts only where none of them is just away."""
    if len(destinations) == 1:
        return failed[0][1]
    names = {destination.name for destination, _ in failed}
    have = ", ".join(d.name for d in destinations if d.name not in names) or "none"
    text = f"{have} of {len(destinations)} destinations have it; " + "; ".join(f"{d.name}: {error}" for d, error in failed)
    if all(isinstance(error, HandlerFailed) for _, error in failed):
        return HandlerFailed(text)
    return NotYet(text)
