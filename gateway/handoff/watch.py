"""Watching other workers' leases: which owners are dead (PROTOCOL section 6).

No two hosts' clocks are compared. A lease is dead when its file has stood still for its `ttl` *while we watched*, by our own
clock; the file's modification time is only ever compared for being the same. A worker of this very machine is dead when its
process is gone. A claim without any lease is given as long: its lease may be missing from one listing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.handoff.clock import Clock
from gateway.handoff.heartbeat import DEFAULT_TTL
from gateway.handoff.machine import is_dead, machine_id
from protocol.errors import InvalidLease
from protocol.lease import LARGEST, Lease, expired_by_watching, parse_lease
from protocol.operations import ReadSmall, Stat
from protocol.rules import Rules
from protocol.snapshot import Listed, Snapshot
from transports.errors import Busy

_Stamp = tuple[float | None, int | None]


@dataclass(slots=True)
class _Seen:
    stamp: _Stamp
    since: float
    lease: Lease | None


@dataclass(slots=True)
class Watch:
    """What one watcher has seen so far. Ask it at every sweep."""

    rules: Rules
    clock: Clock
    own: Callable[[], set[str]]  # owner ids of this process, which it does not judge
    ttl: float = DEFAULT_TTL  # for claims without a lease, and for leases that cannot be read
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _missing: dict[str, float] = field(default_factory=dict)

    async def dead(self, snapshot: Snapshot) -> frozenset[str]:
        """The owners of this snapshot's leases and claims that are known to be dead. A procedure."""
        own = self.own()
        found = {owner for owner, listed in snapshot.leases.items() if owner not in own and await self._is_dead(owner, listed)}
        claimants = snapshot.claimants() - own
        found |= {owner for owner in claimants - set(snapshot.leases) if await self._is_missing(owner)}
        for known in (self._seen, self._missing):
            for owner in set(known) - set(snapshot.leases) - claimants:
                del known[owner]
        return frozenset(found)

    async def _is_dead(self, owner: str, listed: Listed) -> bool:
        self._missing.pop(owner, None)
        now = self.clock.monotonic()
        seen = self._seen.get(owner)
        stamp = (listed.modified, listed.size)
        if seen is None:
            seen = self._seen[owner] = _Seen(stamp, now, None)
        elif seen.stamp != stamp:
            seen.stamp, seen.since = stamp, now
        if seen.lease is None:
            seen.lease = await self._read(owner)
        if seen.lease is not None and process_is_gone(seen.lease):
            return True
        ttl = seen.lease.ttl if seen.lease is not None else self.ttl
        if not expired_by_watching(beat_seen_at=seen.since, now=now, ttl=ttl):
            return False
        # We may have been asleep ourselves, and the listing be older than we think: one more look, now.
        again = await Stat(self.rules.layout.lease(owner))
        if again is None or (again.modified, again.size) != seen.stamp:
            del self._seen[owner]
            return False
        return True

    async def _is_missing(self, owner: str) -> bool:
        since = self._missing.setdefault(owner, self.clock.monotonic())
        if not expired_by_watching(beat_seen_at=since, now=self.clock.monotonic(), ttl=self.ttl):
            return False
        return await Stat(self.rules.layout.lease(owner)) is None

    async def _read(self, owner: str) -> Lease | None:
        try:
            data = await ReadSmall(self.rules.layout.lease(owner), LARGEST)
            return parse_lease(data) if data is not None else None
        except (InvalidLease, Busy):
            return None  # of another make, torn, or being renewed: it is judged by standing still alone


def process_is_gone(lease: Lease) -> bool:
    """Whether the worker of a lease was a process of this very machine that has ended."""
    return bool(lease.machine) and lease.machine == machine_id() and is_dead(lease.pid, lease.started)
