"""Who works on a drop: producers, consumers with their heartbeats, sweepers, and an operator with `mv`.

Each is a coroutine over the procedures of `protocol/`, in the way in which the gateway's own classes call them.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gateway.handoff.clock import Clock
from gateway.handoff.watch import Watch
from protocol.errors import ProtocolError
from protocol.lease import Lease, expired_by_server_clock, renewal_interval
from protocol.manifest import Producer
from protocol.names import FileKind, Name
from protocol.operations import Operation, Outcome, ServerTime
from protocol.procedures.claim import claim, prepare_owner
from protocol.procedures.consume import Begun, Consumed, Result, Worker, consume, settle
from protocol.procedures.hold_lease import give_up_lease, renew_lease, take_lease
from protocol.procedures.look import ready_tokens, snapshot
from protocol.procedures.publish import Draft, DraftFile, publish
from protocol.procedures.replay import claim_replay
from protocol.procedures.sweep import Unwanted, archive_ledger, carry_out, take_over
from protocol.procedures.take_number import take_numbers
from protocol.recovery import Ages, Facts, Replay, TakeOver, plan
from protocol.rules import Rules
from protocol.states import State

GROUP = "orders_"
TTL = 10.0  # seconds of simulated time
MAX_ATTEMPTS = 3
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
    frozen_until: int = 0  # a step of the schedule
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
    """What an actor knows of the simulation it is in."""

    rules: Rules
    host: Host
    chance: random.Random
    now: Any  # () -> float: simulated time
    note: Any  # (what, **facts): told to the invariants
    draining: list[bool] = field(default_factory=lambda: [False])

    def owner(self) -> str:
        self.host.owners += 1
        return f"{self.host.name}-{self.host.owners}"

    def utc(self) -> str:
        return f"2026-11-30T15:{int(self.now() + self.host.wall) % 3600 // 60:02}:00Z"


async def producer(setting: Setting, items: list[tuple[bytes, str]]) -> None:
    """Sends items, each under its own key."""
    for content, key in items:
        owner = setting.owner()
        draft = Draft(
            GROUP, (DraftFile("csv", Words(content)),), key, Producer(host=setting.host.name, software="simulation"), {}
        )
        try:
            number = await take_numbers(setting.rules, GROUP, owner)
            setting.note("took", number=number)
            published = await publish(setting.rules, draft, number, given=False)
        except (ProtocolError, Disconnected):
            continue  # a person would look and send again; what is there must be safe as it is
        setting.note("published", item=published.item)


def _lease(setting: Setting, owner: str, beat: int) -> Lease:
    at = setting.utc()
    return Lease(
        owner=owner,
        host=setting.host.name,
        pid=1,
        acquired_at=at,
        heartbeat_at=at,
        expires_at=f"{setting.now() + setting.host.wall + TTL:.3f}",
        ttl=TTL,
        beat=beat,
    )


def lease_is_lost(setting: Setting) -> bool:
    """By the host's own clock, which counts its sleep."""
    return bool(setting.now() - setting.host.renewed_at > TTL)


async def heartbeat(setting: Setting) -> None:
    """Renews the lease of the host's consumer, as long as it is not lost."""
    beat = 0
    while not setting.draining[0]:
        await Sleep(renewal_interval(TTL))
        owner = setting.host.held
        if not owner or lease_is_lost(setting):
            continue
        asked, beat = setting.now(), beat + 1
        try:
            await renew_lease(setting.rules, _lease(setting, owner, beat))
        except (ProtocolError, Disconnected):
            continue
        if setting.host.held == owner:
            setting.host.renewed_at = asked


async def consumer(setting: Setting) -> None:
    """Claims, processes, heals; begins as another owner after a lost lease."""
    clock = Clock(monotonic=lambda: setting.now() + 7 * setting.host.wall, suspended=setting.now, utc=setting.utc)
    watch = Watch(setting.rules, clock, lambda: {setting.host.held}, TTL)
    while not setting.draining[0]:
        owner = setting.owner()
        try:
            await take_lease(setting.rules, _lease(setting, owner, 0))
            setting.host.held, setting.host.renewed_at = owner, setting.now()
            await prepare_owner(setting.rules, owner)
        except (ProtocolError, Disconnected):
            setting.host.held = ""
            continue
        orderly = await _work(setting, owner, watch)
        setting.host.held = ""
        if orderly:
            try:
                await give_up_lease(setting.rules, owner)
            except (ProtocolError, Disconnected):
                return


async def _work(setting: Setting, owner: str, watch: Watch) -> bool:
    """Rounds under one owner id; True once told to end, holding nothing, False once the lease or a claim was lost."""
    unsettled: list[Consumed] = []
    while not lease_is_lost(setting):
        if setting.draining[0]:
            return not unsettled
        try:
            if await _round(setting, owner, watch, unsettled):
                return False
            setting.note("round")
        except (ProtocolError, Disconnected):
            continue
    return False


async def _round(setting: Setting, owner: str, watch: Watch, unsettled: list[Consumed]) -> bool:
    """One look at the drop and what follows from it; True once a claim was lost."""
    worker = Worker(owner, setting.host.name, MAX_ATTEMPTS)
    for consumed in [unsettled.pop() for _ in range(len(unsettled))]:
        consumed = await settle(setting.rules, consumed)
        if consumed.result is Result.UNSETTLED:
            unsettled.append(consumed)
    if setting.chance.random() < 0.5:
        return await _heal(setting, worker, watch, unsettled)
    tokens = await ready_tokens(setting.rules, GROUP)
    setting.chance.shuffle(tokens)
    for token in tokens:
        if lease_is_lost(setting):
            return False
        claimed = await claim(setting.rules, token, owner)
        if not isinstance(claimed, Outcome) and await _consume(setting, claimed, worker, unsettled):
            return True
    if not tokens:
        await Sleep(TTL / 20)
    return False


async def _consume(
    setting: Setting,
    claimed: Name,
    worker: Worker,
    unsettled: list[Consumed],
    *,
    taken_over: bool = False,
    begun: Begun | None = None,
) -> bool:
    consumed = await consume(setting.rules, claimed, worker, taken_over=taken_over, begun=begun)
    setting.note(consumed.result.value, item=claimed.item)
    if consumed.result is Result.UNSETTLED:
        unsettled.append(consumed)
    return consumed.result is Result.LOST


async def _heal(setting: Setting, worker: Worker, watch: Watch, unsettled: list[Consumed]) -> bool:
    seen = await snapshot(setting.rules)
    facts = Facts(await watch.dead(seen))
    for action in plan(seen, setting.rules, facts, Ages(before=None)):
        if lease_is_lost(setting):
            return False
        match action:
            case TakeOver(claimed):
                taken = await take_over(setting.rules, claimed, worker.owner)
                if taken is not None and await _consume(setting, taken, worker, unsettled, taken_over=True):
                    return True
            case Replay(token):
                again = await claim_replay(setting.rules, token, worker, facts.dead)
                if not isinstance(again, Outcome):
                    claimed, begun = again
                    if await _consume(setting, claimed, worker, unsettled, begun=begun):
                        return True
            case _:
                await carry_out(setting.rules, action, worker)
    await archive_ledger(setting.rules)
    return False


async def sweeper(setting: Setting, rounds: int, unwanted: Unwanted = Unwanted.REPORT, ages: Ages = OLD) -> None:
    """Sweeps by the server's clock alone, having watched nothing."""
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
            for action in plan(seen, setting.rules, Facts(frozenset(dead), now), ages):
                await carry_out(setting.rules, action, worker, unwanted)
            await archive_ledger(setting.rules)
        except (ProtocolError, Disconnected):
            pass
        await Sleep(TTL / 5)


def bring_back(files: dict[str, Any], rules: Rules, chance: random.Random) -> tuple[str, str] | None:
    """What an operator types: `mv A_x x` for the payload of an item that is an after image."""
    names = [rules.layout.parse(path) for path in files]
    after = [n for n in names if isinstance(n, Name) and n.state is State.AFTER and not n.again]
    tokens = {n.item for n in after if rules.is_token(n.kind)}
    payloads = sorted((n for n in after if n.kind is FileKind.PAYLOAD and n.item in tokens), key=lambda n: n.item)
    if not payloads:
        return None
    name = chance.choice(payloads)
    ready = Name(name.item, name.suffix)
    return rules.layout.path(name), rules.layout.path(ready)
