"""A route: every item of some groups goes from one drop to another, once, under its own number and key.

Each item is claimed at the source, read once while the before files at the destination are written, compared by hash,
published there, and only then completed here. Cut at any point, it is either still claimed or ready at the source, or
published at the destination, and the next attempt looks there before it writes (`Producer.forward`).
"""

from dataclasses import dataclass

from gateway.errors import DeliveryFailed, HandlerFailed, SourceFailed
from gateway.handoff.consumer import Delivery
from gateway.handoff.contents import DropPayload, Progress, ignore_progress
from gateway.handoff.producer import Producer, producer_fact
from gateway.service.tracing import context_of, forwarded_meta
from protocol.contents import Payload
from protocol.errors import (
    Anomaly,
    InvalidManifest,
    InvalidName,
    OutcomeUnresolved,
    ProtocolError,
    PublishInterrupted,
    SequenceExhausted,
    SequenceTaken,
    StillBusy,
    StoredWrong,
)
from protocol.names import ItemId
from protocol.operations import Fetch
from protocol.procedures.look import find_item
from protocol.procedures.publish import Draft, DraftFile
from transports.errors import TransportError


class NumberTaken(HandlerFailed):
    """The number belongs to another item at the destination. It counts as an attempt."""


@dataclass(frozen=True, slots=True)
class Forward:
    """The handler of a route: publishes a claimed item at the destination, by a producer of the same thread."""

    destination: Producer
    progress: Progress = ignore_progress
    traced: bool = False  # the manifest carries the item's trace on

    def __call__(self, delivery: Delivery) -> None:
        delivery.outcome = self.deliver(delivery, delivery.item.number)

    def deliver(self, delivery: Delivery, number: int, *, again: bool = False) -> str:
        """Publishes the item under a number, once; what was done, in a few words. `again` is that of `Producer.forward`.

        Raises NumberTaken and HandlerFailed (it cannot be published so), DeliveryFailed (the destination is at fault), NotYet,
        SourceFailed and IntegrityError.
        """
        draft = self._draft(delivery)
        try:
            published = self.destination.forward(draft, number, self._hashes(delivery, number), again=again)
        except SequenceTaken as error:
            raise NumberTaken(f"not published at the destination: {error}") from error
        except (SequenceExhausted, InvalidName, InvalidManifest, Anomaly) as error:
            raise HandlerFailed(f"not published at the destination: {error}") from error
        except (TransportError, StoredWrong, PublishInterrupted, OutcomeUnresolved, StillBusy) as error:
            raise DeliveryFailed(f"the destination failed: {error}") from error
        return "was published before" if published is None else f"published as {published.names[-1]}"

    def next_number(self, group: str) -> int:
        """The next number of the destination's own counter. Raises HandlerFailed, DeliveryFailed."""
        try:
            return self.destination.next_number(group)
        except (SequenceExhausted, InvalidName, Anomaly) as error:
            raise HandlerFailed(f"no number at the destination: {error}") from error
        except (TransportError, ProtocolError) as error:
            raise DeliveryFailed(f"the destination failed: {error}") from error

    def rest(self) -> None:
        """No item is at hand: closes a connection that somebody else waits for."""
        self.destination.driver.connection.rest()

    def close(self) -> None:
        """Ends the connection to the destination."""
        self.destination.close()

    def _draft(self, delivery: Delivery) -> Draft:
        manifest = delivery.contents.manifest
        records = {} if manifest is None else {record.name: record.records for record in manifest.files}
        files = tuple(
            DraftFile(
                payload.name.suffix,
                DropPayload(delivery.driver.connection, delivery.rules, payload, self._compares(payload), self.progress),
                payload.source_name,
                records.get(delivery.rules.grammar.format(payload.name)),
                f"{payload.algorithm}:{payload.digest}" if self._compares(payload) else None,
            )
            for payload in delivery.contents.payloads
        )
        key = delivery.key if all(payload.digest for payload in delivery.contents.payloads) else None
        if manifest is None:
            return Draft(delivery.item.group, files, key, producer_fact(), {})
        meta: dict[str, object] = dict(manifest.meta)
        if self.traced:
            trace = context_of(meta, delivery.key)
            meta = forwarded_meta(meta, trace, signed=manifest.signature is not None)
        return Draft(delivery.item.group, files, key, manifest.producer, meta)

    def _compares(self, payload: Payload) -> bool:
        """Whether the destination hashes with the algorithm that the source's token names, so that once is enough."""
        return bool(payload.digest) and payload.algorithm == self.destination.rules.algorithm

    def _hashes(self, delivery: Delivery, number: int) -> dict[str, str]:
        """The payloads' hashes by suffix. Without a token that says them they are needed only where the number is in use."""
        known = {p.name.suffix: f"{p.algorithm}:{p.digest}" for p in delivery.contents.payloads if p.digest}
        if known or not self.destination.driver.run(find_item(self.destination.rules, ItemId(delivery.item.group, number))):
            return known
        try:
            return delivery.driver.run(_read_hashes(delivery.contents.payloads))
        except TransportError as error:
            raise SourceFailed(f"the payloads could not be read: {error}") from error


async def _read_hashes(payloads: tuple[Payload, ...]) -> dict[str, str]:
    read = {payload.name.suffix: (payload.algorithm, await Fetch(payload.path, payload.algorithm)) for payload in payloads}
    return {suffix: f"{algorithm}:{found.digest}" for suffix, (algorithm, found) in read.items() if found is not None}
