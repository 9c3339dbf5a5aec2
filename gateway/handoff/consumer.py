"""The consumer: claims items, hands them to a handler, and puts them away (PROTOCOL section 7)."""

import platform
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Protocol, Self

from gateway.errors import GatewayError, HandlerFailed, SourceFailed
from gateway.handoff.clock import Backoff
from gateway.handoff.contents import check_payload
from gateway.handoff.driver import Driver, read_source
from protocol.contents import Contents, Payload
from protocol.errors import (
    Anomaly,
    ClaimLost,
    IntegrityError,
    InvalidChecksumFile,
    InvalidManifest,
    SignatureRejected,
    StillBusy,
)
from protocol.hashes import new_hasher
from protocol.manifest import derived_key
from protocol.names import ItemId, Name
from protocol.operations import Outcome, Receiver
from protocol.procedures.claim import claim, prepare_owner, read_contents
from protocol.procedures.finish import PutAway, Reason, complete, fail, payload_names, release
from protocol.procedures.look import find_item, ready_tokens, snapshot
from protocol.rules import Rules
from protocol.states import State
from transports.errors import Busy, ChangedWhileReading, TransportError

# What makes an item an error image at once: trying again reads the same bytes.
_UNFIT = (InvalidManifest, InvalidChecksumFile, SignatureRejected, IntegrityError)


class Ordering(Enum):
    """In which order a group's items are taken. STRICT takes one at a time, and none before a lower number is settled."""

    SHUFFLE = "shuffle"
    FIFO = "fifo"
    STRICT = "strict"


class Result(Enum):
    """What became of one item in one go."""

    PROCESSED = "processed"
    FAILED = "failed"  # an error image now
    RETURNED = "returned"  # back to ready, to be tried again
    LOST = "lost"  # the claim was taken away meanwhile
    UNSETTLED = "unsettled"  # processed, and still under its claim name: a file of it is held open


@dataclass(frozen=True, slots=True)
class Event:
    """One item's outcome. `left` are paths that are still to be put away; `error` says why it was not processed."""

    result: Result
    item: ItemId
    contents: Contents | None
    attempt: int
    error: str = ""
    left: tuple[str, ...] = ()
    outcome: str = ""  # what the handler says it did, for people


@dataclass(slots=True)
class Delivery:
    """A claimed item on its way to its handler."""

    item: ItemId
    contents: Contents
    attempt: int
    driver: Driver
    rules: Rules
    outcome: str = ""

    @property
    def key(self) -> str:
        """The idempotency key: the manifest's, or what stands for it where the drop has none (section 3)."""
        if self.contents.manifest is not None:
            return self.contents.manifest.key
        hashes = [f"{p.algorithm}:{p.digest}" for p in self.contents.payloads if p.digest]
        return derived_key(self.item, self.rules.grammar, hashes)

    def fetch(self, payload: Payload, into: Receiver) -> None:
        """Reads one payload, once, into a receiver, and verifies it. Raises IntegrityError, and transport errors.

        The receiver must not let anybody use what it got before this has returned.
        """
        hasher = new_hasher(payload.algorithm)
        size = 0
        with read_source(self.driver.connection, payload.path) as source:
            for data in source:
                hasher.update(data)
                size += len(data)
                into.write(data)
        check_payload(payload, size, hasher.hexdigest())


class Handler(Protocol):
    """Processes a delivery. Raises HandlerFailed for an attempt that did not succeed, DeliveryFailed where its own target is
    at fault, IntegrityError for an item whose bytes are wrong."""

    def __call__(self, delivery: Delivery) -> None: ...


@dataclass(slots=True)
class Consumer:
    """Takes items of some groups from one drop. For one thread, as its driver is.

    Attempts are counted per run of this process. Whatever stops it between a claim and its end leaves a claim name, which
    `status` shows with its owner.
    """

    driver: Driver
    rules: Rules
    owner: str
    groups: tuple[str, ...]
    handler: Handler
    report: Callable[[Event], None]
    ordering: Ordering = Ordering.SHUFFLE
    max_attempts: int = 5
    backoff: Backoff = field(default_factory=lambda: Backoff(base=1.0, largest=60.0))
    once: bool = False  # no item is tried twice by this consumer
    _tried: set[ItemId] = field(default_factory=set)
    _attempts: dict[ItemId, int] = field(default_factory=dict)
    _not_before: dict[ItemId, float] = field(default_factory=dict)
    _unsettled: dict[Name, tuple[Delivery, tuple[Name, ...]]] = field(default_factory=dict)
    _prepared: bool = False

    def sweep_once(self, stop: threading.Event) -> int:
        """Takes whatever can be taken now, until nothing is left or `stop` is set; the number of items it dealt with.

        Raises transport errors of the drop itself, and DeliveryFailed where the handler's own target is at fault, as
        the next item would meet the same; the claim was given back before.
        """
        if not self._prepared:
            self.driver.run(prepare_owner(self.rules, self.owner))
            self._prepared = True
        self._settle()
        dealt = 0
        for group in self.groups:
            for token in self._candidates(group):
                if stop.is_set():
                    return dealt
                taken = self._take(token)
                dealt += taken
                if not taken and self.ordering is Ordering.STRICT:
                    break  # the next may only come after this one
        return dealt

    def close(self) -> None:
        """Ends the connection."""
        self.driver.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _candidates(self, group: str) -> Iterator[Name]:
        if self.ordering is Ordering.STRICT:
            yield from self._in_strict_order(group)
            return
        tokens = self.driver.run(ready_tokens(self.rules, group))
        self._forget(group, tokens)
        tokens = [token for token in tokens if self._is_due(token.item)]
        if self.ordering is Ordering.SHUFFLE:
            # Each worker in its own order, so that a crowd does not fight for the head of the queue.
            self.driver.clock.chance.shuffle(tokens)
        yield from tokens

    def _in_strict_order(self, group: str) -> Iterator[Name]:
        """The lowest ready item, again and again, as long as no lower one is under way."""
        while (token := self._lowest(group)) is not None:
            if not self._is_due(token.item):
                return
            yield token

    def _is_due(self, item: ItemId) -> bool:
        return item not in self._tried and self._not_before.get(item, 0) <= self.driver.clock.monotonic()

    def _lowest(self, group: str) -> Name | None:
        for view in self.driver.run(snapshot(self.rules)).items.values():
            if view.item.group != group:
                continue
            if view.state is State.CLAIMED:
                return None
            if view.state is State.READY:
                return next((n for n, _ in view.files if self.rules.is_token(n.kind) and n.state is State.READY), None)
        return None

    def _forget(self, group: str, tokens: list[Name]) -> None:
        """Drops the memory of items that are no longer ready: another worker settled them, or a person did."""
        ready = {token.item for token in tokens}
        for known in (self._attempts, self._not_before):
            for item in [i for i in known if i.group == group and i not in ready]:
                del known[item]

    def _take(self, token: Name) -> int:
        claimed = self.driver.run(claim(self.rules, token, self.owner))
        if isinstance(claimed, Outcome):
            return 0  # gone: another worker won. Busy: somebody has it open; it is still there next time
        if self.ordering is Ordering.STRICT and self._overtaken(claimed):
            self.driver.run(release(self.rules, claimed))
            return 0
        if self.once:
            self._tried.add(claimed.item)
        self._process(claimed)
        return 1

    def _overtaken(self, claimed: Name) -> bool:
        """Whether a lower number is under way: two workers may have looked at the same moment and claimed neighbours."""
        views = self.driver.run(snapshot(self.rules)).items.values()
        under_way = (State.READY, State.CLAIMED)
        return any(v.item.group == claimed.item.group and v.item < claimed.item and v.state in under_way for v in views)

    def _process(self, claimed: Name) -> None:
        item = claimed.item
        attempt = self._attempts.get(item, 0) + 1
        contents: Contents | None = None
        try:
            contents = self.driver.run(read_contents(self.rules, claimed))
            delivery = Delivery(item, contents, attempt, self.driver, self.rules)
            self.handler(delivery)
        except ClaimLost as error:
            self._tell(Result.LOST, item, contents, attempt, error)
        except (*_UNFIT, ChangedWhileReading) as error:
            self._fail(claimed, contents, attempt, error)
        except HandlerFailed as error:
            self._attempts[item] = attempt
            if attempt >= self.max_attempts:
                self._fail(claimed, contents, attempt, error)
            else:
                self._return(claimed, contents, attempt, error)
        except (GatewayError, TransportError, Busy, Anomaly, OSError) as error:
            # Not the item's fault: it goes back, and the attempt does not count against it.
            self._return(claimed, contents, attempt, error)
            if isinstance(error, SourceFailed) and isinstance(error.__cause__, TransportError):
                raise error.__cause__ from error
            if not isinstance(error, Busy):
                raise
        except BaseException as error:
            self._give_back(claimed, error)
            raise
        else:
            self._complete(claimed, delivery, tuple(payload.name for payload in contents.payloads))

    def _complete(self, claimed: Name, delivery: Delivery, payloads: tuple[Name, ...]) -> None:
        item = claimed.item
        try:
            away: PutAway = self.driver.run(complete(self.rules, claimed, payloads))
        except ClaimLost as error:
            self._tell(Result.LOST, item, delivery.contents, delivery.attempt, error)
            return
        except (StillBusy, Anomaly) as error:
            # Processed, so it must not be given back: it stays claimed and is completed when that becomes possible.
            self._unsettled[claimed] = (delivery, payloads)
            self._tell(Result.UNSETTLED, item, delivery.contents, delivery.attempt, error)
            return
        self._attempts.pop(item, None)
        self._not_before.pop(item, None)
        self.report(
            Event(Result.PROCESSED, item, delivery.contents, delivery.attempt, left=away.left, outcome=delivery.outcome)
        )

    def _settle(self) -> None:
        for claimed in list(self._unsettled):
            delivery, payloads = self._unsettled.pop(claimed)
            self._complete(claimed, delivery, payloads)

    def _fail(self, claimed: Name, contents: Contents | None, attempt: int, error: Exception) -> None:
        if contents is not None:
            payloads = [payload.name for payload in contents.payloads]
        else:
            payloads = payload_names(self.driver.run(find_item(self.rules, claimed.item)))
        reason = Reason(type(error).__name__, str(error), attempt, platform.node(), self.owner)
        try:
            away = self.driver.run(fail(self.rules, claimed, payloads, reason))
        except ClaimLost as lost:
            self._tell(Result.LOST, claimed.item, contents, attempt, lost)
            return
        self._attempts.pop(claimed.item, None)
        self._not_before.pop(claimed.item, None)
        self.report(Event(Result.FAILED, claimed.item, contents, attempt, str(error), away.left))

    def _return(self, claimed: Name, contents: Contents | None, attempt: int, error: Exception) -> None:
        self._not_before[claimed.item] = self.driver.clock.monotonic() + self.backoff.delay(attempt, self.driver.clock)
        try:
            self.driver.run(release(self.rules, claimed))
        except ClaimLost as lost:
            self._tell(Result.LOST, claimed.item, contents, attempt, lost)
            return
        except Exception as failure:
            failure.add_note(f"{self.rules.layout.path(claimed)} stays claimed: rename it back to give it to another worker")
            raise failure from error
        self._tell(Result.RETURNED, claimed.item, contents, attempt, error)

    def _give_back(self, claimed: Name, error: BaseException) -> None:
        try:
            self.driver.run(release(self.rules, claimed))
        except Exception as failure:  # noqa: BLE001 - told with the first error, which is the one to act on
            error.add_note(f"and {self.rules.layout.path(claimed)} stays claimed: {failure}")

    def _tell(self, result: Result, item: ItemId, contents: Contents | None, attempt: int, error: Exception) -> None:
        self.report(Event(result, item, contents, attempt, str(error)))
