"""The drop as an explicit-state model: numbers, producers, consumers, sweeper, an operator; every interleaving.

It extends the model of the consumer's half by what stands before and beside it. One item in detail: a producer makes the
group's counter, or finds it, takes a number and publishes; consumers claim, process and complete; a sweeper finishes what
was cut. Anybody may die, or lose a lease or a reply unnoticed, between any two steps.

    python -m tests.model                    the rules hold in all states
    python -m tests.model --mutate NAME      one rule broken on purpose; prints the shortest way to the damage

Safety: no number is handed out twice; a token that can be read has its payload; the token and the payload exist under one
name each (two of one file while a rename is half made); the handler runs at most 1 + (runs cut between claim and done) +
(replays) times. Liveness: wherever nobody can move, what was published is an after image, was processed, and every replay
was honoured; and whatever was begun and not published is gone, or stands under before names for the sweeper.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")

MUTATIONS = {
    "order": "publish the manifest before its payload",
    "list-and-add": "take a number by looking at the counter and writing a higher one",
    "optimist": "read a lost reply to the taking of a number as success",
    "two-seeds": "whoever sees no counter makes one, without asking whose seed counts",
    "early": "a sweep publishes what a producer left, without looking whether the payload is whole",
    "fence": "complete by whatever claim name is there, instead of exactly one's own",
    "record": "do not write `done` before completing",
    "check": "do not look, after reading the ledger, whether the claim is still one's own",
    "cas": "write the ledger without comparing what was read",
    "unarchive": "rename the payload back before processing, instead of reading it where it is",
    "old-look": "note as archived what is done by now, because it was seen as an after image once",
}


class Producer(NamedTuple):
    """One who sends one item. `number` is what it was given, 0 before."""

    at: str = "look"
    alive: bool = True
    seen: int = 0  # the counter as it was last seen
    number: int = 0


class Consumer(NamedTuple):
    """One who processes. `lease` is as others see it; `life` its owner id, a new one after every lost lease."""

    at: str = "idle"
    alive: bool = True
    lease: bool = True
    life: int = 0
    read: tuple[str, int] = ("none", 0)


class State(NamedTuple):
    """Everything. `names` holds the counter (S<n>, seed<i>, origin<i>), and the item's token and payload by state."""

    names: frozenset[str]
    producers: tuple[Producer, ...]
    consumers: tuple[Consumer, ...]
    ledger: tuple[str, int] = ("none", 0)
    sweep: tuple[str, tuple[str, int]] = ("look", ("none", 0))
    runs: int = 0
    interrupted: int = 0
    replays: int = 0
    honoured: int = 0
    faults: int = 0


Step = tuple[str, State]
Moves = Callable[[State], Iterator[Step]]


def start(producers: int, consumers: int) -> State:
    """An empty drop. Without producers, one with a published item."""
    there = frozenset() if producers else frozenset({"P", "M"})
    return State(there, tuple(Producer() for _ in range(producers)), tuple(Consumer() for _ in range(consumers)))


class Model:
    """The steps, with at most one rule broken. `item` is the producer whose item is followed to its end: the first number."""

    def __init__(self, faults: int, replays: int, mutation: str = "") -> None:
        self.faults = faults
        self.replays = replays
        self.mutation = mutation

    def steps(self, s: State) -> Iterator[Step]:
        """All that can happen next."""
        for i, producer in enumerate(s.producers):
            if producer.alive:
                yield from self._producer(s, i)
                yield from self._befalls_producer(s, i)
        for i, consumer in enumerate(s.consumers):
            if consumer.alive:
                yield from self._consumer(s, i)
                yield from self._befalls_consumer(s, i)
        yield from self._sweeper(s)
        if {"A_M", "A_P"} <= s.names and s.replays < self.replays:
            yield "operator: mv A_x x", s._replace(names=_rename(s.names, "A_P", "P"), replays=s.replays + 1)

    # The producer's half.

    def _producer(self, s: State, i: int) -> Iterator[Step]:  # noqa: C901 - the steps as a table, as in the spec's model
        me = s.producers[i]

        def to(at: str, label: str, names: frozenset[str] | None = None, **changes: int) -> Step:
            crowd = _with(s.producers, i, Producer(**{**me._asdict(), "at": at, **changes}))
            return f"p{i}: {label}", s._replace(names=s.names if names is None else names, producers=crowd)

        counters = sorted(int(name[1:]) for name in s.names if name.startswith("S"))
        match me.at:
            case "look" if counters:
                yield to("take", f"sees the counter {counters[-1]}", seen=counters[-1])
            case "look" if self.mutation == "two-seeds":
                yield to("make", "sees no counter")
            case "look":
                yield to("seed", "sees no counter")
            case "make":
                yield to("look", "makes a counter", s.names | {"S1"})
            case "seed":
                official = [name for name in s.names if name.startswith("origin")]
                if official:
                    yield to("sow", f"finds {official[0]}")
                else:
                    yield to("origin", "makes a seed", s.names | {f"seed{i}"})
            case "origin":
                taken = any(name.startswith("origin") for name in s.names)
                if taken:
                    yield to("sow", "another origin is there: drops its seed", s.names - {f"seed{i}"})
                else:
                    yield to("sow", "publishes the origin", s.names | {f"origin{i}"})
            case "sow":
                seed = "seed" + next(name for name in s.names if name.startswith("origin"))[6:]
                if seed in s.names:
                    yield to("look", f"{seed} -> S1", _rename(s.names, seed, "S1"))
                else:
                    yield to("look", "the seed is gone: the counter is there")
            case "take":
                yield from self._take(s, me, to)
            case "write":
                yield to("write token", "writes B_x", s.names | {_own("B_P", me)})
            case "write token":
                yield to("reveal", "writes B_M", s.names | {_own("B_M", me)})
            case "reveal" | "reveal token":
                yield from self._reveal(s, me, to)

    def _take(self, s: State, me: Producer, to: Callable[..., Step]) -> Iterator[Step]:
        old, new = f"S{me.seen}", f"S{me.seen + 1}"
        if self.mutation == "list-and-add":
            yield to("write", f"writes {new} and has {me.seen}", (s.names - {old}) | {new}, number=me.seen)
        elif old in s.names:
            yield to("write", f"{old} -> {new}", _rename(s.names, old, new), number=me.seen)
            if s.faults < self.faults:
                given = {"number": me.seen} if self.mutation == "optimist" else {}
                at = "write" if given else "look"
                for made, names in (("before", s.names), ("after", _rename(s.names, old, new))):
                    label, lost = to(at, f"the reply to {old} -> {new} is lost, {made} it was made", names, **given)
                    yield label, lost._replace(faults=s.faults + 1)
        else:
            yield to("look", "somebody else took it")

    def _reveal(self, s: State, me: Producer, to: Callable[..., Step]) -> Iterator[Step]:
        first, second = ("M", "P") if self.mutation == "order" else ("P", "M")
        which, then = (first, "reveal token") if me.at == "reveal" else (second, "over")
        before, ready = _own(f"B_{which}", me), _own(which, me)
        if before in s.names:
            yield to(then, f"{before} -> {ready}", _rename(s.names, before, ready))
        else:
            yield to(then, "a sweep has finished it")

    def _befalls_producer(self, s: State, i: int) -> Iterator[Step]:
        me = s.producers[i]
        if me.at != "over" and s.faults < self.faults:
            crowd = _with(s.producers, i, me._replace(alive=False))
            yield f"p{i}: dies", s._replace(producers=crowd, faults=s.faults + 1)

    # The consumer's half: the token is one of M C<i>.<life> D_M A_M, the payload one of P A_P.

    def _consumer(self, s: State, i: int) -> Iterator[Step]:  # noqa: C901 - the steps as a table, as in the spec's model
        me = s.consumers[i]
        own = f"C{i}.{me.life}"

        def to(at: str, label: str, names: frozenset[str] | None = None, **changes: object) -> Step:
            mine = {key: value for key, value in changes.items() if key in Consumer._fields}
            rest = {key: value for key, value in changes.items() if key in State._fields}
            crowd = _with(s.consumers, i, Consumer(**{**me._asdict(), "at": at, **mine}))
            there = s.names if names is None else names
            return f"c{i}: {label}", State(**{**s._asdict(), "names": there, "consumers": crowd, **rest})

        match me.at:
            case "idle":
                yield from self._find(s, i, own, to)
            case "read":
                yield to("check", f"reads the ledger: {s.ledger}", read=s.ledger)
            case "check" if own not in s.names and self.mutation != "check":
                yield to("idle", "ClaimLost")
            case "check" if me.read[0] == "done":
                yield to("fence", "was processed before")
            case "check":
                yield to("start", "still mine")
            case "start" if s.ledger == me.read or self.mutation == "cas":
                entry = ("started", s.ledger[1] + 1)
                replay = s.ledger[0] == "archived"
                yield to("process", f"records {entry}", ledger=entry, read=entry, honoured=s.honoured + replay)
            case "process":
                if self.mutation == "unarchive" and "A_P" in s.names:
                    yield to("process", "renames the payload back", _rename(s.names, "A_P", "P"))
                yield to("done", "handler ran", runs=s.runs + 1)
            case "done" if self.mutation == "record":
                yield to("fence", "records nothing")
            case "done" if s.ledger == me.read or self.mutation == "cas":
                entry = ("done", me.read[1])
                yield to("fence", f"records {entry}", ledger=entry, read=entry)
            case "start" | "done":
                yield to("read", "the ledger has moved on")
            case "fence":
                claims = [name for name in s.names if name.startswith("C")] if self.mutation == "fence" else []
                held = [own] if own in s.names else claims
                if held:
                    yield to("put away", f"{held[0]} -> D_M", _rename(s.names, held[0], "D_M"))
                else:
                    yield to("idle", "ClaimLost")
            case "put away" if "D_M" in s.names and "P" in s.names:
                yield to("finish", "P -> A_P", _rename(s.names, "P", "A_P"))
            case "put away":
                yield to("finish", "the payload is away already")
            case "finish" if "D_M" in s.names and "A_P" in s.names:
                yield to("archive", "D_M -> A_M", _rename(s.names, "D_M", "A_M"))
            case "finish":
                yield to("idle", "somebody finished it")
            case "archive":
                entry = ("archived", me.read[1]) if s.ledger == me.read else s.ledger
                yield to("idle", f"records {entry}", ledger=entry)

    def _find(self, s: State, i: int, own: str, to: Callable[..., Step]) -> Iterator[Step]:
        me = s.consumers[i]
        if not me.lease:
            yield to("idle", "takes a new owner id", lease=True, life=me.life + 1)
            return
        if "M" in s.names:
            yield to("read", f"M -> {own}", _rename(s.names, "M", own))
        if "A_M" in s.names and "P" in s.names and s.ledger[0] == "archived":
            yield to("read", f"A_M -> {own}", _rename(s.names, "A_M", own))
        for j, other in enumerate(s.consumers):
            for name in s.names:
                live = other.alive and other.lease and name == f"C{j}.{other.life}"
                if j != i and name.startswith(f"C{j}.") and not live:
                    yield to("read", f"{name} -> {own}", _rename(s.names, name, own))
        if "D_M" in s.names:
            yield to("put away", "finds D_M")

    def _befalls_consumer(self, s: State, i: int) -> Iterator[Step]:
        me = s.consumers[i]
        if me.at == "idle" or s.faults >= self.faults:
            return
        cut = s.interrupted + (me.at in ("read", "check", "start", "process", "done"))
        for label, change in (("dies", me._replace(alive=False)), ("loses its lease unnoticed", me._replace(lease=False))):
            crowd = _with(s.consumers, i, change)
            yield f"c{i}: {label}", s._replace(consumers=crowd, faults=s.faults + 1, interrupted=cut)

    # The sweeper: it looks, and acts upon what it saw.

    def _sweeper(self, s: State) -> Iterator[Step]:
        at, read = s.sweep
        silent = all(not p.alive or p.at == "over" for p in s.producers if p.number == 1)
        if at == "look":
            if "A_M" in s.names and s.ledger[0] == "done" and self.mutation == "old-look":
                yield "sweep: saw the after image", s._replace(sweep=("archive", s.ledger))
            elif s.ledger[0] == "done":
                yield f"sweep: reads the ledger: {s.ledger}", s._replace(sweep=("after?", s.ledger))
            whole = "P" in s.names or self.mutation == "early"
            if "B_M" in s.names and silent and (whole or "B_P" in s.names):
                if whole:
                    yield "sweep: B_M -> M", s._replace(names=_rename(s.names, "B_M", "M"))
                elif "P" not in s.names:
                    yield "sweep: removes B_M", s._replace(names=s.names - {"B_M"})
            if "B_P" in s.names and silent and "B_M" not in s.names:
                yield "sweep: removes B_P", s._replace(names=s.names - {"B_P"})
        elif at == "after?":
            yield "sweep: looks for the after image", s._replace(sweep=("archive" if "A_M" in s.names else "look", read))
        else:
            # The mutated one compares with nothing older than its own write: the entry may be a later run's by then.
            known = s.ledger if self.mutation == "old-look" and s.ledger[0] == "done" else read
            entry = ("archived", known[1]) if s.ledger == known else s.ledger
            yield f"sweep: records {entry}", s._replace(ledger=entry, sweep=("look", ("none", 0)))


def _with(crowd: tuple[T, ...], i: int, changed: T) -> tuple[T, ...]:
    return (*crowd[:i], changed, *crowd[i + 1 :])


def _rename(names: frozenset[str], old: str, new: str) -> frozenset[str]:
    return (names - {old}) | {new}


def _own(name: str, me: Producer) -> str:
    """The item's name; items of later numbers are told apart by their number."""
    return name if me.number == 1 else f"{name}#{me.number}"


def wrong(s: State, *, at_rest: bool) -> str:
    """What is promised and not so in this state."""
    numbers = [p.number for p in s.producers if p.number]
    if len(numbers) != len(set(numbers)):
        return f"a number was handed out twice: {numbers}"
    for name in s.names:
        token, _, number = name.partition("#")
        behind = f"#{number}" if number else ""
        if token == "M" and not {f"P{behind}", f"A_P{behind}"} & s.names:
            return f"a token can be read, and its payload is not there: {sorted(s.names)}"
    tokens = [n for n in s.names if n in ("M", "D_M", "A_M") or n.startswith("C")]
    payloads = s.names & {"P", "A_P"}
    if len(tokens) > 1 or len(payloads) > 1 or (tokens and not payloads):
        return f"lost or doubled: {sorted(s.names)}"
    if s.runs > 1 + s.interrupted + s.honoured:
        return f"the handler ran {s.runs} times, {s.interrupted} interruptions, {s.honoured} replays"
    return _wrong_at_rest(s, tokens) if at_rest else ""


def _wrong_at_rest(s: State, tokens: list[str]) -> str:
    if any(p.alive and p.at != "over" for p in s.producers):
        return f"a producer waits for ever: {s.producers}"
    if "B_M" in s.names:
        return f"nobody finishes what was begun: {sorted(s.names)}"
    if not tokens or not any(c.alive for c in s.consumers):
        return ""
    if not {"A_M", "A_P"} <= s.names:
        return f"nobody finishes: {sorted(s.names)}"
    if s.runs < 1 + s.honoured or s.honoured != s.replays:
        return f"at rest after {s.runs} runs, {s.replays} replays asked, {s.honoured} honoured"
    return ""


def explore(model: Model, first: State) -> tuple[int, list[str]]:
    """All states, breadth first: how many there are, and the shortest way to the first that is wrong, with why."""
    came: dict[State, tuple[State, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        s = queue.popleft()
        at_rest = True
        for label, t in model.steps(s):
            at_rest &= t == s
            if t not in came:
                came[t] = (s, label)
                queue.append(t)
        if problem := wrong(s, at_rest=at_rest):
            way = [problem]
            while before := came[s]:
                s, label = before
                way.append(label)
            return len(came), way[::-1]
    return len(came), []


def token_steps() -> set[tuple[str, str]]:
    """Every rename of a token and of a payload that the model knows, by the states before and after."""
    seen: set[tuple[str, str]] = set()
    for first in (start(1, 1), start(0, 2)):
        model = Model(faults=1, replays=1)
        known = {first}
        queue = deque([first])
        while queue:
            s = queue.popleft()
            for _, t in model.steps(s):
                gone, come = s.names - t.names, t.names - s.names
                if len(gone) == len(come) == 1:
                    seen.add((_kind(*gone), _kind(*come)))
                if t not in known:
                    known.add(t)
                    queue.append(t)
    return seen


def _kind(name: str) -> str:
    return "C" if name.startswith("C") else "S" if name.startswith("S") else "seed" if name.startswith("seed") else name
