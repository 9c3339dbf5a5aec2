"""Turns what a route's workers report into transitions, and keeps the board's picture of what is moving."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from gateway.handoff.clock import Clock
from gateway.handoff.consumer import Delivery, Event, Result
from gateway.handoff.throttle import Throttle
from gateway.service.board import Board, Moving
from gateway.service.transitions import Hub, Transition, What
from protocol.contents import Contents
from protocol.names import ItemId
from protocol.rules import Rules

_SHOWN_EVERY = 0.25  # seconds between two updates of an item's progress
_WHAT = {
    Result.PROCESSED: What.FORWARDED,
    Result.ACKNOWLEDGED: What.ACKNOWLEDGED,
    Result.FAILED: What.FAILED,
    Result.RETURNED: What.RETURNED,
    Result.WAITING: What.WAITING,
    Result.LOST: What.LOST,
    Result.UNSETTLED: What.UNSETTLED,
    Result.HELD: What.HELD,
}


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells the steps of one route's items. `source` is the source drop's name."""

    route: str
    source: str
    rules: Rules
    hub: Hub
    clock: Clock

    def event(self, event: Event) -> None:
        """An item's outcome in one go."""
        self._tell(_WHAT[event.result], event.item, event.contents, event.key, event.attempt, text=event.error or event.outcome)

    def step(self, what: What, delivery: Delivery, destination: str = "", text: str = "") -> None:
        """One step on an item's way."""
        self._tell(
            what,
            delivery.item,
            delivery.contents,
            delivery.key,
            delivery.attempt,
            owner=delivery.owner,
            destination=destination,
            text=text,
        )

    def receipt(self, item: ItemId, key: str, destination: str, text: str) -> None:
        """What a destination's consumer says of an item was carried back."""
        self._tell(What.RECEIPT, item, None, key, 0, destination=destination, text=text)

    def _tell(
        self,
        what: What,
        item: ItemId,
        contents: Contents | None,
        key: str,
        attempt: int,
        *,
        owner: str = "",
        destination: str = "",
        text: str = "",
    ) -> None:
        now = self.clock.utc()
        manifest = contents.manifest if contents is not None else None
        trace = manifest.meta.get("traceparent") if manifest is not None else None
        self.hub.tell(
            Transition(
                now,
                what,
                self.route,
                self.source,
                item.group,
                self.rules.grammar.digits(item.number),
                key,
                attempt,
                owner,
                destination,
                size_of(contents),
                seconds_since(manifest.created, now) if manifest is not None else None,
                text,
                trace if isinstance(trace, str) else "",
            )
        )


def size_of(contents: Contents | None) -> int | None:
    """Bytes of all payloads, where each one's size is known."""
    sizes = [payload.size for payload in contents.payloads] if contents is not None else [None]
    return None if None in sizes else sum(size or 0 for size in sizes)


def seconds_since(created: str, now: str) -> float | None:
    """How old an item is; 0 where its producer's clock is ahead of ours."""
    try:
        age = datetime.fromisoformat(now) - datetime.fromisoformat(created)
    except (ValueError, TypeError):
        return None
    return max(0.0, age.total_seconds())


@dataclass(slots=True)
class Progress:
    """What one worker has in hand, for the board; and the place where its transfers are slowed down or interrupted."""

    teller: Teller
    board: Board
    interrupted: threading.Event
    throttle: Throttle | None
    copies: int  # destinations, each of which gets all bytes
    beat: Callable[[], None]
    _moving: Moving | None = None
    _shown_at: float = field(default=0.0)

    def begin(self, delivery: Delivery) -> None:
        """An item was claimed."""
        size = size_of(delivery.contents)
        self._moving = Moving(
            f"{delivery.item.group}{self.teller.rules.grammar.digits(delivery.item.number)}",
            delivery.owner,
            self.teller.clock.utc(),
            delivery.attempt,
            total=None if size is None else size * self.copies,
        )
        self.board.set_moving(self.teller.route, self._moving.item, self._moving)
        self.teller.step(What.BEGUN, delivery)

    def end(self) -> None:
        """It was put down."""
        if self._moving is not None:
            self.board.set_moving(self.teller.route, self._moving.item, None)
            self._moving = None

    def advance(self, count: int) -> None:
        """So many more bytes have passed. Raises KeyboardInterrupt, to have the item given back."""
        self._may_go_on()
        if self.throttle is not None:
            self.throttle.take(count, self._nap)
        if self._moving is None:
            return
        moving = self._moving
        self._moving = Moving(
            moving.item, moving.owner, moving.since, moving.attempt, moving.destination, moving.done + count, moving.total
        )
        now = self.teller.clock.monotonic()
        if now - self._shown_at > _SHOWN_EVERY:
            self._shown_at = now
            self.board.set_moving(self.teller.route, moving.item, self._moving)
            self.beat()

    def _nap(self, seconds: float) -> None:
        self.interrupted.wait(seconds)
        self._may_go_on()

    def _may_go_on(self) -> None:
        if self.interrupted.is_set():
            raise KeyboardInterrupt
