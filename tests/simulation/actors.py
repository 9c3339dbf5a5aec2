"""Who works on a drop: producers, consumers with their heartbeats, routes, sweepers, and an operator with `mv`.

Each is a coroutine over the procedures of `protocol/`, in the way in which the gateway's own classes call them.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gateway.handoff.clock import Clock
from gateway.handoff.watch import Watch
from protocol.errors import OutcomeUnresolved, ProtocolError, PublishInterrupted
from protocol.lease import Lease, expired_by_server_clock, renewal_interval
from protocol.manifest import Producer
from protocol.names import ItemId, Name
from protocol.operations import Operation, Outcome, ServerTime
from protocol.procedures.adopt import Found, adopt
from protocol.procedures.claim import claim, prepare_owner
from protocol.procedures.consume import Begun, Consumed, Result, Worker, consume, settle
from protocol.procedures.hold_lease import give_up_lease, renew_lease, take_lease
from protocol.procedures.look import ready_tokens, snapshot
from protocol.procedures.publish import Draft, DraftFile, publish
from protocol.procedures.replay import claim_replay
from protocol.procedures.sweep import Unwanted, archive_ledger, carry_out, take_over
from protocol.procedures.take_number import take_numbers
from protocol.recovery import Ages, Facts, Replay, TakeOver, Tell, plan
from protocol.rules import Rules
from tests.simulation.promises import MAX_ATTEMPTS, Promises, Sent

GROUP = "orders_"
TTL = 10.0  # seconds of simulated time
NOT_OLD = Ages(before=None)
OLD = Ages(before=50 * TTL)


class Disconnected(Exception):
    """A connection died, and this call is known to have changed nothing or to have left an unfinished file."""


@dataclass(frozen=True, slots=True)
class Sleep(Operation[None]):
    """Not before so many seconds have passed."""

    seconds: float


@dataclass(slots=True)
class Host:
    """One machine: what dies, sleeps and is wrong about the time together. `wall` is its clock's error, in seconds."""

    name: str
    wall: float
    alive: bool = True
    frozen_until: float = 0.0
    owners: int = 0
    held: str = ""  # the owner id of its consumer
    renewed_at: float = 0.0


@dataclass(slots=True)
class Words:
    """The content of a file to be sent."""

    data: bytes

    def chunks(self) -> Iterator[bytes]:
        yield self.data


@dataclass(slots=True)
class Setting:
    """What an actor knows of the simulation it is in. `draining`: told to come to an end."""

    rules: Rules
    host: Host
    chance: random.Random
    promises: Promises
    now: Callable[[], float]
    ages: Ages = NOT_OLD  # by which a consumer heals
    draining: bool = False
    idle: int = 0  # rounds in a row in which its consumer found nothing to do

    def owner(self) -> str:
        self.host.owners += 1
        return f"{self.host.name}-{self.host.owners}"

    def utc(self) -> str:
        return utc(self.now() + self.host.wall)


def utc(seconds: float) -> str:
    """A time of the simulation as a text."""
    minutes = int(seconds) // 60 % 3600
    return f"2026-11-30T{minutes // 60 % 24:02}:{minutes % 60:02}:00Z"


def draft_of(sent: Sent, host: str) -> Draft:
    """What a producer hands over."""
    files = tuple(DraftFile(suffix, Words(content)) for suffix, content in sent.contents.items())
    return Draft(GROUP, files, sent.key, Producer(host=host, software="simulation"), {})


async def producer(setting: Setting, items: list[tuple[Sent, int | None]]) -> None:
    """Sends items, each under its own key, and under a given number or the counter's next."""
    for sent, number in items:
        try:
            taken = await take_numbers(setting.rules, GROUP, setting.owner()) if number is None else number
            if number is None:
                setting.promises.took(taken)
        except (ProtocolError, Disconnected):
            continue
        try:
            await publish(setting.rules, draft_of(sent, setting.host.name), taken, given=number is not None)
        except (PublishInterrupted, OutcomeUnresolved, Disconnected):
            continue  # a person would look; what is there must be safe as it is
        except ProtocolError:
            sent.refused = True


async def forward(rules: Rules, draft: Draft, number: int, hashes: Mapping[str, str]) -> bool:
    """What a route does at its destination (`gateway.handoff.producer.Producer.forward`); False: it was there already."""
    if await adopt(rules, ItemId(draft.group, number), draft.key, dict(hashes)) is Found.PUBLISHED:
        return False
    await publish(rules, draft, number, given=True)
    return True


def _lease(setting: Setting, owner: str, beat: int) -> Lease:
    at = setting.utc()
    return Lease.model_construct(
        owner=owner,
        host=setting.host.name,
        pid=1,
        acquired_at=at,
        heartbeat_at=at,
        expires_at=utc(setting.now() + setting.host.wall + TTL),
        ttl=TTL,
        beat=beat,
        started="",
        machine="",
    )


def lease_is_lost(setting: Setting) -> bool:
    """By the host's own clock, which counts its sleep."""
    return setting.now() - setting.host.renewed_at > TTL


async def heartbeat(setting: Setting) -> None:
    """Renews the lease of the host's consumer, as long as it is not lost."""
    beat = 0
    while not setting.draining:
        await Sleep(renewal_interval(TTL))
        owner = setting.host.held
        if not owner or lease_is_lost(setting):
            continue
        asked, beat = setting.now(), beat + 1
        try:
            renewed = await renew_lease(setting.rules, _lease(setting, owner, beat))
        except (ProtocolError, Disconnected):
            continue
        if renewed and setting.host.held == owner and not lease_is_lost(setting):
            setting.host.renewed_at = asked


async def consumer(setting: Setting) -> None:
    """Claims, processes, heals; begins as another owner after a lost lease."""
    clock = Clock(monotonic=lambda: setting.now() + 7919.0, suspended=setting.now, utc=setting.utc)
    watch = Watch(setting.rules, clock, lambda: {setting.host.held}, TTL)
    while not setting.draining:
        owner = setting.owner()
        asked = setting.now()
        try:
            await take_lease(setting.rules, _lease(setting, owner, 0))
            setting.host.held, setting.host.renewed_at = owner, asked
            await prepare_owner(setting.rules, owner)
        except (ProtocolError, Disconnected):
            setting.host.held = ""
            continue
        orderly = await _Rounds(setting, Worker(owner, setting.host.name, MAX_ATTEMPTS), watch).work()
        setting.host.held = ""
        if orderly:
            try:
                await give_up_lease(setting.rules, owner)
            except (ProtocolError, Disconnected):
                return


class _Rounds:
    """What a consumer does under one owner id."""

    def __init__(self, setting: Setting, worker: Worker, watch: Watch) -> None:
        self.setting = setting
        self.rules = setting.rules
        self.worker = worker
        self.watch = watch
        self.unsettled: list[Consumed] = []
        self.held: list[Name] = []
        self.heal_at = 0.0
        self.lost = False  # a claim was taken away: whoever took it believed us dead

    async def work(self) -> bool:
        """True once told to end, holding nothing; False once the lease or a claim was lost."""
        idle = 0
        while not lease_is_lost(self.setting) and not self.lost:
            if self.setting.draining and not (self.unsettled or self.held):
                return True
            before = self.setting.promises.world.changes
            try:
                await self._round()
            except (ProtocolError, Disconnected):
                idle = -1
            idle = idle + 1 if self.setting.promises.world.changes == before else 0
            self.setting.idle = idle
            if idle:
                await Sleep(TTL / 20 * min(2**idle, 8))
        return False

    async def _round(self) -> None:
        """One look at the drop and what follows from it."""
        await self._settle_held()
        if self.setting.now() >= self.heal_at:
            self.heal_at = self.setting.now() + renewal_interval(TTL) * (0.5 + self.setting.chance.random())
            await self._heal()
        tokens = await ready_tokens(self.rules, GROUP)
        self.setting.chance.shuffle(tokens)
        for token in tokens:
            if lease_is_lost(self.setting) or self.lost:
                break
            claimed = await claim(self.rules, token, self.worker.owner)
            if not isinstance(claimed, Outcome):
                await self._consume(claimed)

    async def _settle_held(self) -> None:
        for consumed in [self.unsettled.pop() for _ in range(len(self.unsettled))]:
            self._tell(await settle(self.rules, consumed))
        for claimed in [self.held.pop() for _ in range(len(self.held))]:
            await self._consume(claimed, taken_over=True)

    async def _consume(self, claimed: Name, *, taken_over: bool = False, begun: Begun | None = None) -> None:
        self._tell(await consume(self.rules, claimed, self.worker, taken_over=taken_over, begun=begun))

    def _tell(self, consumed: Consumed) -> None:
        if consumed.result is Result.UNSETTLED:
            self.unsettled.append(consumed)
        elif consumed.result is Result.HELD:
            self.held.append(consumed.claimed)
        elif consumed.result is Result.LOST:
            self.lost = True

    async def _heal(self) -> None:
        seen = await snapshot(self.rules)
        facts = Facts(await self.watch.dead(seen))
        for action in plan(seen, self.rules, facts, self.setting.ages):
            if lease_is_lost(self.setting) or self.lost:
                break
            match action:
                case TakeOver(claimed):
                    taken = await take_over(self.rules, claimed, self.worker.owner)
                    if taken is not None:
                        await self._consume(taken, taken_over=True)
                case Replay(token):
                    again = await claim_replay(self.rules, token, self.worker, facts.dead)
                    if not isinstance(again, Outcome):
                        await self._consume(again[0], begun=again[1])
                case _:
                    await carry_out(self.rules, action, self.worker)
        await archive_ledger(self.rules, self.worker)


async def sweeper(setting: Setting, rounds: int, unwanted: Unwanted = Unwanted.REPORT, ages: Ages = OLD) -> None:
    """Sweeps by the server's clock alone, having watched nothing; ends early where nothing is left to do."""
    for _ in range(rounds):
        worker = Worker(setting.owner(), setting.host.name, MAX_ATTEMPTS)
        try:
            await prepare_owner(setting.rules, worker.owner)
            now = await ServerTime()
            seen = await snapshot(setting.rules)
            dead = {
                owner
                for owner, listed in seen.leases.items()
                if expired_by_server_clock(lease_modified=listed.modified or 0.0, just_written=now, ttl=TTL, resolution=0.0)
            }
            without = seen.claimants() - set(seen.leases)
            if without:
                await Sleep(TTL)
                again = await snapshot(setting.rules)
                dead |= without & again.claimants() - set(again.leases)
            actions = plan(seen, setting.rules, Facts(frozenset(dead), now), ages)
            for action in actions:
                await carry_out(setting.rules, action, worker, unwanted)
            await archive_ledger(setting.rules, worker)
            if setting.draining and all(isinstance(action, Tell | Replay) for action in actions):
                return
        except (ProtocolError, Disconnected):
            pass
        await Sleep(TTL / 5)
