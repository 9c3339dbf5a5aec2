"""The public face: one drop, and what can be done with it.

from gateway.drop import Drop, Outgoing

drop = Drop.at("sftp://orders@files.example/out", groups=("orders_",))
with drop.producer() as producer:
    producer.send([Outgoing(Path("today.csv"))], group="orders_")
"""

import contextlib
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.handoff.circuit import Circuit
from gateway.handoff.clock import Clock
from gateway.handoff.connection import Connection, Patience
from gateway.handoff.consumer import Consumer, Delivery, Event, Handler, Result
from gateway.handoff.driver import Driver
from gateway.handoff.heartbeat import DEFAULT_TTL, Heartbeat
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.owner import new_owner
from gateway.handoff.probe import check_groups, probe
from gateway.handoff.producer import Outgoing, Producer
from gateway.handoff.slots import Slots
from protocol.procedures import look
from protocol.rules import Rules
from protocol.signature import sign
from protocol.snapshot import Snapshot
from transports.base import Transport
from transports.connect import connect
from transports.endpoint import Endpoint
from transports.urls import parse_url

__all__ = ["Consumer", "Delivery", "Drop", "Event", "Handler", "Outgoing", "Producer", "Result", "Rules"]


@dataclass(frozen=True, slots=True)
class Drop:
    """A directory on an endpoint, with the rules it is used by.

    `groups` are the group prefixes that are known beforehand; `signing_key` signs the manifests of what is sent.
    """

    endpoint: Endpoint
    rules: Rules = field(default_factory=Rules)
    groups: tuple[str, ...] = ()
    signing_key: Ed25519PrivateKey | None = None
    clock: Clock = field(default_factory=Clock)
    circuit: Circuit | None = None  # shared by the drops of one endpoint
    slots: Slots | None = None  # as well, where it takes only so many connections

    @classmethod
    def at(cls, url: str, *, rules: Rules | None = None, groups: tuple[str, ...] = ()) -> "Drop":
        """The drop at a URL or a plain path, with default rules unless others are given. Raises InvalidURL."""
        return cls(Endpoint(parse_url(url)), rules or Rules(), groups)

    def __str__(self) -> str:
        return str(self.endpoint.location)

    @property
    def signing_key_id(self) -> bytes:
        """The public half of the signing key; b"" where nothing is signed."""
        return b"" if self.signing_key is None else self.signing_key.public_key().public_bytes_raw()

    def producer(self, patience: Patience | None = None) -> Producer:
        """A producer of its own connection, once the drop was found fit. Raises UnfitDrop and transport errors.

        `patience` is for an endpoint that is lost meanwhile.
        """
        driver, owner = self._driver(patience), new_owner(self.clock)
        self._check(driver, owner, self.groups)
        key = self.signing_key
        return Producer(driver, self.rules, owner, None if key is None else lambda manifest: sign(manifest, key))

    @contextlib.contextmanager
    def driver(
        self, ledger: Ledger | None = None, patience: Patience | None = None, *, short: bool = False
    ) -> Iterator[Driver]:
        """A driver of its own connection, for procedures that are run by themselves. Raises transport errors.

        With `short` it need not wait behind long transfers where connections are limited, and must soon be left.
        """
        driver = self._driver(patience, short=short)
        if ledger is not None:
            driver.ledger = ledger
        with driver.connection:
            driver.connection.use()
            yield driver

    def connection(self) -> Connection:
        """A connection to the folder itself, not made yet, for one thread. The caller closes it."""
        return self._driver().connection

    def heartbeat(self, ttl: float = DEFAULT_TTL) -> Heartbeat:
        """What keeps the leases of this process's consumers of this drop, over a connection of its own. The caller closes it.

        Several consumers may share one. `ttl` is in seconds: how long after a worker's death its items are taken over.
        """
        # One try a beat: the next beat is soon, and a lease must not be renewed late by a patient connection.
        patience = Patience(attempts=1)
        return Heartbeat(lambda: self._driver(patience, short=True), self.rules, platform.node(), self.clock, ttl)

    def consumer(
        self,
        groups: tuple[str, ...],
        handler: Handler,
        report: Callable[[Event], None],
        *,
        ledger: Ledger | None = None,
        **settings: Any,
    ) -> Consumer:
        """A consumer of its own connection, once the drop was found fit. `settings` are those of `Consumer`.

        All workers that share the work share the `ledger`; without one, a consumer remembers within itself what it did.
        Raises InvalidName for a group outside the grammar, UnfitDrop and transport errors.
        """
        for group in groups:
            self.rules.grammar.check_prefix(group)
        driver, owner = self._driver(), new_owner(self.clock)
        if ledger is not None:
            driver.ledger = ledger
        self._check(driver, owner, groups)
        return Consumer(driver, self.rules, owner, groups, handler, report, **settings)

    def snapshot(self) -> Snapshot:
        """What the drop holds just now. Changes nothing. Raises transport errors."""
        with self.driver() as driver:
            return driver.run(look.snapshot(self.rules))

    def _driver(self, patience: Patience | None = None, *, short: bool = False) -> Driver:
        def open_transport() -> Transport:
            return connect(self.endpoint) if self.circuit is None else self.circuit.connect(lambda: connect(self.endpoint))

        return Driver(Connection(open_transport, self.clock, patience, slots=self.slots, short=short), self.clock)

    def _check(self, driver: Driver, owner: str, groups: tuple[str, ...]) -> None:
        try:
            probe(driver.connection, self.rules, owner, groups)
            check_groups(driver.run(look.snapshot(self.rules)), groups)
        except BaseException:
            driver.connection.close()
            raise
