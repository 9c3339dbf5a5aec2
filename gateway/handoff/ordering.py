"""In which order items are taken, and what holds a strict order up (PROTOCOL section 7)."""

from dataclasses import dataclass, field
from enum import Enum

from gateway.handoff.clock import Clock
from protocol.names import Name
from protocol.rules import Rules
from protocol.snapshot import ItemView, Snapshot
from protocol.states import State


class Ordering(Enum):
    """In which order a group's items are taken. STRICT takes one at a time, and none before a lower number is settled."""

    SHUFFLE = "shuffle"
    FIFO = "fifo"
    STRICT = "strict"


class OnGap(Enum):
    """What a strict order does about a number that does not come within `gap_timeout`."""

    ALERT = "alert"  # tell, and go on waiting
    SKIP = "skip"  # tell, and go on with the next


class OnError(Enum):
    """What a strict order does about an error image."""

    STOP = "stop"  # the group stands still until a person has dealt with it
    PASS = "pass"  # noqa: S105 - not a password: go on with the next


@dataclass(frozen=True, slots=True)
class Strictness:
    """The settings of a strict order. `gap_timeout` is in seconds, by our own clock since the gap was first seen."""

    gap_timeout: float = 300.0
    on_gap: OnGap = OnGap.ALERT
    on_error: OnError = OnError.STOP


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose turn it is: a token, or None with what is waited for. `told` is worth telling a person, once."""

    token: Name | None
    waits_for: str = ""
    told: str = ""


@dataclass(slots=True)
class StrictOrder:
    """Decides for one group, from one look at the drop each time."""

    rules: Rules
    clock: Clock
    group: str
    strictness: Strictness
    _gaps: dict[int, float] = field(default_factory=dict)  # when each missing number was first missed
    _told: set[str] = field(default_factory=set)

    def next(self, snapshot: Snapshot, settled_up_to: int | None) -> Turn:
        """`settled_up_to` is the highest number that the ledger knows to be settled; the drop may have archived it."""
        views = [view for view in snapshot.items.values() if view.item.group == self.group]
        settled = [v.item.number for v in views if v.state in (State.DONE, State.AFTER, State.ERROR)]
        last = max([*settled, *([] if settled_up_to is None else [settled_up_to])], default=None)
        # What nobody has seen or settled yet has no beginning: the lowest number that is there is the first.
        expected = None if settled_up_to is None else settled_up_to + 1
        for view in views:
            number = view.item.number
            self._gaps.pop(number, None)
            if expected is not None and number > expected:
                turn = self._about_gap(range(expected, number), last)
                if turn is not None:
                    return turn
            turn = self._about(view)
            if turn is not None:
                return turn
            expected = number + 1 if expected is None else max(expected, number + 1)
        return Turn(None)

    def _about(self, view: ItemView) -> Turn | None:
        title = f"{self.group}{self.rules.grammar.digits(view.item.number)}"
        match view.state:
            case State.READY:
                token = next((n for n, _ in view.files if self.rules.is_token(n.kind) and n.state is State.READY), None)
                return Turn(token)
            case State.CLAIMED:
                return Turn(None, f"{title} is being processed by {view.owner}")
            case State.BEFORE | None:
                # Proof that it is coming: no gap, however long it takes.
                return Turn(None, f"{title} is being written")
            case State.ERROR if self.strictness.on_error is OnError.STOP:
                return Turn(None, f"{title} is an error image", self._once(f"{title} is an error image and holds its group up"))
        return None

    def _about_gap(self, missing: range, last: int | None) -> Turn | None:
        # Something later was settled, so what is missing below it was waited for, or is archived.
        waited_for = [number for number in missing if last is None or number > last]
        for number in waited_for:
            self._gaps.setdefault(number, self.clock.monotonic())
        for number in waited_for:
            since = self._gaps[number]
            title = f"{self.group}{self.rules.grammar.digits(number)}"
            if self.clock.monotonic() - since < self.strictness.gap_timeout:
                return Turn(None, f"{title} is missing")
            told = self._once(f"{title} has not come within {self.strictness.gap_timeout:g} s")
            if self.strictness.on_gap is OnGap.ALERT:
                return Turn(None, f"{title} is missing", told)
        return None

    def _once(self, text: str) -> str:
        if text in self._told:
            return ""
        self._told.add(text)
        return text
