"""What is promised, each checked while a simulation runs or once it is at rest, with the sentence of PROTOCOL it holds.

    WHOLE       nothing is ever handed to a handler without a complete matching token      section 5, 7: "a verified copy"
    ONCE        a handler runs once per key, and again only after an earlier run was cut,
                failed, or a person asked                                                   section 7: "What is promised"
    TOLD        a run that follows one that was cut is told `redelivered`                   section 7: "then it is told"
    ALONE       two claims that both stand never run one key at once                        section 8: "wait for its outcome"
    LIVE        a worker that keeps its lease keeps its claim                               section 6: "Expiry never compares"
    UNIQUE      no number is handed out twice, and no number is published twice             section 4
    REFUSED     what was refused, with nothing left behind, is never handed over            section 5: "On failure before"
    BYTES       published bytes are at rest under exactly one name                          section 9 (and the world: nothing is
                                                                                            replaced, no last name is deleted)
    PROCESSED   an after image was processed, an error image was given up                   section 7
    ARRIVES     what was published reaches an after or error image                          section 11
    HONOURED    every replay that was asked for is run                                      section 8: "a deliberate replay"
    TIDY        nothing is left at rest that no rule explains                               section 11
    RECEIPTED   in a drop with receipts each image has that of its last run, whole             docs/protocol.md: "Receipts"
    ROUTED      a route publishes once at its destination, whatever was cut                 section 7: "always exactly once"

The world holds two more at every rename: a token only takes steps of the states table, and no file has a third name.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol.ledger import Ended, Entry, LedgerState
from protocol.names import FileKind, ItemId, Name
from protocol.operations import Handle
from protocol.receipt import parse_receipt
from protocol.rules import Signal
from protocol.states import State
from tests.simulation.world import Violation, World, digest

MAX_ATTEMPTS = 3


@dataclass(slots=True)
class Run:
    """One run of the handler, as far as it has come. `settled`: the ledger knows how it ended."""

    owner: str
    claim: str
    generation: int
    ended: bool = False
    settled: bool = False


@dataclass(slots=True)
class Story:
    """What was done for one key."""

    runs: list[Run] = field(default_factory=list)
    done: int = 0  # successes that the ledger has recorded
    replays_asked: int = 0
    replays_begun: int = 0


@dataclass(slots=True)
class Sent:
    """One hand-off, as its sender knows it: the contents of its files by suffix. `refused`: told that nothing was sent."""

    key: str
    contents: dict[str, bytes]
    refused: bool = False


class Promises:
    """What was sent into one drop and what became of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rules = world.rules
        self.ledger: dict[str, Entry] = {}
        self.stories: defaultdict[str, Story] = defaultdict(Story)
        self.sent: dict[bytes, Sent] = {}  # by the content of the first file
        self.numbers: Counter[int] = Counter()
        self.tokens: Counter[ItemId] = Counter()  # publications
        self.given_up: set[ItemId] = set()
        self.keeps_keys = self.rules.signal is Signal.MANIFEST  # as their senders gave them
        world.renamed = self.renamed
        # Whether a worker keeps its lease, as the whole world could know, and whether it is at it just now.
        self.is_live: Callable[[str], bool] = lambda _owner: False
        self.by_its_owner: Callable[[str], bool] = lambda _owner: True

    # While it runs.

    def took(self, number: int) -> None:
        """A producer was given a number by the counter."""
        self.numbers[number] += 1
        if self.numbers[number] > 1:
            raise Violation(f"UNIQUE: number {number} was handed out twice")

    def renamed(self, src: str, dst: str, before: Name, after: Name) -> None:
        """A token is about to take a step."""
        if before.state is State.BEFORE:
            self.tokens[after.item] += 1
            if self.tokens[after.item] > 1:
                raise Violation(f"UNIQUE: {dst} is published a second time")
        taken = before.state is State.CLAIMED and (after.state is State.CLAIMED or not self.by_its_owner(before.owner))
        if taken and self.is_live(before.owner):
            raise Violation(f"LIVE: {src} becomes {dst}, and its worker has kept its lease")

    def handing_over(self, operation: Handle) -> bool:
        """Before a handler runs; False where a payload was moved away under a claim that was lost."""
        claim = self.rules.layout.path(operation.claimed)
        stands = claim in self.world.files
        sent: Sent | None = None
        for payload in operation.contents.payloads:
            file = self.world.files.get(payload.path)
            if file is None or (payload.digest and digest(payload.algorithm, file.data) != payload.digest):
                # Taken over and put away meanwhile; otherwise it would be a half-written or lost payload.
                if stands:
                    raise Violation(f"WHOLE: {claim} is handed to a handler, and {payload.path} is not what it says")
                return False
            if sent is None:
                sent = self.sent.get(file.data)
            if sent is None or sent.contents.get(payload.name.suffix) != file.data:
                raise Violation(f"WHOLE: {payload.path} holds {file.data!r}, which nobody sent like that")
        assert sent is not None
        if len(operation.contents.payloads) != len(sent.contents):
            raise Violation(f"WHOLE: {claim} is handed over without some of its files")
        if self.keeps_keys and operation.key != sent.key:
            raise Violation(f"WHOLE: {claim} has the key {operation.key!r}, and {sent.key!r} was sent")
        if sent.refused:
            raise Violation(f"REFUSED: {claim} is handed over, and its sender was told that it was not")
        self._check_run(operation, claim, stands=stands)
        return True

    def _check_run(self, operation: Handle, claim: str, *, stands: bool) -> None:
        story = self.stories[operation.key]
        if stands and story.done > story.replays_asked:
            raise Violation(
                f"ONCE: {operation.key} is processed again: {story.done} times done, {story.replays_asked} replays asked"
            )
        for run in story.runs:
            if stands and not run.ended and run.claim != claim and run.claim in self.world.files:
                raise Violation(f"ALONE: {operation.key} is processed by {run.owner} and {operation.claimed.owner} at once")
        # A sleeper may begin the run of an earlier generation late: whoever took over from it was told.
        last = max(story.runs, key=lambda run: run.generation, default=None)
        if stands and last is not None and not last.settled and not operation.redelivered:
            raise Violation(f"TOLD: {operation.key} runs after a run that was cut, and is not told")

    def begins(self, operation: Handle) -> Run:
        """A run of the handler."""
        run = Run(operation.claimed.owner, self.rules.layout.path(operation.claimed), operation.entry.generation)
        self.stories[operation.key].runs.append(run)
        return run

    def wrote(self, key: str, before: Entry | None, after: Entry) -> None:
        """The ledger has accepted an entry."""
        story = self.stories[key]
        if after.state is LedgerState.STARTED and after.ended is Ended.OPEN:
            over = before is not None and (before.state is LedgerState.ARCHIVED or before.given_up)
            story.replays_begun += over and before is not None and before.item == after.item
            return
        story.done += after.state is LedgerState.DONE
        if after.given_up:
            self.given_up.add(after.item)
        for run in story.runs:
            run.settled |= run.generation == after.generation

    # At rest.

    def check_swept(self, path: str, name: Name | None, owners: set[str]) -> None:
        """One name that is left after all have stopped and a sweeper has swept."""
        if name is None:
            if path.startswith(("L_", "T_")) and not any(owner in path for owner in owners):
                raise Violation(f"TIDY: {path} is left by the sweeper")
        elif name.state in (State.BEFORE, State.CLAIMED, State.DONE) and name.owner not in owners:
            raise Violation(f"TIDY: {path} is left by the sweeper")

    def check_rest(self) -> None:
        """Everything, once nobody has anything left to do."""
        files = self.world.files
        for first, file in self.world.published.items():
            holders = [path for path, other in files.items() if other is file]
            # An archiving that was cut in two is ended by the next sweep that archives by age.
            cut = len(holders) == 2 and any("archive/2" in path for path in holders)
            if len(holders) != 1 and not cut:
                raise Violation(f"BYTES: {first} was published, and its bytes are at rest under {holders or 'no name'}")
        names: defaultdict[ItemId, list[Name]] = defaultdict(list)
        for path in files:
            name = self.world.name(path)
            if name is not None:
                names[name.item].append(name)
                if name.state not in (State.AFTER, State.ERROR) and "archive/2" not in path:
                    raise Violation(f"TIDY: {path} is left at rest, which no rule explains")
            elif not path.startswith("S_") and "archive/2" not in path:
                raise Violation(f"TIDY: {path} is left at rest")
        counters = [path for path in files if path.startswith("S_") and path.endswith(".next")]
        if len(counters) > 1:
            raise Violation(f"UNIQUE: there are {len(counters)} counters: {counters}")
        self._check_items(names)
        for key, story in self.stories.items():
            # One whose worker died between its claim and the ledger may go back to being an error image (docs/protocol.md).
            error = key in self.ledger and self.ledger[key].given_up
            if story.replays_begun < story.replays_asked and not error:
                raise Violation(f"HONOURED: {key}: {story.replays_asked} replays asked for, {story.replays_begun} begun")

    def _check_items(self, names: dict[ItemId, list[Name]]) -> None:
        archived = {path.rpartition("/")[2] for path in self.world.files if "archive/2" in path}
        entries: defaultdict[ItemId, list[tuple[str, Entry]]] = defaultdict(list)
        for key, entry in self.ledger.items():
            entries[entry.item].append((key, entry))
        for item in self.tokens:
            bare = f"{item.group}{self.rules.grammar.digits(item.number)}."
            if any(bare in path for path in archived):
                continue
            tokens = {n.state for n in names.get(item, []) if self.rules.is_token(n.kind)}
            if not tokens & {State.AFTER, State.ERROR}:
                raise Violation(f"ARRIVES: item {item.number} was published, and its token is in no last state: {tokens}")
            known = entries.get(item) or self._by_its_key(item)
            if self.rules.receipts:
                self._check_receipts(item, names.get(item, []), dict(entries.get(item, [])))
            if State.ERROR in tokens and item not in self.given_up:
                raise Violation(f"PROCESSED: item {item.number} is an error image, and was not given up: {known}")
            if State.AFTER in tokens and any(entry.state is LedgerState.DONE for _, entry in entries.get(item, [])):
                raise Violation(f"HONOURED: item {item.number} is put away, and the ledger does not say so")
            if State.AFTER in tokens and not any(self.stories[key].done for key, _ in known):
                raise Violation(f"PROCESSED: item {item.number} is an after image, and was never processed")

    def _check_receipts(self, item: ItemId, names: list[Name], entries: dict[str, Entry]) -> None:
        """One for each image and none besides, that tells of the run which made it so."""
        receipts = {(n.state, n.again): n for n in names if n.kind is FileKind.RECEIPT}
        tokens = {(n.state, n.again) for n in names if self.rules.is_token(n.kind)}
        if missing := tokens - set(receipts):
            raise Violation(f"RECEIPTED: item {item.number} has no receipt: {missing}")
        for at in tokens:
            path = self.rules.layout.path(receipts[at])
            receipt = parse_receipt(self.world.files[path].data)
            if receipt.outcome != ("failed" if at[0] is State.ERROR else "processed"):
                raise Violation(f"RECEIPTED: {path} says {receipt.outcome}")
            entry = entries.get(receipt.key)
            if entry is not None and at[0] is State.AFTER and receipt.run != entry.generation:
                raise Violation(f"RECEIPTED: {path} tells of run {receipt.run}, and {entry.generation} was the last")

    def _by_its_key(self, item: ItemId) -> list[tuple[str, Entry]]:
        """What the ledger knows of the key of an item that was delivered besides another; only a manifest has one."""
        for path, file in self.world.files.items():
            name = self.world.name(path)
            if name is not None and name.item == item and name.kind is FileKind.MANIFEST:
                return [(key, entry) for key, entry in self.ledger.items() if f'"key": "{key}"'.encode() in file.data]
        return []
