"""A producer waits for what becomes of its item, and changes nothing meanwhile.

In a drop with receipts the item is at its end once its receipt is there and complete; in one without, once its token is an
after image, or an error image with its reason.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.handoff.clock import Backoff
from gateway.handoff.driver import Driver
from protocol.errors import InvalidReceipt, OutcomeUnresolved
from protocol.json_text import InvalidJson, parse_object
from protocol.names import REASON_SUFFIX, RECEIPT_SUFFIX, Name
from protocol.operations import ReadSmall, Scan, Stat
from protocol.procedures.adopt import was_archived
from protocol.procedures.look import find_item
from protocol.procedures.publish import Published
from protocol.procedures.write_receipt import read_receipt
from protocol.receipt import LARGEST, Receipt, parse_receipt
from protocol.rules import Rules, Signal
from protocol.states import State
from transports.errors import Busy, OutcomeUnknown, TransportError, Unreachable

_FIRST, _LONGEST = 0.1, 2.0  # seconds between two looks
_GROWTH = 1.5
_LOOK_AROUND = 10  # looks: how often the whole drop is listed, for an item that has left it


@dataclass(frozen=True, slots=True)
class Fate:
    """What is known of an item: its state, its receipt where there is one, else the reason file of an error image.

    `over` says that no more is to be waited for. `state` is None where the item is nowhere to be seen.
    """

    over: bool
    state: State | None
    receipt: Receipt | None = None
    reason: dict[str, object] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """In one word: "processed", "failed", "forwarded"; what it is now, where it is not over."""
        if self.receipt is not None:
            return self.receipt.outcome
        if self.over:
            return "failed" if self.state is State.ERROR else "processed"
        return self.state.word if self.state is not None else "not there"

    @property
    def failed(self) -> bool:
        return self.over and self.outcome == "failed"

    @property
    def text(self) -> str:
        """What its consumer did, or why it failed, in its own words."""
        if self.receipt is None:
            return str(self.reason.get("error", ""))
        if self.receipt.outcome == "failed":
            return self.receipt.error
        answers = [f"{name}: {one.result or one.outcome}" for name, one in sorted(self.receipt.destinations.items())]
        return "; ".join(answers) or self.receipt.result


@dataclass(slots=True)
class Awaiting:
    """Waits for items that its driver's drop was given. `trouble` is told once each time the endpoint is away."""

    driver: Driver
    rules: Rules
    trouble: Callable[[str], None]
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.5, largest=15.0))

    def wait(self, published: Published, until: float | None) -> Fate:
        """The item's fate, once it is over, or as it is at `until` by the monotonic clock (None: whenever that may be).

        An endpoint that is away is waited for. Raises what needs a person, such as a refused login.
        """
        clock, pause, looks, failures = self.driver.clock, _FIRST, 0, 0
        fate = Fate(over=False, state=State.READY)
        while True:
            try:
                fate = self.driver.run(_look(self.rules, published, around=looks % _LOOK_AROUND == _LOOK_AROUND - 1))
                failures = 0
            except (Unreachable, OutcomeUnknown, OutcomeUnresolved) as error:
                failures += 1
                if failures == 1:
                    self.trouble(str(error))
                self.driver.connection.lost()
            looks += 1
            left = None if until is None else until - clock.monotonic()
            if fate.over:
                return fate
            if left is not None and left <= 0:
                return self._at_last(published, fate)
            rest = self.backoff.delay(failures, clock) if failures else pause
            self._rest(rest if left is None else min(rest, left), hinted=not failures)
            pause = min(pause * _GROWTH, _LONGEST)

    def _at_last(self, published: Published, fate: Fate) -> Fate:
        """For a person who asks why it takes so long: where the item is by now, looked for in all of the drop."""
        try:
            return self.driver.run(_look(self.rules, published, around=True))
        except TransportError:
            return fate

    def _rest(self, seconds: float, *, hinted: bool) -> None:
        """Waits, or less where the server says that something has changed."""
        clock = self.driver.clock
        begun = clock.monotonic()
        if hinted:
            try:
                transport = self.driver.connection.use()
                if transport.capabilities.notification:
                    clock.sleep(min(_FIRST, seconds))  # one look serves for a burst of changes
                    transport.wait_for_change(self.rules.layout.folder_of(State.AFTER), max(0.0, seconds - _FIRST))
                    return
            except TransportError:
                self.driver.connection.lost()  # the next look meets the same trouble, and tells of it
        clock.sleep(max(0.0, seconds - (clock.monotonic() - begun)))


async def _look(rules: Rules, published: Published, *, around: bool) -> Fate:
    """One look at the names under which the item may be over; with `around` at the whole drop, where it is not."""
    item = published.item
    token = Name(item, _suffixes(rules, published)[-1], State.AFTER)
    receipt = await _receipt(rules, published)
    if receipt is not None and receipt.complete:
        return Fate(over=True, state=State.ERROR if receipt.outcome == "failed" else State.AFTER, receipt=receipt)
    awaited = receipt is not None or rules.writes_receipt(item.group)
    if await Stat(rules.layout.path(token)) is not None:
        return Fate(over=not awaited, state=State.AFTER, receipt=receipt)
    reason = await _reason(rules, item_of=token)
    if reason is not None:
        return Fate(over=not awaited, state=State.ERROR, receipt=receipt, reason=reason)
    if not around:
        return Fate(over=False, state=State.READY, receipt=receipt)
    names = await find_item(rules, item)
    states = {name.state for name in names if rules.is_token(name.kind)}
    if names:
        return Fate(over=False, state=next(iter(states), None), receipt=receipt)
    key = published.key if rules.signal is Signal.MANIFEST else None
    archived = await was_archived(rules, item, key, _hashes(rules, published))
    receipt = await _archived_receipt(rules, published) if archived and awaited else receipt
    if receipt is not None and receipt.complete:
        return Fate(over=True, state=State.AFTER, receipt=receipt)
    return Fate(over=archived and not awaited, state=State.AFTER if archived else None, receipt=receipt)


async def _receipt(rules: Rules, published: Published) -> Receipt | None:
    """The receipt of this very hand-off. Without a manifest a reader makes its own key, and the number has to do."""
    found = None
    for state in (State.AFTER, State.ERROR):
        try:
            receipt = await read_receipt(rules, Name(published.item, RECEIPT_SUFFIX, state))
        except Busy:
            continue  # being replaced just now
        ours = rules.signal is not Signal.MANIFEST or (receipt is not None and receipt.key in ("", published.key))
        if receipt is not None and ours and (found is None or found.run <= receipt.run):
            found = receipt
    return found


async def _archived_receipt(rules: Rules, published: Published) -> Receipt | None:
    """The receipt that went into one of the archive's folders of days with its item."""
    name = rules.layout.path(Name(published.item, RECEIPT_SUFFIX, State.AFTER)).rpartition("/")[2]
    for day in await Scan(rules.layout.archive_folder):
        data = await ReadSmall(f"{day.path}/{name}", LARGEST) if day.folder else None
        with contextlib.suppress(InvalidReceipt):
            receipt = parse_receipt(data) if data is not None else None
            if receipt is not None and (rules.signal is not Signal.MANIFEST or receipt.key == published.key):
                return receipt
    return None


async def _reason(rules: Rules, item_of: Name) -> dict[str, object] | None:
    """The reason of an error image; None where there is none yet."""
    path = rules.layout.path(Name(item_of.item, REASON_SUFFIX, State.ERROR))
    try:
        data = await ReadSmall(path, LARGEST)
        return None if data is None else parse_object(data, limit=LARGEST)
    except (InvalidJson, Busy):
        return None  # being written just now


def _suffixes(rules: Rules, published: Published) -> list[str]:
    """Of the item's files, the token's last."""
    return [name.suffix for name in map(rules.layout.parse, published.names) if isinstance(name, Name)]


def _hashes(rules: Rules, published: Published) -> dict[str, str]:
    """The payloads' hashes by suffix, for a drop whose tokens say no key."""
    return dict(zip(_suffixes(rules, published), published.hashes, strict=False))
