"""Keeps the leases of this process alive, in the background, over a connection of its own (PROTOCOL section 6).

A lease that could not be renewed for `ttl` by our own clock is *lost*: somebody may have taken it for dead, and its claims
with it. That clock counts the time this machine was suspended. A lost lease is never renewed again; its worker takes a new
owner id before it claims anything else. Work under way goes on: whether its claim still stands is found out by the rename
that would complete it.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from gateway.handoff.clock import Clock
from gateway.handoff.driver import Driver
from gateway.handoff.machine import machine_id, own_process
from protocol.errors import ProtocolError
from protocol.lease import Lease, renewal_interval
from protocol.procedures.hold_lease import give_up_lease, renew_lease, take_lease
from protocol.rules import Rules
from transports.errors import NoSpace, TransportError

DEFAULT_TTL = 30.0  # seconds
SHORTEST_TTL = 3.0  # seconds: servers may stamp files by whole seconds, and three beats must differ


@dataclass(slots=True)
class Held:
    """One lease that is being kept. `renewed_at` is on our own clock, in seconds."""

    owner: str
    acquired_at: str
    renewed_at: float
    beat: int = 0
    lost: bool = False
    trouble: str = ""


@dataclass(slots=True)
class Heartbeat:
    """Renews every lease that was taken here each `ttl`/3, until it is given up or this is closed."""

    open_driver: Callable[[], Driver]
    rules: Rules
    host: str
    clock: Clock
    ttl: float = DEFAULT_TTL
    _held: dict[str, Held] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _wake: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def take(self, driver: Driver, owner: str) -> None:
        """Takes a lease and begins to keep it. Raises transport errors, and Anomaly where the id is in use."""
        held = Held(owner, self.clock.utc(), self.clock.suspended())
        try:
            driver.run(take_lease(self.rules, self._lease(held)))
        except NoSpace:
            # A consumer makes room rather than needs it: a full disk must not stop it.
            driver.run(take_lease(self.rules, self._lease(held), empty=True))
        with self._lock:
            self._held[owner] = held
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
                self._thread.start()

    def is_lost(self, owner: str) -> bool:
        """Whether this owner's lease may have been taken for dead by somebody."""
        with self._lock:
            held = self._held.get(owner)
            return held is None or self._judge(held)

    def give_up(self, driver: Driver, owner: str) -> bool:
        """Stops keeping a lease, and removes it; False where somebody has it open. Raises transport errors.

        After either it expires, which is as good.
        """
        with self._lock:
            self._held.pop(owner, None)
        return driver.run(give_up_lease(self.rules, owner))

    def forget(self, owner: str) -> None:
        """Stops keeping a lease that is lost, and leaves its file to whoever takes the claims over."""
        with self._lock:
            self._held.pop(owner, None)

    def close(self) -> None:
        """Ends the background thread. Leases that were not given up expire."""
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _judge(self, held: Held) -> bool:
        if self.clock.suspended() - held.renewed_at > self.ttl:
            held.lost = True
        return held.lost

    def _beat(self) -> None:
        driver = self.open_driver()
        with driver.connection:
            while not self._wake.wait(renewal_interval(self.ttl)):
                with self._lock:
                    due = [held for held in self._held.values() if not self._judge(held)]
                for held in due:
                    self._renew(driver, held)
                driver.connection.rest()

    def _renew(self, driver: Driver, held: Held) -> None:
        asked_at = self.clock.suspended()
        try:
            held.beat += 1
            try:
                renewed = driver.run(renew_lease(self.rules, self._lease(held)))
            except NoSpace:
                renewed = driver.run(renew_lease(self.rules, self._lease(held), empty=True))
        except (TransportError, ProtocolError) as error:
            # The next beat is soon. If none succeeds the lease is lost by our own clock, and its worker sees to that.
            held.trouble = str(error)
            driver.connection.lost()
            return
        with self._lock:
            # From when it was asked for: a reply that took long must not make the lease look younger than it is. And one that
            # took longer than the lease had left came too late: somebody may have taken us for dead before.
            if renewed and not self._judge(held):
                held.renewed_at, held.trouble = asked_at, ""
            else:
                held.trouble = "the lease's file is held open, or the reply was lost, or came too late"
            given_up = held.owner not in self._held
        if given_up:
            # Given up while it was being renewed: it must not stay behind as the lease of nobody.
            try:
                driver.run(give_up_lease(self.rules, held.owner))
            except TransportError:
                driver.connection.lost()  # it expires

    def _lease(self, held: Held) -> Lease:
        now = self.clock.utc()
        pid, started = own_process()
        expires = datetime.fromisoformat(now) + timedelta(seconds=self.ttl)
        return Lease(
            owner=held.owner,
            host=self.host,
            pid=pid,
            acquired_at=held.acquired_at,
            heartbeat_at=now,
            expires_at=expires.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            ttl=self.ttl,
            beat=held.beat,
            started=started,
            machine=machine_id(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
