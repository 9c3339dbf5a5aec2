"""A drop as a table: one row an item, filtered, ordered and cut into pages on this side, so that the browser gets one page."""

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from gateway.service.board import DropView
from gateway.service.web.words import epoch
from protocol.names import Grammar, ItemId
from protocol.snapshot import ItemView, Snapshot
from protocol.states import State

PAGE = 100  # rows; more than a screen, and few enough for any browser and any wire
NO_TOKEN = "no token"  # noqa: S105 - a state's word, for payloads whose token is not there
STATES = (*(state.word for state in State), NO_TOKEN)

_LONGEST_SEARCH = 200
_SLACK = 1.5  # seconds that two measurements of one clock may differ by


@dataclass(frozen=True, slots=True)
class Row:
    """One item. `at` is when its token last changed, in seconds since the epoch by *this* host's clock."""

    title: str
    item: ItemId
    state: str
    owner: str
    size: int
    at: float | None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """Which rows are asked for, and in which order. `page` counts from 1."""

    state: str = ""
    group: str | None = None
    text: str = ""
    oldest: bool = False
    page: int = 1

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Query":
        """Out of an address. What makes no sense there is left out."""
        page = given.get("page", "1")
        return cls(
            given.get("state", "") if given.get("state", "") in STATES else "",
            given.get("group") or None,
            given.get("q", "")[:_LONGEST_SEARCH].strip(),
            given.get("order") == "oldest",
            int(page) if page.isascii() and page.isdecimal() and len(page) <= 9 and int(page) >= 1 else 1,
        )

    def address(self, **changes: str | int) -> str:
        """The same query as the end of an address, with other values where given; pages begin anew unless one is given."""
        values: dict[str, str | int] = {
            "state": self.state,
            "group": self.group or "",
            "q": self.text,
            "order": "oldest" if self.oldest else "",
        }
        values.update(changes)
        text = urlencode({name: value for name, value in values.items() if value != "" and (name, value) != ("page", 1)})
        return f"?{text}" if text else "?"


@dataclass(frozen=True, slots=True)
class Selection:
    """One page of what a query found. `states` counts what the rest of the query lets through, by state."""

    rows: list[Row]
    total: int
    states: Counter[str]
    page: int
    pages: int


@dataclass(slots=True)
class Table:
    """All rows of one snapshot, the oldest first."""

    rows: list[Row] = field(default_factory=list)
    by_title: dict[str, Row] = field(default_factory=dict)
    groups: dict[str, Counter[str]] = field(default_factory=dict)  # by group, then by state

    def count(self, groups: tuple[str, ...] = ()) -> Counter[str]:
        """Items by state, of some groups or of all."""
        total: Counter[str] = Counter()
        for group, counted in self.groups.items():
            if not groups or group in groups:
                total += counted
        return total

    def select(self, query: Query) -> Selection:
        """The page that a query asks for, or the last one where there are fewer."""
        text = query.text.casefold()
        found = [row for row in self.rows if query.group in (None, row.item.group) and (not text or _has(row, text))]
        states = Counter(row.state for row in found)
        if query.state:
            found = [row for row in found if row.state == query.state]
        pages = max(1, -(-len(found) // PAGE))
        page = min(query.page, pages)
        first = (page - 1) * PAGE
        if query.oldest:
            chosen = found[first : first + PAGE]
        else:
            chosen = found[max(0, len(found) - first - PAGE) : len(found) - first][::-1]
        return Selection(chosen, len(found), states, page, pages)


def _has(row: Row, text: str) -> bool:
    return text in row.title.casefold() or text in row.owner or any(text in problem.casefold() for problem in row.problems)


@dataclass(slots=True)
class Tables:
    """The table of each drop, made once for each snapshot. For any number of threads."""

    _made: dict[str, tuple[Snapshot, Table]] = field(default_factory=dict)
    _ahead: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, view: DropView, grammar: Grammar) -> Table:
        """The rows of a drop as it was last seen; none before the first look."""
        if view.snapshot is None:
            return Table()
        with self._lock:
            snapshot, table = self._made.get(view.name, (None, Table()))
            if snapshot is not view.snapshot:
                table = _table(view.snapshot, grammar, self._clock_ahead(view))
                self._made[view.name] = (view.snapshot, table)
            return table

    def keep(self, names: Collection[str]) -> None:
        """Forgets the drops that are no longer there."""
        with self._lock:
            for name in self._made.keys() - set(names):
                del self._made[name]

    def clock_ahead(self, view: DropView) -> float:
        """How far a server's clock is ahead of ours, in seconds, as the rows of its drop were reckoned."""
        with self._lock:
            return self._ahead.get(view.name, 0.0)

    def _clock_ahead(self, view: DropView) -> float:
        looked, before = epoch(view.looked_at), self._ahead.get(view.name, 0.0)
        ahead = before if looked is None or view.server_time is None else view.server_time - looked
        # It is measured a little differently each time, and every row would change with it.
        if abs(ahead - before) > _SLACK:
            self._ahead[view.name] = float(round(ahead))
        return self._ahead.get(view.name, 0.0)


def _table(snapshot: Snapshot, grammar: Grammar, ahead: float) -> Table:
    table = Table()
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in snapshot.items.values():
        row = _row(one, grammar, ahead)
        table.rows.append(row)
        table.by_title[row.title] = row
        counted[row.item.group][row.state] += 1
    table.rows.sort(key=lambda row: (row.at or 0.0, row.item))
    table.groups = dict(sorted(counted.items()))
    return table


def _row(one: ItemView, grammar: Grammar, ahead: float) -> Row:
    state = one.state.word if one.state is not None else NO_TOKEN
    title = f"{one.item.group}{grammar.digits(one.item.number)}"
    times = [listed.modified for _, listed in one.files if listed.modified is not None]
    at = max(times) - ahead if times else None
    return Row(title, one.item, state, one.owner, one.size, at, tuple(one.problems))
