"""One simulation: a scene, a schedule and faults, all drawn by one seed, so that a seed replays exactly."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from protocol.ledger import LedgerState
from protocol.names import REASON_SUFFIX, FileKind, Name
from protocol.operations import Claim, Delete, Handle, Handled, Operation, Publish, Store, Verdict
from protocol.recovery import Ages
from protocol.rules import Signal
from protocol.states import State
from tests.simulation.actors import NOT_OLD, OLD, TTL, Host, producer, sweeper
from tests.simulation.engine import CHANGES, Actor, Drop, Engine, Fault
from tests.simulation.promises import Sent
from tests.simulation.quick import quick_rules
from tests.simulation.rest import rest
from tests.simulation.world import FLAVOURS, Violation, World

STEPS = 260
_LAYOUTS = ("prefix", "prefix", "folders")
_SIGNALS = (Signal.MANIFEST, Signal.MANIFEST, Signal.MANIFEST, Signal.CHECKSUM, Signal.NONE)
RULES = {(layout, signal): quick_rules(layout, signal, 2.0) for layout in set(_LAYOUTS) for signal in Signal}
_GIVEN = 500


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely each fault is, per operation or per step."""

    lost: float = 0.012  # the reply to a change, with the change made, not made, made later, or cut in two
    died: float = 0.004  # of a store: an unfinished file may be left
    busy: float = 0.012
    killed: float = 0.004
    frozen: float = 0.008
    leap: float = 0.003  # time passes in which nobody runs
    jump: float = 0.002  # a host's clock is set
    replay: float = 0.008
    failing: float = 0.1  # handlers
    most_kills: int = 2
    receipts: bool = False  # whether the drop has them


class Simulation(Engine):
    """A seed, unfolded."""

    def __init__(self, seed: int, odds: Odds | None = None, *, trace: bool = False) -> None:
        super().__init__(random.Random(seed), trace=trace)  # noqa: S311 - a schedule, to be replayed by its seed
        self.seed = seed
        self.odds = odds or Odds()
        self.kills = 0
        self.scene: list[str] = []
        self._populate()

    # Setting the scene.

    def _populate(self) -> None:
        """One or two producers, one to three consumers or routes, perhaps a sweeper; perhaps one key sent twice."""
        chance = self.chance
        flavour, layout, signal = chance.choice(FLAVOURS), chance.choice(_LAYOUTS), chance.choice(_SIGNALS)
        rules = replace(RULES[layout, signal], receipts=self.odds.receipts)
        drop = self.drop(rules, flavour, chance.choice((0.0, 4000.0, -90_000.0)))
        routed = chance.random() < 0.15
        self.scene = [flavour, layout, signal.value, "route" if routed else "consumers"]
        to = self.drop(RULES[layout, Signal.MANIFEST], chance.choice(FLAVOURS), 50.0) if routed else None
        if to is not None:
            to.promises.sent = drop.promises.sent
            to.promises.keeps_keys = drop.promises.keeps_keys
        self._add_producers(drop)
        ages = Ages(before=None, after=2 * TTL) if chance.random() < 0.1 else NOT_OLD
        for number in range(chance.choice((1, 2, 2, 3))):
            self.add_consumer(drop, self._host(f"c{number}"), forward=to)
        if chance.random() < 0.5 or ages is not NOT_OLD:
            host = self._host("s0")
            swept = OLD if ages is NOT_OLD else Ages(before=OLD.before, after=ages.after)
            self.add(host.name, host, drop, sweeper(self.setting(drop, host), 3, ages=swept))

    def _add_producers(self, drop: Drop) -> None:
        chance = self.chance
        rivals = chance.random() < 0.15  # they bring the same number
        manifest = drop.world.rules.signal is Signal.MANIFEST
        twice = manifest and not rivals and chance.random() < 0.2
        for number in range(2 if rivals else chance.choice((1, 1, 2))):
            host = self._host(f"p{number}")
            items: list[tuple[Sent, int | None]] = []
            for index in range(chance.choice((1, 1, 2))):
                key = "twice" if twice else f"key-{number}-{index}"
                suffixes = ("csv", "pdf") if drop.world.rules.signal is not Signal.NONE and chance.random() < 0.25 else ("csv",)
                sent = Sent(key, {suffix: f"{suffix} of {key} {number} {index}".encode() for suffix in suffixes})
                drop.promises.sent[sent.contents["csv"]] = sent
                items.append((sent, _GIVEN + index if rivals else None))
            self.add(host.name, host, drop, producer(self.setting(drop, host), items))

    def _host(self, name: str) -> Host:
        return Host(name, self.chance.choice((0.0, 0.0, 5000.0, -20_000.0)))

    # The schedule.

    def run(self) -> None:
        """The schedule, then rest. Raises Violation."""
        try:
            while self.step < STEPS and self.go_on():
                if self.step % 16 == 0 and self._is_done():
                    break
            rest(self, sweep_first=self.chance.random() < 0.8)
        finally:
            self.close()

    def _is_done(self) -> bool:
        """Whether nobody has anything left to do, and no person asks for more."""
        if any(not a.over for a in self.actors if a.name.startswith(("p", "s"))):
            return False
        if any(setting.idle < 3 for setting in self.settings if setting.host.held):
            return False
        return self.chance.random() < 0.5 or not self._ask_for_replay(self.drops[0])

    def pick(self, ready: list[Actor]) -> Actor:
        roll = self.chance.random() * len(ready)
        index = int(roll)
        self.tick((roll - index) * (TTL / 40))
        return ready[index]

    def befall(self) -> None:
        if self.quiet:
            return
        odds, roll = self.odds, self.chance.random()
        if roll < odds.killed:
            living = sorted({a.host.name for a in self.actors if not a.over})
            if living and self.kills < odds.most_kills:
                self.kills += 1
                victim = self.chance.choice(living)
                self.count("killed", victim)
                self.kill(victim)
            return
        if (roll := roll - odds.killed) < odds.frozen:
            host = self.chance.choice(self.actors).host
            host.frozen_until = self.time + TTL * self.chance.choice((0.2, 0.5, 1.1, 2.5))
            self.count("frozen", host.name)
            return
        if (roll := roll - odds.frozen) < odds.leap:
            self.tick(TTL * self.chance.uniform(0.5, 2.0))
            self.count("leap")
            return
        if (roll := roll - odds.leap) < odds.jump:
            host = self.chance.choice(self.actors).host
            host.wall += self.chance.choice((-50_000.0, -100.0, 100.0, 7200.0))
            self.count("clock set", host.name)
            return
        if (roll := roll - odds.jump) < odds.replay:
            self._ask_for_replay(self.drops[0])
            return
        for drop in self.drops:
            world = drop.world
            if world.late and self.chance.random() < 0.2:
                self.carry_out_late(world)
            if world.held and self.chance.random() < 0.1:
                world.held.clear()

    def fault(self, actor: Actor, operation: Operation[Any], world: World) -> Fault | None:
        if not isinstance(operation, CHANGES):
            if isinstance(operation, Store) and self.chance.random() < self.odds.died:
                self.count("disconnected")
                return Fault("died")
            return None
        roll = self.chance.random()
        if roll < self.odds.lost:
            kind = self.chance.choice(("before", "after", "late", "cut"))
            self.count(f"reply lost, {kind}")
            return Fault(kind)
        if roll < self.odds.lost + self.odds.busy and isinstance(operation, Publish | Claim | Delete):
            self.count("held open")
            src = operation.path if isinstance(operation, Delete) else operation.src
            if src in world.files:
                world.held.add(src)
        return None

    def verdict(self, operation: Handle) -> Handled:
        if not self.quiet and self.chance.random() < self.odds.failing:
            self.count("handler failed")
            verdict = self.chance.choice((Verdict.FAILED, Verdict.FAILED, Verdict.REFUSED, Verdict.UNFIT))
            return Handled(verdict, error="the handler failed", kind="HandlerFailed")
        return super().verdict(operation)

    # The operator.

    def _ask_for_replay(self, drop: Drop) -> bool:
        """What a person types: `mv` of an item's payloads, of its token, or of both, the token last (docs/protocol.md)."""
        world, promises = drop.world, drop.promises
        names = [name for name in map(world.name, world.files) if name is not None and not name.again]
        tokens = [n for n in names if n.state in (State.AFTER, State.ERROR) and world.rules.is_token(n.kind)]
        if not tokens:
            return False
        token = self.chance.choice(sorted(tokens, key=world.rules.layout.path))
        mine = [name for name in names if name.item == token.item]
        # One that was acknowledged as a second delivery has no run of its own that could be repeated.
        keys = [key for key, entry in promises.ledger.items() if entry.item == token.item]
        kinds = {n.state for n in mine if n.kind not in (FileKind.REASON, FileKind.RECEIPT)}
        if not keys or kinds != {token.state} or not any(n.kind is FileKind.PAYLOAD for n in mine):
            return False  # somebody is at it
        digits = world.rules.grammar.digits(token.item.number)
        away = f"{world.rules.layout.archive_folder}/20"
        if any(path.startswith(away) and digits in path for path in world.files):
            return False  # it is on its way into the archive
        entry = promises.ledger[keys[0]]
        explained = entry.given_up and any(n.suffix == REASON_SUFFIX for n in mine)
        # The key of one that came twice may have been processed by the other delivery: then this one is acknowledged.
        if token.state is State.ERROR and (not explained or keys == ["twice"]):
            return False
        how = self.chance.choice(("payloads", "payloads", "token", "both"))
        # What comes back while the ledger says only `done` is taken for an item that was cut while it was completed.
        if token.state is State.AFTER and entry.state is not LedgerState.ARCHIVED:
            return False
        payloads = [n for n in mine if n.kind is FileKind.PAYLOAD and not world.rules.is_token(n.kind)]
        wanted = [*(payloads if how != "token" else ()), *([token] if how != "payloads" or not payloads else ())]
        moves = [(world.rules.layout.path(n), world.rules.layout.path(Name(n.item, n.suffix))) for n in wanted]
        putting = {a.putting for a in self.actors if not a.over and a.putting}
        putting |= {o.src for o in world.late if isinstance(o, Publish)}
        if any(dst in putting or dst in world.files for _, dst in moves):
            return False
        self.count("replay asked", f"{how}: {moves}")
        for src, dst in moves:
            world.change(Publish(src, dst))
        promises.stories[keys[0]].replays_asked += 1
        return True


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
            raise Violation(_told(again, same)) from violation
        raise Violation(f"seed {seed} does not replay: {violation}") from violation
    for word in simulation.scene:
        simulation.faults[f"scene: {word}"] += 1
    return simulation.faults


def _told(simulation: Simulation, violation: Violation) -> str:
    assert simulation.trace is not None
    story = "\n".join(simulation.trace[-4000:])
    files = "\n\n".join("\n".join(drop.world.ls()) for drop in simulation.drops)
    return f"seed {simulation.seed} ({', '.join(simulation.scene)}): {violation}\n{story}\n--- the drop ---\n{files}"
