"""The receipts that lie at one destination of a route, and what they mean for the receipt at its source.

They are told apart by what a listing says of them: what was read once, and was carried, is not read again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.drop import Drop
from gateway.handoff.driver import Driver
from gateway.handoff.ledger.base import Ledger
from gateway.service.records import Records
from protocol.errors import InvalidManifest, InvalidReceipt
from protocol.ledger import Entry, LedgerState
from protocol.manifest import LARGEST as LARGEST_MANIFEST
from protocol.manifest import parse_manifest
from protocol.names import MANIFEST_SUFFIX, RECEIPT_SUFFIX, ItemId, Name
from protocol.operations import ReadSmall, Scan
from protocol.receipt import LARGEST, Answer, Receipt, parse_receipt
from protocol.rules import Rules, Signal
from protocol.snapshot import Listed
from protocol.states import State
from transports.errors import Busy

_MOST_READ = 500  # receipts in one round, so that the first are carried while the others wait


def stamp(listed: Listed) -> str:
    """What changes of a listing's entry when the file is replaced."""
    return f"{listed.path}:{listed.size}:{listed.modified}"


@dataclass(slots=True)
class Images:
    """Listings of some groups' files, again and again: what a name says is worked out once."""

    rules: Rules
    groups: tuple[str, ...]
    _parsed: dict[str, Name | None] = field(default_factory=dict)

    async def listed(self, pattern: str, *states: State) -> list[tuple[Name, Listed]]:
        """The files that stand in states of images, and fit a pattern. One listing for each folder. A procedure."""
        folders = dict.fromkeys(self.rules.layout.folder_of(state) for state in states)
        entries = [e for folder in folders for e in await Scan(folder, pattern) if e.regular]
        before, self._parsed = self._parsed, {}
        found: list[tuple[Name, Listed]] = []
        for entry in entries:
            name = before[entry.path] if entry.path in before else self._parse(entry.path)
            self._parsed[entry.path] = name
            if name is not None and name.state in states:
                found.append((name, entry))
        return found

    def _parse(self, path: str) -> Name | None:
        name = self.rules.layout.parse(path)
        return name if isinstance(name, Name) and name.item.group in self.groups else None


@dataclass(frozen=True, slots=True)
class Told:
    """What lies at the destination of one of its items: the stamp of it all, and the answers, by key."""

    stamp: str
    answers: Mapping[str, Receipt]


@dataclass(slots=True)
class Answers:
    """One destination that sends receipts. For one thread. What it has read waits in `news` until it was `settled`.

    `records` is given where the destination has numbers of its own.
    """

    name: str
    drop: Drop
    groups: tuple[str, ...]
    book: Ledger
    records: Records | None = None
    news: dict[ItemId, Told] = field(default_factory=dict)
    known: dict[ItemId, tuple[str, ItemId | None, str]] = field(default_factory=dict)  # stamp, source item, its stamp
    _images: Images | None = None
    _booked: dict[ItemId, Entry | None] = field(default_factory=dict)  # what the book has of news
    _of: dict[ItemId, set[ItemId]] = field(default_factory=dict)  # by the item of the source; some may not be known any more

    def look(self, driver: Driver) -> None:
        """Reads what is new. Raises transport errors, LedgerUnavailable; what was read by then stays."""
        rules = self.drop.rules
        there: dict[ItemId, list[tuple[Name, Listed]]] = {}
        self._images = self._images or Images(rules, self.groups)
        for name, listed in driver.run(self._images.listed(f"*{RECEIPT_SUFFIX}", State.AFTER, State.ERROR)):
            if name.suffix == RECEIPT_SUFFIX:
                there.setdefault(name.item, []).append((name, listed))
        # What has been archived is forgotten; the book has it still.
        if any(item not in there for item in self.known):
            self.known = {item: known for item, known in self.known.items() if item in there}
            self._of = {of: items for of, items in self._of.items() if not items.isdisjoint(self.known)}
        read = 0
        for item, found in there.items():
            now = ";".join(sorted(stamp(listed) for _, listed in found))
            if self._is_known(item, now) or (item in self.news and self.news[item].stamp == now):
                continue
            if (read := read + 1) > _MOST_READ:
                break
            self.news[item] = Told(now, driver.run(_read(rules, [name for name, _ in found])))

    def source_of(self, item: ItemId, ledger: Ledger) -> ItemId | None:
        """Which item of the source was published here as this one; None where it is not of this route."""
        if self.records is None:
            return item
        key = ""
        for event in self.records.ledger.history(item=item):
            key = event.key
        record = self.records.read(key) if key else None
        entry = ledger.read(key) if record is not None and record.item == item else None
        return None if entry is None else entry.item

    def settled(self, item: ItemId, source: ItemId | None, source_stamp: str, at: str, *, for_good: bool = True) -> None:
        """What was read of an item needs not be read again, unless it changes here, or at the source. For good: also after a
        restart."""
        told, key = self.news.pop(item), self._key(item)
        self._know(item, told.stamp, source, source_stamp)
        before = self._booked.pop(item) if item in self._booked else self.book.read(key)
        if not for_good:
            return
        generation = 1 if before is None else before.generation + 1
        text = "\n".join((told.stamp, source_stamp, "" if source is None else "ours"))
        after = Entry(LedgerState.ARCHIVED, generation, source or item, "", 1, at, result=text)
        self.book.compare_and_set(key, before, after)

    def again(self, source: ItemId) -> None:
        """The receipt at the source is not the one that was written there: what belongs to it is read anew."""
        for item in self._known_of(source):
            self.known[item] = ("", source, "")

    def noted(self, source: ItemId, source_stamp: str) -> None:
        """The receipt at the source holds another answer besides: it is as it was left, for all that is known here."""
        for item in self._known_of(source):
            if self.known[item][0]:
                self.known[item] = (self.known[item][0], source, source_stamp)

    def _known_of(self, source: ItemId) -> list[ItemId]:
        return [item for item in self._of.get(source, ()) if item in self.known and self.known[item][1] == source]

    def _know(self, item: ItemId, stamp: str, source: ItemId | None, source_stamp: str) -> None:
        self.known[item] = (stamp, source, source_stamp)
        if source is not None:
            self._of.setdefault(source, set()).add(item)

    def _key(self, item: ItemId) -> str:
        return f"{self.name}: {item.group}{self.drop.rules.grammar.digits(item.number)}"

    def _is_known(self, item: ItemId, now: str) -> bool:
        if item in self.known or item in self.news:
            return item in self.known and self.known[item][0] == now
        entry = self._booked[item] = self.book.read(self._key(item))
        if entry is not None:
            noted, source_stamp, ours = (*entry.result.split("\n"), "", "")[:3]
            self._know(item, noted, entry.item if ours else None, source_stamp)
            if noted == now:
                del self._booked[item]
        return item in self.known and self.known[item][0] == now


async def _read(rules: Rules, names: list[Name]) -> dict[str, Receipt]:
    """The receipts of an item, by key; of several of one key, which an interrupted replay may leave, that of the last run."""
    found: dict[str, Receipt] = {}
    for name in names:
        receipt = await _receipt(rules, name)
        if receipt is None:
            continue
        key = receipt.key or await _key_beside(rules, name)
        if key not in found or found[key].run <= receipt.run:
            found[key] = receipt
    return found


async def _receipt(rules: Rules, name: Name) -> Receipt | None:
    try:
        data = await ReadSmall(rules.layout.path(name), LARGEST)
        return None if data is None else parse_receipt(data)
    except (InvalidReceipt, Busy):
        return None  # read again when it has changed


async def _key_beside(rules: Rules, name: Name) -> str:
    """The key in the manifest of an item that could not be believed, and whose receipt therefore names none."""
    if rules.signal is not Signal.MANIFEST:
        return ""
    token = Name(name.item, MANIFEST_SUFFIX, name.state, again=name.again)
    try:
        return parse_manifest(await ReadSmall(rules.layout.path(token), LARGEST_MANIFEST) or b"").key
    except (InvalidManifest, Busy):
        return ""


def merged(base: Receipt, answers: Mapping[str, Answer], sending: tuple[str, ...], others: tuple[str, ...]) -> Receipt:
    """The source's receipt with these answers in it. `sending` are the destinations that send receipts, `others` do not.

    Failed where one of them failed; else processed, once all have answered and one at least was the last consumer.
    """
    known = {name: Answer(outcome="published") for name in others}
    known |= {name: one for name, one in base.destinations.items() if name in sending}
    known |= answers
    complete = all(name in known for name in sending)
    outcomes = {known[name].outcome for name in sending if name in known}
    outcome = "failed" if "failed" in outcomes else "processed" if complete and "processed" in outcomes else "forwarded"
    failed = [one for one in known.values() if one.outcome == "failed"]
    changes = {
        "outcome": outcome,
        "complete": complete,
        "destinations": known,
        "kind": failed[0].kind if failed else "",
        "error": "; ".join(f"{name}: {one.error}" for name, one in known.items() if one.outcome == "failed"),
    }
    return base.model_copy(update=changes)


def says_the_same(one: Receipt, other: Receipt) -> bool:
    """Whether two receipts differ in nothing but when they were written."""
    return one.model_dump(exclude={"time"}) == other.model_dump(exclude={"time"})
