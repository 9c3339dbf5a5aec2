"""What a sweep does about what it finds: from one look at a drop to a list of actions (PROTOCOL section 11).

Nothing is done here. Each action is decided from names, ages and dead owners alone; whoever carries it out begins with a
rename that loses where somebody was there first. So a list that is out of date does no harm, and a list that is carried out
twice does no more than once.
"""

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from protocol.names import REASON_SUFFIX, RECEIPT_SUFFIX, FileKind, ItemId, Name
from protocol.receipt import ASIDE, set_aside
from protocol.rules import Rules, Signal
from protocol.snapshot import ItemView, Listed, Snapshot
from protocol.states import State


@dataclass(frozen=True, slots=True)
class Ages:
    """When something is too old, in seconds on the server's clock; None: never."""

    before: float | None = 24 * 3600.0  # an unfinished file that does not grow
    ready: float | None = None  # a ready item that nobody takes
    after: float | None = None  # an after image, which is then archived
    keep_after: int | None = None  # so many after images of a group stay; older ones are archived


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A claim whose worker is dead: settle what the ledger knows, else back to ready."""

    claimed: Name


@dataclass(frozen=True, slots=True)
class FinishDone:
    """Processed, and not put away: anyone finishes that."""

    done: Name


@dataclass(frozen=True, slots=True)
class FinishError:
    """An error image without its reason: still being put away, or cut while it was."""

    error: Name


@dataclass(frozen=True, slots=True)
class FinishReceipt:
    """An image whose receipt was moved aside, by one who was cut before he put it back or wrote a newer one."""

    token: Name


@dataclass(frozen=True, slots=True)
class FinishPublish:
    """Payloads ready, the token still a before file, and its writer long silent: publish if everything matches."""

    token: Name


@dataclass(frozen=True, slots=True)
class DropTwin:
    """One file of an item under two names, as a rename that was cut leaves it: if it is one, drop the first."""

    drop: Name
    keep: Name


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Before files that are too old. Reported; deleted or put aside only where that was asked for."""

    item: ItemId
    names: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class MissingPayload:
    """A ready token without its payload: an error image."""

    token: Name


@dataclass(frozen=True, slots=True)
class Replay:
    """A payload that was brought back, while its token is still an after or error image: a person wants it again."""

    token: Name


@dataclass(frozen=True, slots=True)
class Archive:
    """An after image that is old enough to leave the directory."""

    item: ItemId
    names: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class DeleteLease:
    """The lease of a dead worker that holds no claim."""

    owner: str


@dataclass(frozen=True, slots=True)
class DeleteCounter:
    """The lower one of two counters."""

    group: str
    number: int


@dataclass(frozen=True, slots=True)
class DeleteScratch:
    """Scratch that somebody left."""

    path: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Something for a person to look at. `alarm` says that it should wake one."""

    about: str
    text: str
    alarm: bool = False


Action = (
    TakeOver
    | FinishDone
    | FinishError
    | FinishReceipt
    | FinishPublish
    | DropTwin
    | Unfinished
    | MissingPayload
    | Replay
    | Archive
    | DeleteLease
    | DeleteCounter
    | DeleteScratch
    | Tell
)


# A server that renames by link and unlink can be cut between the two. The pair tells which rename it was, and so which of the
# names was its source. A pair that holds a live worker's claim is left to that worker.
_SOURCE_OF_TWINS: dict[frozenset[State], State] = {
    frozenset({State.READY, State.CLAIMED}): State.CLAIMED,  # claim or release: ready suits both, as its worker is dead
    frozenset({State.CLAIMED, State.DONE}): State.CLAIMED,  # complete
    frozenset({State.CLAIMED, State.ERROR}): State.CLAIMED,  # fail
    frozenset({State.CLAIMED, State.AFTER}): State.CLAIMED,  # complete without a manifest, or a replay: asked for again, if so
    frozenset({State.DONE, State.AFTER}): State.DONE,  # put away
    frozenset({State.READY, State.AFTER}): State.AFTER,  # replay
    frozenset({State.READY, State.ERROR}): State.ERROR,  # replay
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a sweep knows beside the listing. `server_time` is None where ages do not matter just now."""

    dead: Collection[str]  # owners whose lease has expired, or is missing past its grace
    server_time: float | None = None

    def age(self, listed: Listed) -> float | None:
        """Seconds since the file was last written, by the server's clock alone."""
        if self.server_time is None or listed.modified is None:
            return None
        return self.server_time - listed.modified


def plan(snapshot: Snapshot, rules: Rules, facts: Facts, ages: Ages) -> list[Action]:
    """What is to be done, in the order in which to do it."""
    actions: list[Action] = []
    for view in snapshot.items.values():
        actions.extend(_about(view, rules, facts, ages))
    receipts = _receipts(snapshot, rules)
    actions.extend(receipts)
    actions.extend(_archive(snapshot, rules, facts, ages))
    holders = snapshot.claimants()
    actions.extend(DeleteLease(owner) for owner in sorted(snapshot.leases) if owner in facts.dead and owner not in holders)
    for group, numbers in snapshot.counters.items():
        actions.extend(DeleteCounter(group, number) for number in sorted(set(numbers))[:-1])
    # What tells of a lost receipt stays until that was written.
    scratch = [e for e in snapshot.scratch if not (receipts and e.path.endswith(ASIDE))]
    actions.extend(DeleteScratch(e.path) for e in scratch if _older(facts.age(e), ages.before))
    actions.extend(Tell("drop", problem) for problem in snapshot.problems)
    return actions


def _older(age: float | None, limit: float | None) -> bool:
    return age is not None and limit is not None and age > limit


def _about(view: ItemView, rules: Rules, facts: Facts, ages: Ages) -> list[Action]:
    tokens = [name for name, _ in view.files if rules.is_token(name.kind) and not name.again]
    found: list[Action] = []
    settled = [name for name in tokens if name.state is not State.BEFORE]
    if settled:
        # Before names of a published item are strays or a beaten rival's, and hold nothing up: nobody reads them.
        later = {name.suffix: name for name in settled}
        found += [DropTwin(n, later[n.suffix]) for n in tokens if n.state is State.BEFORE and n.suffix in later]
        found += _left_by_publishing(view, rules)
        tokens = settled
    if len(tokens) > len({name.suffix for name in tokens}):
        return found + _twins(view, tokens, rules, facts) + _beaten(view, rules, facts, ages)
    # What else is wrong with it, a rule of its state explains or mends.
    judge: Mapping[State | None, Callable[[], list[Action]]] = {
        State.CLAIMED: lambda: [TakeOver(tokens[0])] if view.owner in facts.dead else [],
        State.DONE: lambda: [FinishDone(tokens[0])],
        State.AFTER: lambda: _replay(view, tokens),
        State.ERROR: lambda: _error(view, rules) or _replay(view, tokens),
        State.BEFORE: lambda: _before(view, rules, facts, ages),
        State.READY: lambda: _ready(view, tokens[0], rules, facts, ages),
        None: lambda: _without_token(view, rules, facts, ages),
    }
    found += judge[view.state]() if view.state in judge else []
    return found if view.state is State.BEFORE else found + _beaten(view, rules, facts, ages)


def _twins(view: ItemView, tokens: list[Name], rules: Rules, facts: Facts) -> list[Action]:
    """Two names of one token. Nothing else is done about such an item: it has no state that could be relied on."""
    found: list[Action] = []
    for one, other in itertools.combinations(tokens, 2):
        if one.suffix != other.suffix:
            continue
        if any(name.state is State.CLAIMED and name.owner not in facts.dead for name in (one, other)):
            continue
        source = _SOURCE_OF_TWINS.get(frozenset({one.state, other.state}))
        if one.state is other.state is State.CLAIMED:
            source = State.CLAIMED
        if source is None:
            found.append(Tell(_title(view, rules), "; ".join(view.problems)))
        else:
            drop, keep = (one, other) if one.state is source else (other, one)
            found.append(DropTwin(drop, keep))
    return found


def _left_by_publishing(view: ItemView, rules: Rules) -> list[Action]:
    """Before names of payloads whose item is published: a rename that was cut between link and unlink."""
    payloads = [n for n, _ in view.files if n.kind is FileKind.PAYLOAD and not rules.is_token(n.kind) and not n.again]
    later = {name.suffix: name for name in payloads if name.state is not State.BEFORE}
    return [DropTwin(n, later[n.suffix]) for n in payloads if n.state is State.BEFORE and n.suffix in later]


def _beaten(view: ItemView, rules: Rules, facts: Facts, ages: Ages) -> list[Action]:
    """Old before files of a number that is published. If they are not second names of it, a rival wrote them and was cut."""
    before = [(name, listed) for name, listed in view.files if name.state is State.BEFORE]
    published = any(name.state is not State.BEFORE and rules.is_token(name.kind) for name, _ in view.files)
    if not before or not published or not all(_older(facts.age(listed), ages.before) for _, listed in before):
        return []
    return [Unfinished(view.item, tuple(name for name, _ in before))]


def _error(view: ItemView, rules: Rules) -> list[Action]:
    reasons = {name.again for name, _ in view.files if name.state is State.ERROR and name.suffix == REASON_SUFFIX}
    tokens = [name for name, _ in view.files if rules.is_token(name.kind) and name.state is State.ERROR]
    return [FinishError(token) for token in tokens if token.again not in reasons]


def _receipts(snapshot: Snapshot, rules: Rules) -> list[Action]:
    aside = [listed.path for listed in snapshot.scratch if listed.path.endswith(ASIDE)]
    if not aside:
        return []  # images from before there were receipts are left as they are
    found: list[Action] = []
    for view in (*snapshot.in_state(State.AFTER), *snapshot.in_state(State.ERROR)):
        names = {name for name, _ in view.files}
        for token in names:
            receipt = replace(token, suffix=RECEIPT_SUFFIX)
            wants = rules.is_token(token.kind) and token.state is view.state and rules.writes_receipt(token.item.group)
            if wants and receipt not in names and set_aside(aside, rules.layout.path(receipt)):
                found.append(FinishReceipt(token))
    return found


def _replay(view: ItemView, tokens: list[Name]) -> list[Action]:
    asked = any(name.kind is FileKind.PAYLOAD and name.state is State.READY for name, _ in view.files)
    return [Replay(token) for token in tokens[:1]] if asked and not tokens[0].again else []


def _before(view: ItemView, rules: Rules, facts: Facts, ages: Ages) -> list[Action]:
    old = all(_older(facts.age(listed), ages.before) for _, listed in view.files)
    if not old:
        return []
    token = next((name for name, _ in view.files if rules.is_token(name.kind)), None)
    begun = any(name.state is State.READY and name.kind is FileKind.PAYLOAD for name, _ in view.files)
    if token is not None and begun:
        return [FinishPublish(token)]
    return [Unfinished(view.item, tuple(name for name, _ in view.files if name.state is State.BEFORE))]


def _ready(view: ItemView, token: Name, rules: Rules, facts: Facts, ages: Ages) -> list[Action]:
    # Where only the token was brought back, its payload still is an after or error image.
    there = (State.READY, State.AFTER, State.ERROR)
    payload = any(n.kind is FileKind.PAYLOAD and n.state in there and not n.again for n, _ in view.files)
    if not payload:
        # One listing may miss a file that is being renamed, so whoever carries this out looks for it by its name.
        return [MissingPayload(token)]
    ages_there = [facts.age(listed) for name, listed in view.files if name == token]
    if _older(ages_there[0], ages.ready):
        return [Tell(_title(view, rules), f"ready for {ages_there[0]:.0f} s: has the consumer stopped?", alarm=True)]
    return []


def _without_token(view: ItemView, rules: Rules, facts: Facts, ages: Ages) -> list[Action]:
    loose = [(n, e) for n, e in view.files if n.state is State.READY and n.kind is FileKind.PAYLOAD]
    if rules.signal is Signal.NONE or not loose or not all(_older(facts.age(listed), ages.before) for _, listed in loose):
        return []
    return [Tell(_title(view, rules), "unsignalled: its payload is ready and there is no token; its producer was cut short")]


def _archive(snapshot: Snapshot, rules: Rules, facts: Facts, ages: Ages) -> list[Action]:
    found: list[Action] = []
    for group in snapshot.groups():
        views = snapshot.in_state(State.AFTER, group)
        surplus = len(views) - ages.keep_after if ages.keep_after is not None else 0
        for index, view in enumerate(views):
            names = [(n, e) for n, e in view.files if n.state is State.AFTER]
            if len(names) != len(view.files):
                continue  # a payload or token is elsewhere: somebody is replaying it
            old = all(_older(facts.age(listed), ages.after) for _, listed in names)
            if index < surplus or (old and ages.after is not None):
                found.append(Archive(view.item, tuple(name for name, _ in names)))
    found.extend(_half_archived(snapshot, facts, ages))
    return found


def _half_archived(snapshot: Snapshot, facts: Facts, ages: Ages) -> list[Action]:
    """What is left of an item whose token is in the archive, by a sweep that was cut: told from one on its way by its age."""
    kinds = (FileKind.PAYLOAD, FileKind.RECEIPT)
    limit = ages.after if ages.after is not None else ages.before
    loose = [view for view in snapshot.items.values() if view.state is None]
    return [
        Archive(view.item, tuple(name for name, _ in view.files))
        for view in loose
        if all(n.state is State.AFTER and n.kind in kinds and _older(facts.age(e), limit) for n, e in view.files)
    ]


def _title(view: ItemView, rules: Rules) -> str:
    return f"{view.item.group}{rules.grammar.digits(view.item.number)}"
