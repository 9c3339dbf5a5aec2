"""What one journal file's lines come to, taken one after the other: the entries, and which lines counted."""

from collections.abc import Iterator

from gateway.handoff.ledger.base import Event
from gateway.handoff.ledger.index import Index
from gateway.handoff.ledger.journal_files import file_name
from gateway.handoff.ledger.journal_lines import FORMAT, Head, Line, Record, Seal, decoded, is_kept
from protocol.ledger import Entry


class Damaged(Exception):
    """A file is not what its writers wrote. The text says which, and where."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{file_name(number)}: {text}")


class LaterFormat(Exception):
    """A later dropgate has written the file."""


class Replay:
    """The state after the lines that were taken. Every process that takes the same lines comes to the same."""

    def __init__(self, number: int, consumer: str) -> None:
        self.index = Index()
        self.sealed = False
        self.kept_until = 0  # the offset behind the last kept line
        self.touched: set[str] | None = None  # where somebody wants to know: the keys that were changed since
        self._versions: dict[str, int] = {}
        self._head = Head(FORMAT, number, consumer)
        self._has_head = False
        self._knows_kept = False

    def successor(self) -> "Replay":
        """The replay of the file that follows this sealed one. It begins with what is known, so that is not read again."""
        following = Replay(self._head.number + 1, self._head.consumer)
        following.index, following._versions = self.index, self._versions
        following._knows_kept = True
        return following

    def version(self, key: str) -> int:
        """How often a key was changed."""
        return self._versions.get(key, 0)

    def records(self, keys: set[str] | None = None) -> Iterator[Record]:
        """The entries as they are to be kept in the next file: all, or those of some keys; the last change at the end."""
        for key, entry in self.index.items():
            if keys is None or key in keys:
                yield Record(self._versions[key], "", key, entry)

    def take(self, data: bytes, offset: int) -> tuple[Line, bool] | None:
        """Takes the line that ends before `offset`, and says whether it counted. None: it is no line.

        Raises Damaged and LaterFormat.
        """
        if self._knows_kept and is_kept(data):
            self.kept_until = offset
            return None
        line = decoded(data)
        if line is None or self.sealed:
            return None
        if not self._has_head:
            self._check_head(line)
            return None
        match line:
            case Record(version, by, key, entry):
                return line, self._put(version, by, key, entry, offset)
            case Seal():
                self.sealed = True
                return line, True
            case Head():
                raise Damaged(self._head.number, f"it begins anew before byte {offset}")

    def _check_head(self, line: Line) -> None:
        if isinstance(line, Head) and line.format > FORMAT:
            raise LaterFormat(f"it is of format {line.format}, and this dropgate knows {FORMAT}")
        if line != self._head:
            raise Damaged(self._head.number, "its beginning is not that of this consumer group's file")
        self._has_head = True

    def _put(self, version: int, by: str, key: str, entry: Entry, offset: int) -> bool:
        present = self.version(key)
        if not by:
            self.kept_until = offset
        elif version <= present:
            return False  # another one's line came first
        elif version > present + 1:
            # Its writer has seen a line that is not here: nobody can say any more what is true.
            raise Damaged(self._head.number, f"a line of the key {key!r} is missing before byte {offset}")
        self._versions[key] = version
        self.index.put(key, entry)
        if self.touched is not None:
            self.touched.add(key)
        return True


def events(lines: Iterator[tuple[bytes, int]], replay: Replay, *, first: bool) -> Iterator[Event]:
    """The changes in a file's lines. Of the first file that is kept also what its beginning sums up. Raises as `take`."""
    for data, offset in lines:
        match replay.take(data, offset):
            case Record(_, by, key, entry), True if by or first:
                yield Event(entry.at, key, entry)
            case _:
                pass
