"""Small cases, whole: the same scene again and again, each time with one thing done otherwise.

A schedule is given by the few places in which it leaves the ordinary one, in which an actor goes on until it has to wait and
the first of those who can go on is next. So a case is replayed from its start (nothing is stored), and all cases are:

    every crash      each host is killed before each of its steps; the others go on, then all comes to rest
    every lost reply each change of the drop loses its reply, carried out before, after, later, or cut in two
    interleavings    each place is a switch to each other actor, up to a bound of such switches (context-bounded search)
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from protocol.operations import Operation
from protocol.procedures.sweep import Unwanted
from protocol.recovery import Ages
from protocol.rules import Rules, Signal
from tests.simulation.actors import Host, producer, sweeper
from tests.simulation.engine import CHANGES, Actor, Engine, Fault
from tests.simulation.promises import Sent
from tests.simulation.quick import quick_rules
from tests.simulation.rest import rest
from tests.simulation.world import Flavour, Violation, World

KINDS = ("before", "after", "late", "cut")
_RULES = quick_rules("prefix", Signal.MANIFEST, 0.5)
_TICK = 0.004  # seconds a step: no lease runs out by itself
_LONGEST = 1500  # steps


@dataclass(frozen=True, slots=True)
class Case:
    """One way in which the scene can go. Steps and changes are counted from 1."""

    flavour: Flavour
    producers: int = 2
    consumers: int = 2
    sweepers: int = 1
    kill: int = 0  # the step before which the actor that is due is killed with its host
    lose: tuple[int, str] = (0, "")  # the change whose reply is lost, and how
    switches: tuple[tuple[int, int], ...] = ()  # at which step to whom, by his place among the actors


@dataclass(slots=True)
class Took:
    """What a case came to: who could have gone on at each step, and how many changes there were."""

    ready: list[tuple[int, ...]] = field(default_factory=list)
    changes: int = 0


class Planned(Engine):
    """The scene of a case."""

    def __init__(self, case: Case, *, trace: bool = False, rules: Rules = _RULES) -> None:
        super().__init__(random.Random(1), trace=trace)  # noqa: S311 - in which half of a listing a name stands
        self.case = case
        self.took = Took()
        self._switches = dict(case.switches)
        self._last: Actor | None = None
        drop = self.drop(rules, case.flavour, 0.0)
        for number in range(case.producers):
            host = Host(f"p{number}", 0.0)
            sent = Sent(f"key-{number}", {"csv": f"content {number}".encode()})
            drop.promises.sent[sent.contents["csv"]] = sent
            self.add(host.name, host, drop, producer(self.setting(drop, host), [(sent, None)]))
        for number in range(case.consumers):
            self.add_consumer(drop, Host(f"c{number}", 0.0))
        for number in range(case.sweepers):
            host = Host(f"s{number}", 0.0)
            self.add(host.name, host, drop, sweeper(self.setting(drop, host), 2, Unwanted.REPORT, Ages()))
        self._crew = list(self.actors)

    def pick(self, ready: list[Actor]) -> Actor:
        self.tick(_TICK)
        if self.quiet:
            return self._last if self._last in ready and self.step % 7 else ready[self.step % len(ready)]
        self.took.ready.append(tuple(index for index, actor in enumerate(self._crew) if actor in ready))
        wanted = self._switches.get(len(self.took.ready))
        due = self._crew[wanted] if wanted is not None and self._crew[wanted] in ready else self._last
        self._last = due if due is not None and due in ready else ready[0]
        return self._last

    def advance(self, actor: Actor) -> None:
        if not self.quiet and len(self.took.ready) == self.case.kill:
            self.count("killed", actor.host.name)
            self.kill(actor.host.name)
            return
        super().advance(actor)

    def fault(self, actor: Actor, operation: Operation[Any], world: World) -> Fault | None:
        if not isinstance(operation, CHANGES):
            return None
        self.took.changes += 1
        at, kind = self.case.lose
        if at != self.took.changes:
            return None
        self.count(f"reply lost, {kind}", actor.name)
        return Fault(kind)

    def run(self) -> Took:
        """The case, then rest. Raises Violation."""
        try:
            while self.step < _LONGEST and self.go_on():
                if self.drops[0].world.late and self.step % 40 == 0:
                    self.carry_out_late(self.drops[0].world)
                if self._is_done():
                    break
            rest(self)
        finally:
            self.close()
        return self.took

    def _is_done(self) -> bool:
        sending = any(not a.over for a in self._crew if a.name[0] in "ps")
        return not sending and all(s.idle >= 2 for s in self.settings if s.host.held and s.host.alive)


def run(case: Case) -> Took:
    """One case. Raises Violation with its trace."""
    planned = Planned(case)
    try:
        return planned.run()
    except Violation as violation:
        again = Planned(case, trace=True)
        try:
            again.run()
        except Violation as same:
            files = "\n".join(again.drops[0].world.ls())
            raise Violation(f"{case}: {same}\n" + "\n".join(again.trace or []) + f"\n--- the drop ---\n{files}") from violation
        raise Violation(f"{case} does not replay: {violation}") from violation


def crashes(base: Case) -> Iterator[Case]:
    """A kill before every step."""
    for step in range(1, len(run(base).ready) + 1):
        yield _but(base, kill=step)


def lost_replies(base: Case) -> Iterator[Case]:
    """A lost reply, of each kind, to every change."""
    for change in range(1, run(base).changes + 1):
        for kind in KINDS:
            yield _but(base, lose=(change, kind))


def switched(base: Case, took: Took) -> Iterator[Case]:
    """The case with one more switch, later than its last, away from an actor that could have gone on."""
    first = base.switches[-1][0] + 1 if base.switches else 1
    for step in range(first, len(took.ready) + 1):
        for other in took.ready[step - 1]:
            yield _but(base, switches=(*base.switches, (step, other)))


def interleavings(base: Case, bound: int) -> int:
    """Runs every schedule with at most `bound` switches, and says how many those were. Raises Violation."""
    took = run(base)
    if bound == 0:
        return 1
    return 1 + sum(interleavings(case, bound - 1) for case in switched(base, took))


def _but(case: Case, **changes: Any) -> Case:
    fields = {name: getattr(case, name) for name in Case.__slots__}
    return Case(**{**fields, **changes})
