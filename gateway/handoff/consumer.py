"""The consumer: finds items, claims them, has them handled, and heals what dead workers left (PROTOCOL sections 7 and 11)."""

import contextlib
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from gateway.handoff.clock import Backoff
from gateway.handoff.delivery import Delivery, Handler, handle
from gateway.handoff.driver import Driver
from gateway.handoff.healing import SHARE_OF_SWEEPS, Healing
from gateway.handoff.heartbeat import Heartbeat
from gateway.handoff.one_file import OF_ONE_FILE, quick
from gateway.handoff.ordering import Ordering, Strictness, StrictOrder
from gateway.handoff.owner import new_owner
from gateway.handoff.picking import fair_part, in_turns, is_out_of_date, ready_in
from gateway.handoff.stop import Stop
from protocol.contents import Contents
from protocol.errors import ClaimLost, StillBusy
from protocol.names import ItemId, Name
from protocol.operations import Handle, Handled, Outcome
from protocol.procedures.claim import claim, prepare_owner
from protocol.procedures.consume import Begun, Consumed, Result, Worker, consume, settle
from protocol.procedures.finish import release
from protocol.procedures.look import ready_tokens, snapshot
from protocol.recovery import Ages
from protocol.rules import Rules
from protocol.snapshot import Snapshot
from protocol.states import State
from transports.errors import Busy, NotFound, TransportError

_LONGEST_ROUND = 10.0  # seconds that one listing is worked off, unless a look takes long
_UNDER_WAY = (State.READY, State.CLAIMED)


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
    key: str = ""


def _ignore(_: object) -> None:
    """For callers that are told elsewhere."""


def _any_token(driver: Driver, token: Name) -> bool:
    """Every item is wanted."""
    del driver, token
    return True


@dataclass(slots=True)
class Consumer:
    """Takes items of some groups from one drop. For one thread, as its driver is.

    `report` is told each item's outcome, `notice` what a person should know of the drop. `wanted` says of a token whether it
    is to be taken now; it may look at the drop. With a `heartbeat` its claims are
    covered by a lease, and it takes over what dead workers left; without one it does neither.
    """

    driver: Driver
    rules: Rules
    owner: str
    groups: tuple[str, ...]
    handler: Handler
    report: Callable[[Event], None]
    notice: Callable[[str], None] = _ignore
    ordering: Ordering = Ordering.SHUFFLE
    strictness: Strictness = field(default_factory=Strictness)
    max_attempts: int = 5
    backoff: Backoff = field(default_factory=lambda: Backoff(base=1.0, largest=60.0))
    once: bool = False  # no item is tried twice by this consumer
    heartbeat: Heartbeat | None = None
    ages: Ages = field(default_factory=lambda: Ages(before=None))
    wanted: Callable[[Driver, Name], bool] = _any_token
    _trouble: Exception | None = None
    _tried: set[ItemId] = field(default_factory=set)
    _not_before: dict[ItemId, float] = field(default_factory=dict)
    _unsettled: list[Consumed] = field(default_factory=list)
    _held: list[Name] = field(default_factory=list)
    _strict: dict[str, StrictOrder] = field(default_factory=dict)
    _healing: Healing | None = None
    _begun: bool = False
    _look_took: float = 0.0  # seconds
    _seen: Snapshot | None = None  # a look at the drop that nothing of ours has changed since

    def sweep_once(self, stop: Stop) -> int:
        """Takes whatever can be taken now, until nothing is left or `stop` is set; the number of items it dealt with.

        Raises transport errors of the drop itself, and DeliveryFailed where the handler's own target is at fault, as
        the next item would meet the same; the claim was given back before.
        """
        self._begin()
        self._seen = None
        self._settle_held()
        dealt = self._heal_if_due(stop)
        if self.ordering is Ordering.STRICT:
            return dealt + sum(self._take_in_turn(group, stop) for group in self.groups)
        missed: set[ItemId] = set()
        again = True
        while again and not stop.is_set():
            tokens, again = self._candidates(missed)
            taken, out_of_date = self._take_listed(tokens, missed, stop)
            dealt += taken
            if out_of_date:
                # Somebody is about whom we do not know of: the look that shows what is left shows him as well.
                again = True
                if self._healing is not None:
                    self._healing.hasten()
                dealt += self._heal_if_due(stop)
        return dealt

    def holds(self) -> bool:
        """Whether items of ours wait for somebody to close a file."""
        return bool(self._unsettled or self._held)

    def would_heal(self) -> bool:
        """Whether something was seen that is healed if it is still there at the next look."""
        return self._healing is not None and self._healing.waits_for_second_look()

    def wait(self, timeout: float) -> bool:
        """Returns after `timeout` seconds, or True as soon as the drop may have changed. A hint that may be missed.

        False at once where the server cannot tell: the caller then waits by himself.
        """
        transport = self.driver.connection.use()
        if not transport.capabilities.notification:
            return False
        begun = self.driver.clock.monotonic()
        transport.wait_for_change(self.rules.layout.folder_of(State.READY), timeout)
        return self.driver.clock.monotonic() - begun < timeout

    def close(self) -> None:
        """Gives the lease up and ends the connection. A lease that cannot be given up expires."""
        try:
            if self._begun and not self.holds():
                self._leave()
        except TransportError as error:
            self.notice(f"the lease of {self.owner} could not be removed, and will expire: {error}")
        finally:
            self.driver.connection.close()

    def _leave(self) -> None:
        if self.heartbeat is not None and not self.heartbeat.give_up(self.driver, self.owner):
            self.notice(f"the lease of {self.owner} is open elsewhere and could not be removed; it will expire")
        if self.rules.layout.claims_folder is not None:
            # Not there, or not empty: somebody has tidied up, or a claim of ours is left for others to find.
            with contextlib.suppress(NotFound, Busy):
                folder = self.rules.layout.folder_of(State.CLAIMED, self.owner)
                self.driver.connection.use().remove_dir(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Who we are.

    def _begin(self) -> None:
        """A lease and, where the layout has one, a folder of our own: before the first claim, and after a lost lease."""
        if self._begun and (self.heartbeat is None or not self.heartbeat.is_lost(self.owner)):
            return
        if self._begun and self.heartbeat is not None:
            self._renounce()
        if self.heartbeat is not None:
            self._take_lease(self.heartbeat)
            self._healing = self._healing or self._begin_healing(self.heartbeat.ttl)
        self.driver.run(prepare_owner(self.rules, self.owner))
        self.driver.handler = self._handle
        self._begun = True

    def _begin_healing(self, ttl: float) -> Healing:
        return Healing(
            driver=self.driver,
            rules=self.rules,
            groups=self.groups,
            ttl=ttl,
            ages=self.ages,
            worker=self._worker,
            wanted=lambda token: self.wanted(self.driver, token),
            is_due=self._is_due,
            notice=self.notice,
        )

    def _take_lease(self, heartbeat: Heartbeat) -> None:
        try:
            heartbeat.take(self.driver, self.owner)
        except BaseException:
            # Its file may be there all the same, and under the same id the next try would take it for a rival's.
            self.owner = new_owner(self.driver.clock)
            raise

    def _renounce(self) -> None:
        """Somebody may have taken us for dead: whatever this owner holds is left to be found, and we begin as another."""
        assert self.heartbeat is not None  # noqa: S101 - nothing to renounce without one
        self.heartbeat.forget(self.owner)
        self.notice(f"the lease of {self.owner} was lost: it could not be renewed for {self.heartbeat.ttl:g} s")
        self._unsettled.clear()
        self._held.clear()
        self._begun = False
        self.owner = new_owner(self.driver.clock)

    def _settle_held(self) -> None:
        """Items of ours whose tokens somebody had open: retried apart, so that one of them does not hold up the rest."""
        for unsettled in [self._unsettled.pop() for _ in range(len(self._unsettled))]:
            self._tell(self.driver.run(settle(quick(self.rules), unsettled)))
        for claimed in [self._held.pop() for _ in range(len(self._held))]:
            waits = self._not_before.get(claimed.item, 0) > self.driver.clock.monotonic()
            if waits or (self.ordering is Ordering.STRICT and self._overtaken(claimed)):
                self._held.append(claimed)
            else:
                self._process(claimed, taken_over=True)

    # What there is to take.

    def _look(self) -> Snapshot:
        """The whole drop: as the sweep has just seen it, or anew."""
        if self._seen is None:
            self._seen = self.driver.run(snapshot(self.rules))
        return self._seen

    def _ready(self) -> list[Name]:
        """The ready tokens of our groups, group by group, by number; from one listing, the sweep's if there was one."""
        if self._seen is None:
            return self.driver.run(ready_tokens(self.rules, *self.groups))
        return ready_in(self._seen, self.rules, self.groups)

    def _candidates(self, missed: set[ItemId]) -> tuple[list[Name], bool]:
        """What to take next, in order, and whether there is more to be looked at after it."""
        begun = self.driver.clock.monotonic()
        tokens = self._ready()
        self._look_took = self.driver.clock.monotonic() - begun
        self._forget(tokens)
        tokens = [token for token in tokens if token.item not in missed and self._is_due(token.item)]
        if self.ordering is Ordering.FIFO:
            return in_turns(tokens), False
        # Each worker in its own order, so that a crowd does not fight for the head of the queue; and first the share that
        # falls to it among those who live. What is left of the others' is looked at anew by then.
        self.driver.clock.chance.shuffle(tokens)
        crowd = self._healing.crowd if self._healing is not None else frozenset[str]()
        part = fair_part(tokens, self.owner, crowd)
        return in_turns(part), len(part) < len(tokens)

    def _is_due(self, item: ItemId) -> bool:
        return item not in self._tried and self._not_before.get(item, 0) <= self.driver.clock.monotonic()

    def _forget(self, tokens: list[Name]) -> None:
        """Drops the memory of items that are no longer ready: another worker settled them, or a person did."""
        ready = {token.item for token in tokens}
        for item in [item for item in self._not_before if item not in ready]:
            del self._not_before[item]

    # Taking one.

    def _take_listed(self, tokens: list[Name], missed: set[ItemId], stop: Stop) -> tuple[int, bool]:
        """Takes one after the other; how many, and whether others have taken so many that the list is out of date.

        What could not be had goes to `missed`, so that a token which is seen, and cannot be claimed, is tried once in a sweep.
        """
        taken = lost = healed = 0
        until = self.driver.clock.monotonic() + max(_LONGEST_ROUND, self._look_took / SHARE_OF_SWEEPS)
        for token in tokens:
            if stop.is_set():
                break
            if self.driver.clock.monotonic() > until:
                return taken + healed, True  # what has come since, perhaps of another group, must not wait for all of these
            if not self.wanted(self.driver, token):
                missed.add(token.item)
                continue
            outcome = self._take(token)
            if outcome is Outcome.DONE:
                taken += 1
            else:
                missed.add(token.item)
                lost += outcome is Outcome.GONE
            if is_out_of_date(taken, lost):
                return taken + healed, True
            # A long list must not keep dead workers' items waiting.
            healed += self._heal_if_due(stop)
        return taken + healed, False

    def _take_in_turn(self, group: str, stop: Stop) -> int:
        """The item whose turn it is, again and again, until there is none or it has to wait."""
        order = self._strict.setdefault(group, StrictOrder(self.rules, self.driver.clock, group, self.strictness))
        dealt = 0
        while not stop.is_set():
            turn = order.next(self._look(), self.driver.ledger.highest_settled(group))
            if turn.told:
                self.notice(turn.told)
            if turn.token is None or not self._is_due(turn.token.item) or not self.wanted(self.driver, turn.token):
                break
            if self._take(turn.token) is not Outcome.DONE:
                break  # the next may only come after this one
            dealt += 1 + self._heal_if_due(stop)
        return dealt

    def _take(self, token: Name) -> Outcome:
        """DONE: claimed, and carried to some end. GONE: another worker won. BUSY: it cannot be had now, and may be later."""
        if self.heartbeat is not None and self.heartbeat.is_lost(self.owner):
            self._begin()  # a long handler, or a suspended machine: not one more claim under the old name
        self._seen = None
        claimed = self.driver.run(claim(self.rules, token, self.owner))
        if isinstance(claimed, Outcome):
            return claimed
        if self.ordering is Ordering.STRICT and self._overtaken(claimed):
            self._step_back(claimed)
            return Outcome.BUSY
        self._process(claimed)
        return Outcome.DONE

    def _step_back(self, claimed: Name) -> None:
        try:
            self.driver.run(release(quick(self.rules), claimed))
        except ClaimLost:
            pass  # somebody else has it, and asks himself the same
        except StillBusy:
            self._held.append(claimed)

    def _overtaken(self, claimed: Name) -> bool:
        """Whether a lower number is under way: two workers may have looked at the same moment and claimed neighbours."""
        views = self.driver.run(snapshot(self.rules)).items.values()
        return any(v.item.group == claimed.item.group and v.item < claimed.item and v.state in _UNDER_WAY for v in views)

    def _process(self, claimed: Name, *, taken_over: bool = False, begun: Begun | None = None) -> None:
        if self.once:
            self._tried.add(claimed.item)
        self._trouble = None
        try:
            consumed = self.driver.run(consume(quick(self.rules), claimed, self._worker(), taken_over=taken_over, begun=begun))
        except OF_ONE_FILE as error:
            # The claim was given back: what is wrong with one file is no reason to stop.
            consumed = Consumed(Result.RETURNED, claimed, error=str(error))
        self._tell(consumed)
        if self._trouble is not None and not isinstance(self._trouble, OF_ONE_FILE):
            raise self._trouble

    def _worker(self) -> Worker:
        return Worker(self.owner, platform.node(), self.max_attempts)

    def _handle(self, operation: Handle) -> Handled:
        handled, self._trouble = handle(self.handler, self.driver, self.rules, operation)
        return handled

    def _tell(self, consumed: Consumed) -> None:
        item = consumed.claimed.item
        if consumed.result is Result.UNSETTLED:
            self._unsettled.append(consumed)
        if consumed.result is Result.HELD:
            self._held.append(consumed.claimed)
        if consumed.result in (Result.RETURNED, Result.WAITING, Result.HELD):
            clock = self.driver.clock
            self._not_before[item] = clock.monotonic() + self.backoff.delay(max(consumed.attempt, 1), clock)
        else:
            self._not_before.pop(item, None)
        if consumed.result is Result.LOST and self.heartbeat is not None:
            # Whoever took the claim believed us dead, and may be right about the lease as well.
            self.heartbeat.forget(self.owner)
        self.report(
            Event(
                consumed.result,
                item,
                consumed.contents,
                consumed.attempt,
                consumed.error,
                consumed.left,
                consumed.outcome,
                consumed.key,
            )
        )

    # Healing.

    def _heal_if_due(self, stop: Stop) -> int:
        """One sweep, if it is time for one; the number of items it dealt with."""
        healing = self._healing
        if healing is None or not healing.is_time():
            return 0
        self._seen = None
        dealt = 0
        for claimed, begun in healing.sweep(stop):
            self._process(claimed, taken_over=begun is None, begun=begun)
            dealt += 1
        self._seen = healing.seen
        return dealt


__all__ = ["Consumer", "Delivery", "Event", "Handler", "Ordering", "Result"]
