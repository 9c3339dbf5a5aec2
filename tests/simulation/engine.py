"""Actors on hosts, advanced one visible step at a time, whoever decides which one is next.

A step is everything that nobody could look into: an operation of one actor, or one half of one that others can see half
made. Clocks and pauses are no steps. What befalls the actors is decided by a subclass: by chance, or by a plan.
"""

import contextlib
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from protocol.errors import (
    Anomaly,
    InvalidManifest,
    InvalidName,
    OutcomeUnresolved,
    PublishInterrupted,
    SequenceExhausted,
    SequenceTaken,
    StillBusy,
    StoredWrong,
)
from protocol.ledger import LedgerState
from protocol.manifest import Producer
from protocol.operations import (
    Claim,
    Delete,
    Handle,
    Handled,
    Instant,
    MakeFolder,
    Now,
    Operation,
    Outcome,
    Pause,
    Procedure,
    Publish,
    ReadLedger,
    Replace,
    Stat,
    Store,
    UnarchivedKeys,
    Verdict,
    WriteLedger,
)
from protocol.procedures.publish import Draft, DraftFile
from protocol.recovery import Ages
from protocol.rules import Rules
from protocol.states import State
from tests.simulation.actors import (
    GROUP,
    NOT_OLD,
    TTL,
    Disconnected,
    Host,
    Setting,
    Sleep,
    Words,
    consumer,
    forward,
    heartbeat,
    utc,
)
from tests.simulation.promises import Promises, Run
from tests.simulation.world import Flavour, Work, World

CHANGES = (Publish, Claim, Delete, Replace, MakeFolder)
_LOOKS = (Stat, Pause, Claim, Delete)
_LONG = 36_000.0  # seconds, after which everything is old


@dataclass(slots=True)
class Drop:
    """One drop, and what is promised of it."""

    world: World
    promises: Promises


@dataclass(slots=True)
class Actor:
    """One coroutine on a host, between two of its steps."""

    name: str
    host: Host
    drop: Drop
    procedure: Procedure[Any]
    forward: Drop | None = None  # where its handler publishes what it is given
    operation: Operation[Any] | None = None
    work: Work | None = None
    due: float = 0.0
    over: bool = False
    began: bool = False
    putting: str = ""  # the ready name of a payload that it puts away just now


@dataclass(slots=True)
class Fault:
    """What befalls one operation: lost `before` or `after` it, carried out `late`, `cut` in two, or the connection `died`."""

    kind: str


class Engine:
    """Drops, actors, and the time. Subclasses say who is next (`pick`) and what befalls whom (`befall`, `fault`)."""

    def __init__(self, chance: random.Random, *, trace: bool = False) -> None:
        self.chance = chance
        self.trace: list[str] | None = [] if trace else None
        self.faults: Counter[str] = Counter()
        self.drops: list[Drop] = []
        self.actors: list[Actor] = []
        self.hosts: dict[str, Host] = {}  # by the owner ids that they have used
        self.orphans: list[Work] = []  # what servers end for clients that are gone
        self.settings: list[Setting] = []
        self.time = 0.0
        self.step = 0
        self.quiet = False  # no more faults
        self.acting: Actor | None = None
        self.seen: list[tuple[str, str]] = []  # every step of a token: the states before and after

    # Decided by subclasses.

    def pick(self, ready: list[Actor]) -> Actor:
        """Who is next."""
        raise NotImplementedError

    def befall(self) -> None:
        """What happens to hosts, and what people do, before a step."""

    def fault(self, actor: Actor, operation: Operation[Any], world: World) -> Fault | None:
        """What befalls an operation that reaches a server."""
        return None

    def verdict(self, operation: Handle) -> Handled:
        """What a handler makes of an item that it was given."""
        return Handled(Verdict.PROCESSED, "done")

    # Setting the scene.

    def drop(self, rules: Rules, flavour: Flavour, offset: float) -> Drop:
        """A new, empty drop."""
        world = World(rules, flavour, self.chance, offset)
        drop = Drop(world, Promises(world))
        drop.promises.is_live = self._is_live
        drop.promises.by_its_owner = self._by_its_owner
        self.drops.append(drop)
        return drop

    def setting(self, drop: Drop, host: Host, ages: Ages = NOT_OLD) -> Setting:
        """What an actor on a host is told."""
        setting = Setting(drop.world.rules, host, self.chance, drop.promises, lambda: self.time, ages)
        self.settings.append(setting)
        return setting

    def add(self, name: str, host: Host, drop: Drop, procedure: Procedure[Any], forward: Drop | None = None) -> Actor:
        """Puts an actor on a host."""
        actor = Actor(name, host, drop, procedure, forward)
        self.actors.append(actor)
        self.hosts.setdefault(host.name, host)
        return actor

    def add_consumer(self, drop: Drop, host: Host, ages: Ages = NOT_OLD, forward: Drop | None = None) -> Setting:
        """A consumer and its heartbeat."""
        setting = self.setting(drop, host, ages)
        self.add(host.name, host, drop, consumer(setting), forward)
        self.add(f"{host.name}-beat", host, drop, heartbeat(setting))
        return setting

    # Running it.

    def go_on(self) -> bool:
        """One step of somebody; False once all are over."""
        self.step += 1
        self.befall()
        if self.orphans:
            self.end_orphans()
        now = self.time
        ready = [a for a in self.actors if not a.over and a.due <= now and (a.host.frozen_until <= now or self._goes_on(a))]
        while not ready:
            waiting = [max(a.due, a.host.frozen_until) for a in self.actors if not a.over]
            if not waiting:
                return False
            now = self.tick(max(min(waiting), now) - now + 1e-6)
            ready = [a for a in self.actors if not a.over and a.due <= now and a.host.frozen_until <= now]
        self.advance(self.pick(ready))
        return True

    def tick(self, seconds: float) -> float:
        """Time passes; the time it is then."""
        self.time += seconds
        for drop in self.drops:
            drop.world.time = self.time
        return self.time

    def _goes_on(self, actor: Actor) -> bool:
        return actor.work is not None and actor.operation is not None and actor.drop.world.goes_on(actor.operation)

    def end_orphans(self) -> None:
        """Servers end what they have begun for clients that are gone."""
        orphans, self.orphans = self.orphans, []
        for orphan in orphans:
            with contextlib.suppress(StopIteration):
                next(orphan)

    def kill(self, name: str) -> None:
        """A host loses its power. What a server has begun for it goes on."""
        for actor in self.actors:
            if actor.host.name != name or actor.over:
                continue
            actor.over, actor.host.alive = True, False
            if self._goes_on(actor) and actor.work is not None:
                self.orphans.append(actor.work)
            elif actor.work is not None:
                actor.work.close()
            actor.work = None
            actor.procedure.close()

    def close(self) -> None:
        """Ends whoever is still at it, where a simulation ends in the middle."""
        for actor in self.actors:
            if actor.work is not None:
                actor.work.close()
            actor.procedure.close()

    def advance(self, actor: Actor) -> None:
        """One step of one actor."""
        self.acting = actor
        if not actor.began:
            actor.began = True
            self._resume(actor, None, None)
            return
        operation = actor.operation
        assert operation is not None
        try:
            if actor.work is None:
                if isinstance(operation, Sleep | Pause):
                    self._resume(actor, None, None)
                    return
                actor.work = self._begin(actor, actor.drop, operation)
            next(actor.work)
        except StopIteration as stop:
            if self.trace is not None:
                self._tell(actor, stop.value)
            self._resume(actor, stop.value, None)
        except Disconnected as error:
            if self.trace is not None:
                self._tell(actor, error)
            self._resume(actor, None, error)

    def _resume(self, actor: Actor, value: Any, error: Exception | None) -> None:
        actor.work = None
        procedure = actor.procedure
        try:
            operation = procedure.send(value) if error is None else procedure.throw(error)
            while type(operation) is Now:
                # Nobody can tell when a clock was read: it takes no step.
                operation = procedure.send(self._instant(actor))
        except StopIteration:
            actor.over = True
            return
        actor.operation = operation
        kind = type(operation)
        if kind is Sleep:
            actor.due = self.time + operation.seconds
        elif kind is Pause:
            actor.due = self.time + 0.05 * 2 ** min(operation.attempt, 5)
        self._watch_putting(actor, operation)

    def _instant(self, actor: Actor) -> Instant:
        return Instant(self.time + 104_729.0, utc(self.time + actor.host.wall))

    def _watch_putting(self, actor: Actor, operation: Operation[Any]) -> None:
        """Notes who is about to put a payload away: an operator who brings it back just then asks once more (docs)."""
        if isinstance(operation, Publish):
            name = actor.drop.world.name(operation.src)
            later = actor.drop.world.name(operation.dst)
            away = name is not None and later is not None and later.state in (State.AFTER, State.ERROR)
            actor.putting = operation.src if away else ""
        elif actor.putting and not isinstance(operation, _LOOKS):
            actor.putting = ""

    def _begin(self, actor: Actor, drop: Drop, operation: Operation[Any]) -> Work:
        match operation:
            case Handle():
                return self._handle(actor, drop, operation)
            case ReadLedger(key):
                return _only(drop.promises.ledger.get(key))
            case WriteLedger():
                return _only(self._write_ledger(drop, operation))
            case UnarchivedKeys():
                return _only(tuple((k, e) for k, e in drop.promises.ledger.items() if e.state is LedgerState.DONE))
        fault = None if self.quiet else self.fault(actor, operation, drop.world)
        if fault is not None:
            return self._faulty(drop.world, operation, fault.kind)
        work = drop.world.work(operation)
        return _only(drop.world.at_once(operation)) if work is None else work

    def _faulty(self, world: World, operation: Operation[Any], kind: str) -> Work:
        if kind == "died":
            if isinstance(operation, Store) and self.chance.random() < 0.5:
                yield from world.work(operation) or ()
            raise Disconnected(f"in {operation!r}")
        if kind == "after":
            work = world.work(operation)
            if work is None:
                world.at_once(operation)
            else:
                yield from work
        elif kind == "late":
            world.late.append(operation)
        elif kind == "cut":
            world.cut(operation)
        yield
        return Outcome.UNKNOWN

    def _write_ledger(self, drop: Drop, operation: WriteLedger) -> bool:
        ledger = drop.promises.ledger
        if ledger.get(operation.key) != operation.before:
            return False
        ledger[operation.key] = operation.after
        drop.promises.wrote(operation.key, operation.before, operation.after)
        return True

    def _handle(self, actor: Actor, drop: Drop, operation: Handle) -> Work:
        if not drop.promises.handing_over(operation):
            yield
            return Handled(Verdict.UNFIT, error="a payload vanished", kind="IntegrityError")
        run: Run = drop.promises.begins(operation)
        yield
        if actor.forward is not None:
            handled = yield from self._forward(actor, actor.forward, drop, operation)
        else:
            yield
            handled = self.verdict(operation)
        run.ended = True
        return handled

    def _forward(self, actor: Actor, to: Drop, drop: Drop, operation: Handle) -> Work:
        """A route's handler, with the verdicts of `gateway.service.routes.Forward`."""
        payloads = operation.contents.payloads
        contents = {p.name.suffix: drop.world.files[p.path].data for p in payloads if p.path in drop.world.files}
        files = tuple(DraftFile(suffix, Words(data)) for suffix, data in contents.items())
        hashes = {p.name.suffix: f"{p.algorithm}:{p.digest}" for p in payloads}
        draft = Draft(GROUP, files, operation.key, Producer(host=actor.host.name, software="simulation"), {})
        procedure = forward(to.world.rules, draft, operation.claimed.item.number, hashes)
        value: Any = None
        error: Exception | None = None
        try:
            while True:
                asked = procedure.send(value) if error is None else procedure.throw(error)
                value, error = None, None
                if isinstance(asked, Now):
                    value = self._instant(actor)
                    continue
                if isinstance(asked, Pause | Sleep):
                    actor.due = self.time + 0.1
                    yield
                    continue
                try:
                    value = yield from self._begin(actor, to, asked)
                except Disconnected as died:
                    error = died
                if self.trace is not None:
                    at = f"{self.step:5} {self.time:9.2f}  {actor.name:8} at the destination"
                    self.trace.append(f"{at} {shorten(asked)} -> {shorten(value)}")
                yield
        except StopIteration as stop:
            return Handled(Verdict.PROCESSED, "published" if stop.value else "was published before")
        except (SequenceTaken, SequenceExhausted, InvalidName, InvalidManifest, Anomaly) as refused:
            return Handled(Verdict.REFUSED, error=str(refused), kind=type(refused).__name__)
        except (Disconnected, StoredWrong, PublishInterrupted, OutcomeUnresolved, StillBusy) as failed:
            return Handled(Verdict.REFUSED, error=str(failed), kind=type(failed).__name__)

    # What the whole world could know of a worker.

    def _is_live(self, owner: str) -> bool:
        host = self.hosts.get(owner.rpartition("-")[0])
        return host is not None and host.alive and host.held == owner and self.time - host.renewed_at <= TTL

    def _by_its_owner(self, owner: str) -> bool:
        # Nobody acts where a server carries out a late request: whoever sent it was allowed to.
        return self.acting is None or self.acting.host.name == owner.rpartition("-")[0]

    def carry_out_late(self, world: World) -> None:
        """What a server still had to do for connections that are gone."""
        self.acting = None
        world.carry_out_late()

    # Telling.

    def count(self, what: str, about: str = "") -> None:
        """A fault that was injected."""
        self.faults[what] += 1
        if self.trace is not None:
            self.trace.append(f"{self.step:5} {self.time:9.2f}  *** {what} {about}")

    def _tell(self, actor: Actor, result: Any) -> None:
        assert self.trace is not None
        shown = f"{len(result)} names" if isinstance(result, tuple) and len(result) > 3 else result
        self.trace.append(f"{self.step:5} {self.time:9.2f}  {actor.name:8} {shorten(actor.operation)} -> {shorten(shown)}")


def shorten(value: object) -> str:
    """How something is shown in a trace."""
    text = value.value if isinstance(value, Outcome) else repr(value)
    return text if len(text) < 160 else text[:157] + "..."


def _only(value: Any) -> Work:
    yield from ()
    return value
