"""One sweep by itself, without a consumer: for a person at a terminal, or a timer (PROTOCOL sections 6 and 11).

It has not watched any lease, so it compares a lease's modification time with that of a file it has just written: both are
stamped by the server's clock. Who holds a claim and no lease is looked at twice.
"""

import platform
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.handoff.driver import Driver
from gateway.handoff.heartbeat import DEFAULT_TTL
from gateway.handoff.second_look import SECOND_LOOK, seen_twice
from gateway.handoff.watch import process_is_gone
from protocol.errors import InvalidLease
from protocol.lease import LARGEST, expired_by_server_clock, parse_lease
from protocol.operations import MakeFolder, Outcome, ReadSmall, ServerTime
from protocol.procedures.consume import Worker
from protocol.procedures.look import snapshot
from protocol.procedures.sweep import Swept, Unwanted, archive_ledger, carry_out
from protocol.recovery import Action, Ages, Facts, plan
from protocol.rules import Rules
from protocol.snapshot import Listed, Snapshot
from protocol.states import State
from transports.errors import Busy


@dataclass(slots=True)
class Sweeper:
    """Sweeps one drop once. For one thread, as its driver is; the driver's ledger says what was processed."""

    driver: Driver
    rules: Rules
    owner: str
    ages: Ages = field(default_factory=Ages)
    unwanted: Unwanted = Unwanted.REPORT

    def plan(self) -> list[Action]:
        """What there is to do; nothing is changed. Raises transport errors."""
        actions, again = seen_twice(self._plan(), frozenset())
        if not again:
            return actions
        self.driver.clock.sleep(SECOND_LOOK)
        return seen_twice(self._plan(), again)[0]

    def _plan(self) -> list[Action]:
        now = self.driver.run(_server_time())
        seen = self.driver.run(snapshot(self.rules))
        dead = self.driver.run(self._dead(seen, now))
        return plan(seen, self.rules, Facts(dead, now), self.ages)

    def sweep(self, actions: list[Action]) -> Iterator[Swept]:
        """Carries a plan out, and tells each action as it ends. Raises transport errors; the rest can be swept again."""
        worker = Worker(self.owner, platform.node())
        if self.rules.layout.claims_folder is not None:
            self.driver.run(_make_folder(self.rules.layout.folder_of(State.CLAIMED, self.owner)))
        for action in actions:
            yield self.driver.run(carry_out(self.rules, action, worker, self.unwanted))
        self.driver.run(archive_ledger(self.rules, worker))

    async def _dead(self, seen: Snapshot, now: float) -> frozenset[str]:
        dead = {owner for owner, listed in seen.leases.items() if await self._has_expired(owner, listed, now)}
        without = seen.claimants() - set(seen.leases)
        if without:
            self.driver.clock.sleep(SECOND_LOOK)
            again = await snapshot(self.rules)
            dead |= without & again.claimants() - set(again.leases)
        return frozenset(dead)

    async def _has_expired(self, owner: str, listed: Listed, now: float) -> bool:
        try:
            data = await ReadSmall(self.rules.layout.lease(owner), LARGEST)
        except Busy:
            return False  # being renewed just now
        if data is None:
            return False  # given up just now
        try:
            lease = parse_lease(data)
        except InvalidLease:
            ttl = DEFAULT_TTL
        else:
            ttl = lease.ttl
            if process_is_gone(lease):
                return True
        if listed.modified is None:
            return False
        resolution = self.driver.connection.use().capabilities.time_resolution
        return expired_by_server_clock(lease_modified=listed.modified, just_written=now, ttl=ttl, resolution=resolution)


async def _server_time() -> float:
    return await ServerTime()


async def _make_folder(path: str) -> Outcome:
    return await MakeFolder(path)
