"""The current entries held in memory, with the answers that are asked for often kept at hand."""

from gateway.handoff.ledger.base import is_settled
from protocol.ledger import Entry, LedgerState


class Index:
    """Keys and their entries, in the order of their last change."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._done: dict[str, Entry] = {}
        self._highest: dict[str, int | None] = {}  # by group; what is not in it has to be counted

    def get(self, key: str) -> Entry | None:
        """The entry of a key."""
        return self._entries.get(key)

    def put(self, key: str, entry: Entry) -> None:
        """Makes it the entry of the key, whatever it was before."""
        before = self._entries.pop(key, None)
        self._entries[key] = entry
        self._done.pop(key, None)
        if entry.state is LedgerState.DONE:
            self._done[key] = entry
        if before is not None and is_settled(before):
            self._highest.pop(before.item.group, None)  # it may have been the highest, and is under way again
        group = entry.item.group
        if is_settled(entry) and group in self._highest:
            self._highest[group] = max(entry.item.number, self._highest[group] or 0)

    def unarchived(self) -> list[tuple[str, Entry]]:
        """The keys that are done and not archived."""
        return list(self._done.items())

    def items(self) -> list[tuple[str, Entry]]:
        """All keys, the one that was changed last at the end."""
        return list(self._entries.items())

    def highest_settled(self, group: str) -> int | None:
        """The highest settled number of a group; counted once, and then kept up to date."""
        if group not in self._highest:
            numbers = (e.item.number for e in self._entries.values() if e.item.group == group and is_settled(e))
            self._highest[group] = max(numbers, default=None)
        return self._highest[group]
