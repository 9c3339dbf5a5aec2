"""What happens to items, told to whoever wants to know: the journal, the metrics, the page.

A transition is one step of one item that this gateway made, or found out. It is told after the step, by the thread that made
it; a listener must be quick, and cannot hold the hand-off up: what it raises is logged and goes no further.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")


class What(Enum):
    """What became of an item, in the order in which it may happen."""

    BEGUN = "begun"  # claimed, and its run recorded in the ledger
    PUBLISHED = "published"  # at one destination, by this run
    KNOWN = "known"  # at one destination, by an earlier run
    REFUSED = "refused"  # one destination could not take it now
    FORWARDED = "forwarded"  # every destination has it: after image
    ACKNOWLEDGED = "acknowledged"  # completed without a run: it was processed before
    RETURNED = "returned"  # back to ready, to be tried again
    WAITING = "waiting"  # back to ready: the same key is being processed under another number
    FAILED = "failed"  # error image
    LOST = "lost"  # the claim was taken over by another worker
    UNSETTLED = "unsettled"  # processed; its token is held open
    HELD = "held"  # not processed; its token is held open
    RECEIPT = "receipt"  # the consumer's outcome was carried back to the source
    REPLAYED = "replayed"  # an operator asked for it again
    DISCARDED = "discarded"  # an operator took an error image away


@dataclass(frozen=True, slots=True)
class Transition:
    """One step. `at` is ISO 8601 in UTC by this host's clock; `drop` is the source's name in the configuration.

    `destination` is a drop's name where the step concerns one. `seconds` is how long the item took from its creation, by its
    producer's clock, to this step, where that is known. `bytes` are those of its payloads. `text` is for people.
    """

    at: str
    what: What
    route: str
    drop: str
    group: str
    sequence: str
    key: str = ""
    attempt: int = 0
    owner: str = ""
    destination: str = ""
    bytes: int | None = None
    seconds: float | None = None
    text: str = ""
    trace: str = ""  # the W3C traceparent of the item, where it carries one

    @property
    def item(self) -> str:
        """The item as people write it: group and number."""
        return f"{self.group}{self.sequence}"

    def as_record(self) -> dict[str, object]:
        """For a line of JSON: what is known, and nothing else."""
        fields = asdict(self) | {"what": self.what.value, "item": self.item}
        return {name: value for name, value in fields.items() if value not in (None, "") and (name, value) != ("attempt", 0)}

    @classmethod
    def of_record(cls, record: Mapping[str, object]) -> "Transition | None":
        """What `as_record` gave; None where it is no such thing, or of a kind that only a later dropgate knows."""
        values = {name: record[name] for name in _TYPES if record.get(name) is not None}
        if any(not isinstance(value, _TYPES[name]) or isinstance(value, bool) for name, value in values.items()):
            return None
        try:
            return cls(**values | {"what": What(record.get("what"))})  # type: ignore[arg-type]  # checked above
        except (TypeError, ValueError):
            return None


_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("at", "route", "drop", "group", "sequence", "key", "owner", "destination", "text", "trace"), str),
    **dict.fromkeys(("attempt", "bytes"), int),
    "seconds": (int, float),
}

Listener = Callable[[Transition], None]


@dataclass(slots=True)
class Hub:
    """Passes each transition on to every listener, in the order in which they came."""

    listeners: list[Listener] = field(default_factory=list)

    def tell(self, transition: Transition) -> None:
        """Tells all of them. Raises nothing."""
        for listener in self.listeners:
            try:
                listener(transition)
            except Exception as error:  # noqa: BLE001 - the hand-off goes on, whatever a listener meets
                log.error(
                    "not told", item=transition.item, what=transition.what.value, error=f"{type(error).__name__}: {error}"
                )
