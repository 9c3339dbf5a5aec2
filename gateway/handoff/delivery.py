"""A claimed item on its way to its handler, and what a handler may do with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.errors import DeliveryFailed, HandlerFailed, NotYet, SourceFailed
from gateway.handoff.contents import DropPayload
from gateway.handoff.driver import Driver
from gateway.handoff.ledger.errors import LedgerMoved
from protocol.contents import Contents, Payload
from protocol.ledger import Entry
from protocol.names import ItemId
from protocol.operations import Handle, Handled, Receiver, Verdict
from protocol.procedures.consume import UNFIT
from protocol.rules import Rules
from transports.errors import TransportError


@dataclass(slots=True)
class Delivery:
    """A claimed item. `attempt` counts from 1.

    `redelivered` says that an earlier run was cut before its outcome was recorded: its effect may be there. `replay` says
    that a person has asked for the item again. `outcome` is for the handler to say, in a few words, what it did.
    """

    item: ItemId
    contents: Contents
    attempt: int
    driver: Driver
    rules: Rules
    key: str
    redelivered: bool = False
    replay: bool = False
    outcome: str = ""
    entry: Entry | None = None
    owner: str = ""
    recorded: bool = False

    def fetch(self, payload: Payload, into: Receiver) -> None:
        """Reads one payload, once, into a receiver, and verifies it. Raises IntegrityError, and SourceFailed of the drop.

        The receiver must not let anybody use what it got before this has returned.
        """
        for data in DropPayload(self.driver.connection, self.rules, payload).chunks():
            into.write(data)

    @contextmanager
    def transaction(self, outcome: str = "") -> Iterator[Any]:
        """The ledger's own database connection: what is done on it and the record that this item was processed commit
        together, or not at all. With it the effect happens exactly once. `outcome` is what the record says was done.

        Raises GatewayError where the ledger has no database, and rolls back where another worker got ahead.
        """
        if self.entry is None:
            raise HandlerFailed("this delivery has no ledger entry to commit with")
        self.outcome = outcome or self.outcome
        with self.driver.ledger.transaction(self.key, self.entry, self.outcome) as connection:
            yield connection
        self.recorded = True


class Handler(Protocol):
    """Processes a delivery. Returning means processed.

    Raises HandlerFailed for an attempt that did not succeed, DeliveryFailed where its own target is at fault, NotYet where
    something at the target has to be waited for, IntegrityError for an item whose bytes are wrong. Any other error gives
    the item back and ends the consumer.
    """

    def __call__(self, delivery: Delivery) -> None: ...


def handle(handler: Handler, driver: Driver, rules: Rules, operation: Handle) -> tuple[Handled, Exception | None]:
    """Runs a handler, and tells its outcome as a procedure knows it, with the trouble that ends this round, if any."""
    delivery = Delivery(
        operation.claimed.item,
        operation.contents,
        operation.entry.attempts,
        driver,
        rules,
        operation.key,
        operation.redelivered,
        operation.replay,
        entry=operation.entry,
        owner=operation.claimed.owner,
    )
    try:
        handler(delivery)
    except UNFIT as error:
        return Handled(Verdict.UNFIT, error=str(error), kind=type(error).__name__), None
    except LedgerMoved:
        # Rolled back: another worker has the key. The ledger is asked again, and finds that our entry is no longer there.
        return Handled(Verdict.PROCESSED), None
    except HandlerFailed as error:
        return Handled(Verdict.FAILED, error=str(error), kind=type(error).__name__), None
    except DeliveryFailed as error:
        return Handled(Verdict.REFUSED, error=str(error), kind=type(error).__name__), error
    except NotYet as error:
        return Handled(Verdict.REFUSED, error=str(error), kind=type(error).__name__), None
    except SourceFailed as error:
        trouble = error.__cause__ if isinstance(error.__cause__, TransportError) else error
        return Handled(Verdict.REFUSED, error=str(error), kind=type(error).__name__), trouble
    return Handled(Verdict.PROCESSED, delivery.outcome, recorded=delivery.recorded), None
