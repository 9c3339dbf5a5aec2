"""One simulation: actors on hosts, a schedule drawn by chance, faults, and the promises that are checked at every step.

Everything that is random comes out of one seed, so that a seed replays exactly.
"""

import contextlib
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from protocol.layout import FolderLayout, PrefixLayout
from protocol.ledger import Entry, LedgerState
from protocol.names import ItemId, Name
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
from protocol.procedures.sweep import Unwanted
from protocol.recovery import Ages
from protocol.rules import Rules
from protocol.states import State
from tests.simulation.actors import (
    MAX_ATTEMPTS,
    TTL,
    Disconnected,
    Host,
    Setting,
    Sleep,
    bring_back,
    consumer,
    heartbeat,
    producer,
    sweeper,
)
from tests.simulation.world import FLAVOURS, Flavour, Violation, World

CHANGES = (Publish, Claim, Delete, Replace, MakeFolder)
RULES = (
    Rules(layout=PrefixLayout(), busy_patience=2.0),
    Rules(layout=FolderLayout(), busy_patience=2.0),
)


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely each fault is, per operation or per step."""

    lost: float = 0.01  # the reply to a change, with the change made, not made, made later, or cut in two
    disconnected: float = 0.003  # of a store: an unfinished file may be left
    busy: float = 0.01
    killed: float = 0.002
    frozen: float = 0.004
    leap: float = 0.002  # time passes in which nobody runs
    failing: float = 0.1  # handlers
    replay: float = 0.004
    most_kills: int = 2


@dataclass(slots=True)
class Run:
    """One run of the handler, as far as it has come."""

    owner: str
    item: ItemId
    claim: str
    ended: bool = False  # the handler has returned
    success: bool = False


@dataclass(slots=True)
class Story:
    """What was done for one key."""

    content: bytes
    runs: list[Run] = field(default_factory=list)
    done: int = 0  # successes that the ledger has recorded
    replays_asked: int = 0
    replays_run: int = 0


class Actor:
    """One coroutine on a host, between two of its steps."""

    def __init__(self, name: str, host: Host, procedure: Procedure[Any]) -> None:
        self.name = name
        self.host = host
        self.procedure = procedure
        self.operation: Operation[Any] | None = None
        self.work: Generator[None, None, Any] | None = None
        self.due = 0.0
        self.over = False
        self.began = False
        self.puts_away = False  # has seen a done token, and may be about to rename its payload


class Simulation:
    """A seed, unfolded. `trace` keeps what happened where it was asked for."""

    def __init__(self, seed: int, odds: Odds | None = None, *, trace: bool = False) -> None:
        self.seed = seed
        self.chance = random.Random(seed)  # noqa: S311 - a schedule, to be replayed by its seed
        self.odds = odds or Odds()
        self.trace: list[str] | None = [] if trace else None
        self.faults: Counter[str] = Counter()
        flavour: Flavour = self.chance.choice(FLAVOURS)
        self.rules = self.chance.choice(RULES)
        self.world = World(self.rules, flavour, self.chance, self.chance.choice((0.0, 4000.0, -90_000.0)))
        self.ledger: dict[str, Entry] = {}
        self.stories: dict[str, Story] = {}
        self.numbers: Counter[int] = Counter()
        self.step = 0
        self.kills = 0
        self.draining = [False]
        self.actors: list[Actor] = []
        self.orphans: list[Generator[None, None, Any]] = []  # what the server ends for clients that are gone
        self.quiet = False  # no more faults
        self.idle_rounds = 0

    # Setting the scene.

    def host(self, name: str) -> Host:
        return Host(name, self.chance.choice((0.0, 0.0, 5000.0, -20_000.0)))

    def setting(self, host: Host) -> Setting:
        return Setting(self.rules, host, self.chance, lambda: self.world.time, self._note, self.draining)

    def add(self, name: str, host: Host, procedure: Procedure[Any]) -> None:
        self.actors.append(Actor(name, host, procedure))

    def populate(self) -> None:
        """One or two producers, one to three consumers, perhaps a sweeper; perhaps one key sent twice."""
        producers = self.chance.choice((1, 1, 2))
        twice = self.chance.random() < 0.2
        for number in range(producers):
            host = self.host(f"p{number}")
            items = []
            for index in range(self.chance.choice((1, 1, 2))):
                key = "twice" if twice else f"key-{number}-{index}"
                story = self.stories.setdefault(key, Story(f"content of {key}".encode()))
                items.append((story.content, key))
            self.add(host.name, host, producer(self.setting(host), items))
        for number in range(self.chance.choice((1, 2, 2, 3))):
            host = self.host(f"c{number}")
            self.add(host.name, host, consumer(self.setting(host)))
            self.add(f"{host.name}-beat", host, heartbeat(self.setting(host)))
        if self.chance.random() < 0.5:
            host = self.host("s0")
            self.add(host.name, host, sweeper(self.setting(host), 3))

    # Running it.

    def run(self, steps: int = 400) -> None:
        """The schedule, then rest. Raises Violation."""
        self.populate()
        while self.step < steps and self._go_on():
            pass
        self.rest()

    def _go_on(self) -> bool:
        self.step += 1
        self.world.time += self.chance.random() * TTL / 40
        self._befall()
        for orphan in self.orphans:
            with contextlib.suppress(StopIteration):
                next(orphan)
        self.orphans.clear()
        ready = [a for a in self.actors if not a.over and self._may_go_on(a)]
        if not ready:
            self.world.time += TTL / 10
            return any(not a.over for a in self.actors)
        self._advance(self.chance.choice(ready))
        return True

    def _may_go_on(self, actor: Actor) -> bool:
        if actor.host.frozen_until > self.step:
            return actor.work is not None and actor.operation is not None and self.world.goes_on(actor.operation)
        return actor.due <= self.world.time

    def _befall(self) -> None:
        """What happens to hosts, and what people do, between two steps."""
        if self.quiet:
            return
        odds, roll = self.odds, self.chance.random()
        if roll < odds.killed and self.kills < odds.most_kills:
            living = sorted({a.host.name for a in self.actors if not a.over})
            if living:
                self.kills += 1
                self._kill(self.chance.choice(living))
        elif roll < odds.killed + odds.frozen:
            host = self.chance.choice(self.actors).host
            host.frozen_until = self.step + self.chance.randrange(5, 120)
            self._count("frozen", host.name)
        elif roll < odds.killed + odds.frozen + odds.leap:
            self.world.time += TTL * self.chance.uniform(0.5, 2.0)
            self._count("leap")
        elif roll < odds.killed + odds.frozen + odds.leap + odds.replay:
            self._ask_for_replay()
        elif self.world.late and self.chance.random() < 0.2:
            self.world.carry_out_late()
        elif self.world.held and self.chance.random() < 0.1:
            self.world.held.clear()

    def _ask_for_replay(self) -> None:
        names = bring_back(self.world.files, self.rules, self.chance)
        if names is None or names[1] in self.world.files:
            return
        token = self.world.name(names[0])
        assert token is not None
        # One that was acknowledged as a second delivery has no run of its own that could be repeated.
        keys = [key for key, entry in self.ledger.items() if entry.item == token.item]
        # Nobody can take back a rename that was asked for and is not carried out yet: an operator who brings a payload
        # back in that very moment sees it go again, and asks once more (docs/protocol.md).
        late = any(isinstance(o, Publish) and o.src == names[1] for o in self.world.late)
        if keys and not late and not any(a.puts_away for a in self.actors if not a.over):
            self._count("replay asked", names[0])
            self.world.change(Publish(*names))
            self.stories[keys[0]].replays_asked += 1

    def _kill(self, name: str) -> None:
        self._count("killed", name)
        for actor in self.actors:
            if actor.host.name == name and not actor.over:
                actor.over = True
                actor.host.alive = False
                if actor.work is not None and actor.operation is not None and self.world.goes_on(actor.operation):
                    self.orphans.append(actor.work)
                elif actor.work is not None:
                    actor.work.close()
                actor.work = None
                actor.procedure.close()

    def _advance(self, actor: Actor) -> None:
        if not actor.began:
            actor.began = True
            self._resume(actor, None, None)
            return
        if actor.work is None:
            assert actor.operation is not None
            actor.work = self._perform(actor, actor.operation)
        try:
            next(actor.work)
        except StopIteration as stop:
            self._tell(actor, stop.value)
            if isinstance(actor.operation, Stat):
                name = self.world.name(actor.operation.path)
                actor.puts_away = stop.value is not None and name is not None and name.state is State.DONE
            elif not isinstance(actor.operation, Now):
                actor.puts_away = False
            self._resume(actor, stop.value, None)
        except Disconnected as error:
            self._tell(actor, error)
            self._resume(actor, None, error)

    def _resume(self, actor: Actor, value: Any, error: Exception | None) -> None:
        actor.work = None
        try:
            actor.operation = actor.procedure.send(value) if error is None else actor.procedure.throw(error)
        except StopIteration:
            actor.over = True
            return
        if isinstance(actor.operation, Sleep | Pause):
            pause = (
                actor.operation.seconds if isinstance(actor.operation, Sleep) else 0.05 * 2 ** min(actor.operation.attempt, 5)
            )
            actor.due = self.world.time + pause

    def _perform(self, actor: Actor, operation: Operation[Any]) -> Generator[None, None, Any]:
        match operation:
            case Sleep() | Pause():
                return _nothing()
            case Now():
                return _only(Instant(self.world.time + 13 * actor.host.wall, self._utc(actor.host)))
            case ReadLedger(key):
                return _only(self.ledger.get(key))
            case WriteLedger(key, before, after):
                return _only(self._write_ledger(key, before, after))
            case UnarchivedKeys():
                return _only(tuple((k, e) for k, e in self.ledger.items() if e.state is LedgerState.DONE))
            case Handle():
                return self._handle(operation)
        return self._with_faults(actor, operation)

    def _utc(self, host: Host) -> str:
        return f"2026-11-30T15:{int(self.world.time + host.wall) % 3600 // 60:02}:00Z"

    def _with_faults(self, actor: Actor, operation: Operation[Any]) -> Generator[None, None, Any]:
        roll = 1.0 if self.quiet else self.chance.random()
        if isinstance(operation, CHANGES):
            if roll < self.odds.lost:
                return self._lose(operation)
            if roll < self.odds.lost + self.odds.busy and isinstance(operation, Publish | Claim | Delete):
                self._count("busy")
                src = operation.path if isinstance(operation, Delete) else operation.src
                if src in self.world.files:
                    self.world.held.add(src)
        elif isinstance(operation, Store) and roll < self.odds.disconnected:
            return self._disconnect(operation)
        return self.world.perform(operation)

    def _lose(self, operation: Operation[Any]) -> Generator[None, None, Any]:
        kind = self.chance.choice(("before", "after", "late", "cut"))
        self._count(f"reply lost, {kind}")
        if kind == "after":
            yield from self.world.perform(operation)
        elif kind == "late":
            self.world.late.append(operation)
        elif kind == "cut":
            self.world.cut(operation)
        yield
        return Outcome.UNKNOWN

    def _disconnect(self, operation: Store) -> Generator[None, None, Any]:
        self._count("disconnected")
        if self.chance.random() < 0.5:
            yield from self.world.perform(operation)
        raise Disconnected(f"while {operation.path} was stored")

    # What is promised.

    def _write_ledger(self, key: str, before: Entry | None, after: Entry) -> bool:
        if self.ledger.get(key) != before:
            return False
        self.ledger[key] = after
        if after.state is LedgerState.DONE:
            self.stories[key].done += 1
        if after.state is LedgerState.STARTED and before is not None and before.state is LedgerState.ARCHIVED:
            self.stories[key].replays_run += 1
        return True

    def _handle(self, operation: Handle) -> Generator[None, None, Handled]:
        story = self.stories[operation.key]
        claim = self.rules.layout.path(operation.claimed)
        for payload in operation.contents.payloads:
            file = self.world.files.get(payload.path)
            if file is None or hashlib.sha256(file.data).hexdigest() != payload.digest:
                # Taken over and put away meanwhile; otherwise it would be a half-written or lost payload.
                if claim in self.world.files:
                    raise Violation(f"{claim} was handed to a handler, and {payload.path} is not what it says")
                yield
                return Handled(Verdict.UNFIT, error=f"{payload.path} vanished", kind="IntegrityError")
            if file.data != story.content:
                raise Violation(f"{payload.path} holds {file.data!r}, and {story.content!r} was sent")
        self._check_run(story, operation, claim)
        run = Run(operation.claimed.owner, operation.claimed.item, claim)
        story.runs.append(run)
        yield
        yield
        run.ended = True
        roll = 1.0 if self.quiet else self.chance.random()
        if roll < self.odds.failing:
            self.faults["handler failed"] += 1
            verdict = self.chance.choice((Verdict.FAILED, Verdict.REFUSED))
            return Handled(verdict, error="the handler failed", kind="HandlerFailed")
        run.success = True
        return Handled(Verdict.PROCESSED, "done")

    def _check_run(self, story: Story, operation: Handle, claim: str) -> None:
        if claim in self.world.files and story.done > story.replays_asked:
            raise Violation(f"{operation.key} is processed again: {story.done} times done, {story.replays_asked} replays asked")
        open_runs = [run for run in story.runs if not run.ended]
        for run in open_runs:
            if run.claim in self.world.files and run.claim != claim and claim in self.world.files:
                raise Violation(f"{operation.key} is processed by {run.owner} and by {operation.claimed.owner} at once")
        last = story.runs[-1] if story.runs else None
        if last is not None and not last.ended and not operation.redelivered and claim in self.world.files:
            raise Violation(f"{operation.key} runs after a run that was cut, and was not told")

    def _note(self, what: str, **facts: Any) -> None:
        if self.trace is not None:
            self.trace.append(f"      {what} {facts}")
        if what == "round":
            self.idle_rounds += 1
        if what == "took":
            self.numbers[facts["number"]] += 1
            if self.numbers[facts["number"]] > 1:
                raise Violation(f"number {facts['number']} was handed out twice")

    # The end.

    def rest(self) -> None:
        """All stop where they are, however long it takes; one consumer and one sweeper come, and everything must be healed."""
        self.quiet = True
        for name in sorted({a.host.name for a in self.actors if not a.over}):
            self._kill(name)
        for orphan in self.orphans:
            with contextlib.suppress(StopIteration):
                next(orphan)
        self.orphans.clear()
        self.world.carry_out_late()
        self.world.held.clear()
        self.draining[0] = False
        self.world.time += 100 * TTL
        host = Host("last", 0.0)
        setting = self.setting(host)
        self.actors = []
        self.add("last sweeper", host, sweeper(setting, 2, Unwanted.DELETE, Ages(before=TTL)))
        self._until_over(2000)
        self.add("last", host, consumer(setting))
        self.add("last-beat", host, heartbeat(setting))
        # Long enough for a watcher to have seen every dead lease stand still, in leaps that its own lease survives.
        for _ in range(5):
            self._until_idle()
            self.world.time += TTL * 0.4
        self._until_idle()
        self.draining[0] = True
        self._until_over(4000)
        self.draining[0] = False
        self.add("last sweeper", host, sweeper(setting, 2, Unwanted.DELETE, Ages(before=TTL)))
        self.world.time += 100 * TTL
        self._until_over(4000)
        self._check_rest()

    def _until_over(self, steps: int) -> None:
        for _ in range(steps):
            if not self._go_on():
                return
        raise Violation("somebody is still busy long after everything should be at rest: " + ", ".join(self._living()))

    def _living(self) -> list[str]:
        return [f"{a.name} at {a.operation}" for a in self.actors if not a.over]

    def _until_idle(self) -> None:
        """Until the consumer has looked several times and found nothing to change."""
        self.idle_rounds = 0
        before = self._items()
        for _ in range(3000):
            self._go_on()
            if self.idle_rounds >= 5:
                if self._items() == before:
                    return
                self.idle_rounds, before = 0, self._items()
        raise Violation("the drop does not come to rest: " + ", ".join(self._living()))

    def _items(self) -> list[str]:
        return [path for path in self.world.files if not path.startswith(("L_", "T_"))]

    def _check_rest(self) -> None:
        for first, file in self.world.published.items():
            holders = [path for path, other in self.world.files.items() if other is file]
            if len(holders) != 1:
                raise Violation(f"{first} was published, and its bytes are at rest under {holders or 'no name'}")
        names = [(path, self.world.name(path)) for path in self.world.ls()]
        for path, name in names:
            if name is None:
                if not path.startswith("S_"):
                    raise Violation(f"{path} is left at rest")
            elif name.state not in (State.AFTER, State.ERROR):
                raise Violation(f"{path} is left at rest, which no rule explains")
        counters = [path for path in self.world.ls() if path.startswith("S_") and path.endswith(".next")]
        if len(counters) > 1:
            raise Violation(f"there are {len(counters)} counters: {counters}")
        for key, story in self.stories.items():
            self._check_story(key, story, [name for _, name in names if name is not None])

    def _check_story(self, key: str, story: Story, names: list[Name]) -> None:
        entry = self.ledger.get(key)
        if entry is None:
            return  # never published
        states = {n.state for n in names if n.item == entry.item and self.rules.is_token(n.kind)}
        if State.AFTER in states and not any(run.success for run in story.runs):
            raise Violation(f"{key} is an after image, and was never processed")
        if State.ERROR in states and entry.attempts < MAX_ATTEMPTS and entry.ended.value != "error":
            raise Violation(f"{key} is an error image after {entry.attempts} attempts")
        if story.replays_run < story.replays_asked and State.ERROR not in states:
            raise Violation(f"{key}: {story.replays_asked} replays were asked for, {story.replays_run} were run")

    # Telling.

    def _count(self, what: str, about: str = "") -> None:
        self.faults[what.split(",")[0] if what.startswith("reply") else what] += 1
        if self.trace is not None:
            self.trace.append(f"{self.step:5} {self.world.time:9.2f}  *** {what} {about}")

    def _tell(self, actor: Actor, result: Any) -> None:
        if self.trace is not None:
            shown = result if not isinstance(result, tuple) else f"{len(result)} names"
            self.trace.append(
                f"{self.step:5} {self.world.time:9.2f}  {actor.name:8} {_short(actor.operation)} -> {_short(shown)}"
            )


def _short(value: object) -> str:
    text = value.value if isinstance(value, Outcome) else repr(value)
    return text if len(text) < 160 else text[:157] + "..."


def _nothing() -> Generator[None, None, None]:
    yield from ()


def _only(value: Any) -> Generator[None, None, Any]:
    yield from ()
    return value


def check(seed: int, odds: Odds | None = None, prepare: Callable[[Simulation], None] | None = None) -> Counter[str]:
    """Runs one seed; the faults that befell it. Raises Violation with the seed and a trace that can be read."""
    simulation = Simulation(seed, odds)
    if prepare is not None:
        prepare(simulation)
    try:
        simulation.run()
    except Violation as violation:
        again = Simulation(seed, odds, trace=True)
        if prepare is not None:
            prepare(again)
        try:
            again.run()
        except Violation as same:
            assert again.trace is not None
            story = "\n".join(again.trace[-4000:])
            files = "\n".join(again.world.ls())
            raise Violation(f"seed {seed} ({again.world.flavour}): {same}\n{story}\n--- the drop ---\n{files}") from violation
        raise Violation(f"seed {seed} does not replay: {violation}") from violation
    return simulation.faults
