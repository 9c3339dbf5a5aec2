"""The sweep of a running consumer: what dead workers left, and what is half put away (PROTOCOL section 11)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gateway.handoff.driver import Driver
from gateway.handoff.one_file import OF_ONE_FILE, quick
from gateway.handoff.second_look import SECOND_LOOK, seen_twice
from gateway.handoff.stop import Stop
from gateway.handoff.watch import Watch
from protocol.lease import renewal_interval
from protocol.names import ItemId, Name
from protocol.operations import Outcome, ServerTime
from protocol.procedures.consume import Begun, Worker
from protocol.procedures.look import snapshot
from protocol.procedures.replay import claim_replay
from protocol.procedures.sweep import archive_ledger, carry_out, take_over
from protocol.recovery import Action, Ages, Facts, MissingPayload, Replay, TakeOver, Tell, plan
from protocol.rules import Rules
from protocol.snapshot import Snapshot

SHARE_OF_SWEEPS = 0.05  # of a worker's time, at most, for looking whether something is to be healed
_AGES_EVERY = 10  # sweeps: how often ages are looked at, which costs a scratch file each time


@dataclass(slots=True)
class Healing:
    """Sweeps one drop again and again, beside the work of one consumer. For one thread, as its driver is.

    `worker` is who claims; `wanted` says of a token of `groups` whether it is to be taken now, and `is_due` whether an
    item's next attempt may begin. `ttl` is that of our own lease, in seconds. `notice` is told each thing once: a sweep finds
    the same again and again until a person has dealt with it.
    """

    driver: Driver
    rules: Rules
    groups: tuple[str, ...]
    ttl: float
    ages: Ages
    worker: Callable[[], Worker]
    wanted: Callable[[Name], bool]
    is_due: Callable[[ItemId], bool]
    notice: Callable[[str], None]
    crowd: frozenset[str] = frozenset()  # the live workers that the last sweep saw
    seen: Snapshot | None = None  # by the last sweep, where it had nothing to do
    _watch: Watch = field(init=False)
    _next: float = 0.0
    _sweeps: int = 0
    _looked_at: frozenset[Action] = frozenset()  # what the last sweep saw, and left for a second look
    _noticed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._watch = Watch(self.rules, self.driver.clock, lambda: {self.worker().owner}, self.ttl)

    def is_time(self) -> bool:
        """Whether the next sweep is due."""
        return self.driver.clock.monotonic() >= self._next

    def hasten(self) -> None:
        """The next sweep is due at once."""
        self._next = 0.0

    def waits_for_second_look(self) -> bool:
        """Whether something was seen that is healed if it is still there at the next sweep."""
        return bool(self._looked_at)

    def sweep(self, stop: Stop) -> Iterator[tuple[Name, Begun | None]]:
        """One sweep, until `stop` is set. Yields what was claimed by it and is to be processed now.

        With `Begun`: a replay, as claimed; else an item that was taken over from a dead worker.
        """
        clock, begun = self.driver.clock, self.driver.clock.monotonic()
        seen = self.driver.run(snapshot(self.rules))
        facts = Facts(self.driver.run(self._watch.dead(seen)), self._server_time())
        self.crowd = frozenset(seen.leases).difference(facts.dead)
        actions, self._looked_at = seen_twice(plan(seen, self.rules, facts, self.ages), self._looked_at)
        self.seen = seen if not actions else None
        # Where a look takes long, the drop being large or the server slow, most of the time is left for the work itself.
        interval = renewal_interval(self.ttl) * (0.75 + clock.chance.random() / 2)
        wanted = min(interval, SECOND_LOOK) if self._looked_at else interval
        self._next = begun + max(wanted, (clock.monotonic() - begun) / SHARE_OF_SWEEPS)
        for action in actions:
            if stop.is_set():
                break
            yield from self._act(action, facts)
        self.driver.run(archive_ledger(self.rules, self.worker()))

    def _act(self, action: Action, facts: Facts) -> Iterator[tuple[Name, Begun | None]]:
        match action:
            case TakeOver(claimed):
                # Of a group that is not ours: whose it is has the handler for it.
                if self._is_ours(claimed):
                    taken = self.driver.run(take_over(self.rules, claimed, self.worker().owner))
                    if taken is not None:
                        yield taken, None
            case Replay(token):
                if self._is_ours(token) and self.is_due(token.item):
                    yield from self._replay(token, facts)
            case MissingPayload(token) if token.item.group in self.groups:
                pass  # taken as any other, so that its failing is reported as any other's
            case Tell(about, text):
                self._tell(f"{about}: {text}")
            case _:
                self._carry_out(action)

    def _is_ours(self, token: Name) -> bool:
        return token.item.group in self.groups and self.wanted(token)

    def _replay(self, token: Name, facts: Facts) -> Iterator[tuple[Name, Begun | None]]:
        try:
            claimed = self.driver.run(claim_replay(self.rules, token, self.worker(), facts.dead))
        except OF_ONE_FILE:
            return  # the next sweep looks at it again
        if not isinstance(claimed, Outcome):
            yield claimed

    def _carry_out(self, action: Action) -> None:
        try:
            swept = self.driver.run(carry_out(quick(self.rules), action, self.worker()))
        except OF_ONE_FILE as error:
            self._tell(str(error))
            return
        if not swept.done:
            self._tell(swept.text)

    def _server_time(self) -> float | None:
        self._sweeps += 1
        looked_at = (self.ages.before, self.ages.ready, self.ages.after)
        if all(age is None for age in looked_at) or self._sweeps % _AGES_EVERY != 1:
            return None
        return self.driver.run(_ask_server_time())

    def _tell(self, text: str) -> None:
        if text not in self._noticed:
            self._noticed.add(text)
            self.notice(text)


async def _ask_server_time() -> float:
    return await ServerTime()
