"""A listing becomes items with states, helpers, foreign names and anomalies: what a person sees with `ls -1`, for a program.

A listing is not a snapshot of the directory: a file renamed meanwhile may stand in it twice or not at all. So what is
said here is evidence for a decision, and every decision is then made by a rename that can lose.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from protocol.names import CounterName, FileKind, ItemId, LeaseName, Name, OriginName, ScratchName, SeedName, behind_mark
from protocol.rules import Rules
from protocol.states import State

# Where a token stands under two names, the later one says what has already happened.
_ORDER = (State.BEFORE, State.READY, State.CLAIMED, State.DONE, State.AFTER, State.ERROR)


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry of a listing: its path in the drop, what it is, its size and the server's time for it."""

    path: str
    regular: bool = True
    folder: bool = False
    size: int | None = None
    modified: float | None = None


@dataclass(slots=True)
class ItemView:
    """What a listing shows of one item."""

    item: ItemId
    files: list[tuple[Name, Listed]] = field(default_factory=list)
    state: State | None = None  # None: payloads are there, and no token
    owner: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of its payloads, as far as the server told."""
        return sum(listed.size or 0 for name, listed in self.files if name.kind is FileKind.PAYLOAD)


@dataclass(slots=True)
class Snapshot:
    """A whole drop, from one listing. `items` is ordered by group, then by number."""

    items: dict[ItemId, ItemView] = field(default_factory=dict)
    counters: dict[str, list[int]] = field(default_factory=dict)
    leases: dict[str, Listed] = field(default_factory=dict)
    scratch: list[Listed] = field(default_factory=list)
    foreign: list[Listed] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def groups(self) -> list[str]:
        """Every group that has an item or a counter."""
        return sorted({item.group for item in self.items} | set(self.counters))

    def highest(self, group: str) -> int | None:
        """The highest number of a group seen in any state."""
        return max((item.number for item in self.items if item.group == group), default=None)

    def gaps(self, group: str) -> list[tuple[int, int]]:
        """Runs of missing numbers, first and last, behind the last one that was processed: what a strict order waits for.

        Below that nothing can be said: processed items are archived.
        """
        views = [view for view in self.items.values() if view.item.group == group]
        last = max((v.item.number for v in views if v.state in (State.DONE, State.AFTER)), default=None)
        numbers = [v.item.number for v in views if last is None or v.item.number >= last]
        return [(low + 1, high - 1) for low, high in pairwise(numbers) if high - low > 1]

    def claimants(self) -> set[str]:
        """Every owner whose name stands in a claim, also where the item has another name besides."""
        names = (name for view in self.items.values() for name, _ in view.files)
        return {name.owner for name in names if name.state is State.CLAIMED}

    def in_state(self, state: State, group: str | None = None) -> list[ItemView]:
        """Items of one state, in order."""
        return [v for v in self.items.values() if v.state is state and group in (None, v.item.group)]


def take_snapshot(entries: Iterable[Listed], rules: Rules) -> Snapshot:
    """Sorts a listing of the drop's folders into what its names say."""
    snapshot = Snapshot()
    views: dict[ItemId, ItemView] = {}
    for listed in entries:
        parsed = rules.layout.parse(listed.path) if listed.regular else None
        match parsed:
            case Name():
                views.setdefault(parsed.item, ItemView(parsed.item)).files.append((parsed, listed))
            case CounterName():
                snapshot.counters.setdefault(parsed.group, []).append(parsed.number)
            case LeaseName():
                snapshot.leases[parsed.owner] = listed
            case ScratchName():
                snapshot.scratch.append(listed)
            case OriginName() | SeedName():
                pass  # they only matter to whoever takes the first number
            case None:
                snapshot.foreign.append(listed)
    for view in sorted(views.values(), key=lambda v: v.item):
        _judge(view, rules)
        snapshot.items[view.item] = view
    _judge_groups(snapshot)
    return snapshot


def _judge(view: ItemView, rules: Rules) -> None:
    view.files.sort(key=lambda pair: pair[1].path)
    tokens = [name for name, _ in view.files if rules.is_token(name.kind)]
    # A number that was used again keeps both images, "+1" and on; the state is that of the item itself.
    current = [name for name in tokens if not name.again] or tokens
    if current:
        latest = max(current, key=lambda name: _ORDER.index(name.state))
        view.state, view.owner = latest.state, latest.owner
        _judge_tokens(view, current)
    elif all(name.state is State.BEFORE for name, _ in view.files):
        view.state = State.BEFORE
    elif any(name.kind is FileKind.PAYLOAD for name, _ in view.files):
        view.problems.append("payload without its token: unsignalled, or being renamed just now")
    else:
        view.problems.append("neither token nor payload: only what belonged to them")
    _judge_payloads(view, rules)


def _judge_tokens(view: ItemView, tokens: list[Name]) -> None:
    states = sorted({(n.state, n.owner) for n in tokens}, key=lambda s: (_ORDER.index(s[0]), s[1]))
    if len(states) > 1:
        shown = ", ".join(f"{state.word} by {owner}" if owner else state.word for state, owner in states)
        view.problems.append(f"its token stands in more than one state: {shown}")
    suffixes = sorted({n.suffix for n in tokens})
    if len(suffixes) > 1:
        view.problems.append(f"it has more than one token, so it is handed over in parts: {', '.join(suffixes)}")


def _judge_payloads(view: ItemView, rules: Rules) -> None:
    states: defaultdict[str, set[State]] = defaultdict(set)
    for name, _ in view.files:
        if name.kind is FileKind.PAYLOAD and not name.again:
            states[name.suffix].add(name.state)
    for suffix, found in states.items():
        if len(found) > 1 and not rules.is_token(FileKind.PAYLOAD):  # a token was judged already
            shown = ", ".join(state.word for state in _ORDER if state in found)
            view.problems.append(f"its payload .{suffix} stands in more than one state: {shown}")
    if view.state in (State.READY, State.CLAIMED):
        # In `A_` it is where an operator who asked for a replay left it.
        there = {State.READY, State.CLAIMED, State.AFTER}
        if not states:
            view.problems.append("its token is there and its payload is not")
        elif missing := sorted(suffix for suffix, found in states.items() if not found & there):
            view.problems.append(f"its token says that it is complete, and its payload .{', .'.join(missing)} is not ready")


def _judge_groups(snapshot: Snapshot) -> None:
    by_case: defaultdict[str, list[str]] = defaultdict(list)
    for group in snapshot.groups():
        by_case[group.lower()].append(group)
    for group in snapshot.groups():
        if (bare := behind_mark(group)) is not None and bare in by_case:
            by_case[bare].append(group)
    for groups in by_case.values():
        if len(groups) > 1:
            snapshot.problems.append(f"groups {' and '.join(map(repr, groups))} differ only by case; SMB takes them for one")
    for group, numbers in snapshot.counters.items():
        if len(numbers) > 1:
            snapshot.problems.append(f"group {group!r} has {len(numbers)} counters, or it was renamed just now")
