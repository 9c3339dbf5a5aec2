"""Every ledger against a dictionary: any sequence of changes, by either of two that share it, reopened at any time."""

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from gateway.handoff.clock import Clock
from gateway.handoff.ledger.base import Event, Ledger, is_settled, is_wanted
from gateway.handoff.ledger.journal import JournalLedger
from protocol.ledger import Ended, Entry, LedgerState
from protocol.names import ItemId
from tests.gateway.ledger.places import Place

KEYS = st.sampled_from(["a", "b", "k\\", "k\0", "\ud800", "ключ"])
TEXTS = st.text(st.characters(codec=None), max_size=8)
ENTRIES = st.builds(
    Entry,
    st.sampled_from(LedgerState),
    st.integers(1, 3),
    st.builds(ItemId, st.sampled_from(["orders_", "other_", ""]), st.integers(0, 5)),
    st.sampled_from(["host-1-aaaaaa", "host-2-bbbbbb"]),
    st.integers(0, 3),
    st.sampled_from(["2026-11-30T10:00:00Z", "2026-11-30T11:00:00Z"]),
    TEXTS,
    st.sampled_from(Ended),
    TEXTS,
)


class Against(RuleBasedStateMachine):
    """Two ledgers of one place, and what a dictionary and a list say of it. Each run has a consumer group of its own."""

    def __init__(self, place: Place, team: str) -> None:
        super().__init__()
        self.place = place
        self.team = team
        self.entries: dict[str, Entry] = {}
        self.events: list[Event] = []
        first = self.open()
        self.ledgers = [first, first if place.kind == "memory" else self.open()]

    def open(self) -> Ledger:
        """The ledger; a journal that is compacted every few lines, and nothing of its history removed."""
        if self.place.kind == "journal":
            return JournalLedger(self.place.folder, self.team, Clock(), compact_at=1000, keep=1 << 30)
        return self.place.open(self.team)

    @rule(key=KEYS, after=ENTRIES, which=st.integers(0, 1))
    def change(self, key: str, after: Entry, which: int) -> None:
        """A change that knows what is there."""
        assert self.ledgers[which].compare_and_set(key, self.entries.get(key), after)
        self.entries[key] = after
        self.events.append(Event(after.at, key, after))

    @rule(key=KEYS, before=st.none() | ENTRIES, after=ENTRIES, which=st.integers(0, 1))
    def guess(self, key: str, before: Entry | None, after: Entry, which: int) -> None:
        """A change that nearly always is wrong about what is there."""
        if before == self.entries.get(key):
            return
        assert not self.ledgers[which].compare_and_set(key, before, after)

    @rule(key=KEYS, which=st.integers(0, 1), name=st.sampled_from(["generation", "attempts"]))
    def miss(self, key: str, which: int, name: str) -> None:
        """A change that is wrong in one number only."""
        present = self.entries.get(key)
        if present is not None:
            wrong = replace(present, **{name: getattr(present, name) + 1})
            assert not self.ledgers[which].compare_and_set(key, wrong, present)

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        """One of them ends and comes back."""
        if self.place.kind != "memory":
            self.ledgers[which].close()
            self.ledgers[which] = self.open()

    @rule(item=st.none() | st.builds(ItemId, st.just("orders_"), st.integers(0, 5)), key=st.none() | KEYS, late=st.booleans())
    def tell(self, item: ItemId | None, key: str | None, late: bool) -> None:
        """The history, or a part of it."""
        since = "2026-11-30T10:30" if late else None
        wanted = [event for event in self.events if is_wanted(event, item, key, since)]
        assert list(self.ledgers[0].history(item, key, since)) == wanted

    @rule(which=st.integers(0, 1))
    def agree(self, which: int) -> None:
        """Either knows what the dictionary knows."""
        ledger = self.ledgers[which]
        assert {key: ledger.read(key) for key in self.entries} == self.entries
        assert dict(ledger.unarchived()) == {k: e for k, e in self.entries.items() if e.state is LedgerState.DONE}
        for group in ("orders_", "other_", "none_"):
            numbers = [e.item.number for e in self.entries.values() if e.item.group == group and is_settled(e)]
            assert ledger.highest_settled(group) == max(numbers, default=None)

    def teardown(self) -> None:
        for which in (0, 1):
            self.agree(which)
            self.ledgers[which].close()


@pytest.mark.timeout(200)
def test_every_ledger_is_a_dictionary_with_a_history(place: Place) -> None:
    runs = count()

    class Machine(Against):
        def __init__(self) -> None:
            super().__init__(place, f"team {next(runs)}")

    examples = 60 if place.kind == "memory" else 15
    run_state_machine_as_test(Machine, settings=settings(max_examples=examples, stateful_step_count=25, deadline=None))
