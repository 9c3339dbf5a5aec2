"""Where each name of a drop stands: as a mark in front of the name, or as a folder (PROTOCOL section 2).

A layout maps a name to a path below the drop's directory and back. Both layouts are the same machine: a step is a rename
of the token from one path to another.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

from protocol.errors import InvalidName
from protocol.names import (
    LONGEST_NAME,
    CounterName,
    Grammar,
    LeaseName,
    Name,
    OriginName,
    Parsed,
    SeedName,
    check_owner,
    is_device,
    is_marked,
)
from protocol.shown import shown
from protocol.states import State

QUARANTINE_FOLDER = "quarantine"  # where a sweep puts unfinished files that nobody finishes, if it was asked to
DEFAULT_FOLDERS = ("temp", "incoming", "processing", "archive", "error")


class Layout(ABC):
    """Paths of one drop. They are relative to its directory, "/"-separated; "" is the directory itself."""

    grammar: Grammar

    @property
    @abstractmethod
    def folders(self) -> tuple[str, ...]:
        """The folders, below the directory itself, that the layout needs and that must be on its volume."""

    @abstractmethod
    def path(self, name: Name) -> str:
        """Where a file of an item stands. Raises InvalidName."""

    @abstractmethod
    def parse(self, path: str) -> Parsed | None:
        """What a path says; None where it is foreign."""

    @abstractmethod
    def folder_of(self, state: State, owner: str = "") -> str:
        """The folder that holds the names of a state."""

    @property
    @abstractmethod
    def claims_folder(self) -> str | None:
        """The folder whose sub-folders are named by owners; None where claims stand among the others."""

    @property
    @abstractmethod
    def archive_folder(self) -> str:
        """The folder whose sub-folders, named by days, take after images that are old enough to leave the drop."""

    def item_pattern(self, name: Name) -> str:
        """A listing pattern that finds this item's files in the folder of any state."""
        return f"*{name.item.group}{self.grammar.digits(name.item.number)}*"

    # Names that are no file of an item stand at the top in both layouts: they belong to no state.

    def counter(self, group: str, number: int) -> str:
        return self.grammar.format_counter(CounterName(group, number))

    def origin(self, group: str) -> str:
        return self.grammar.format_origin(OriginName(group))

    def seed(self, group: str, owner: str, attempt: str) -> str:
        return self.grammar.format_seed(SeedName(group, owner, attempt))

    def lease(self, owner: str) -> str:
        return self.grammar.format_lease(LeaseName(owner))


@dataclass(frozen=True, slots=True)
class PrefixLayout(Layout):
    """One directory; the state is the mark in front of the name. `ls -1` groups an owner's items and each state."""

    grammar: Grammar = field(default_factory=Grammar)

    @property
    def folders(self) -> tuple[str, ...]:
        return ()

    @property
    def claims_folder(self) -> str | None:
        return None

    @property
    def archive_folder(self) -> str:
        return "archive"

    def folder_of(self, state: State, owner: str = "") -> str:
        return ""

    def path(self, name: Name) -> str:
        return self.grammar.format(name)

    def parse(self, path: str) -> Parsed | None:
        return self.grammar.parse(path)


def _is_folder_name(name: str) -> bool:
    safe = all(c.isprintable() and c not in '/\\:*?"<>|+' for c in name)  # a lone surrogate is not printable either
    return safe and name != "" and name.strip(". ") == name and len(name.encode()) <= LONGEST_NAME and not is_device(name)


@dataclass(frozen=True, slots=True)
class FolderLayout(Layout):
    """Five folders for the marks: before, ready, claimed (with one folder an owner), after, error.

    *Done* stands in the after folder under its mark, `archive/D_x`: it is on its way there.
    """

    grammar: Grammar = field(default_factory=Grammar)
    names: tuple[str, ...] = DEFAULT_FOLDERS

    def __post_init__(self) -> None:
        if len(self.names) != len(DEFAULT_FOLDERS):
            raise InvalidName(f"the folder layout needs five names, for {', '.join(DEFAULT_FOLDERS)}; {len(self.names)} given")
        if len({name.casefold() for name in self.names}) != len(self.names):
            raise InvalidName(f"two folders of the layout have one name: {', '.join(map(shown, self.names))}")
        for name in self.names:
            if not _is_folder_name(name):
                raise InvalidName(f"{shown(name)} cannot be the name of a folder on every server")
            if is_marked(name) or self.grammar.parse(name) is not None:
                raise InvalidName(f"folder {name!r} reads like a file of the drop")

    @property
    def folders(self) -> tuple[str, ...]:
        return self.names

    @property
    def claims_folder(self) -> str | None:
        return self.names[2]

    @property
    def archive_folder(self) -> str:
        return self.names[3]

    def folder_of(self, state: State, owner: str = "") -> str:
        before, ready, claimed, after, error = self.names
        if state is State.CLAIMED:
            return f"{claimed}/{check_owner(owner)}"
        return {State.BEFORE: before, State.READY: ready, State.DONE: after, State.AFTER: after, State.ERROR: error}[state]

    def path(self, name: Name) -> str:
        self.grammar.format(name)  # whatever has no name in one layout has none in the other
        mark = "D_" if name.state is State.DONE else ""
        return f"{self.folder_of(name.state, name.owner)}/{mark}{self.grammar.format_bare(name)}"

    def parse(self, path: str) -> Parsed | None:
        parts = path.split("/")
        if len(parts) == 1:
            return self.grammar.parse_helper(path)
        before, ready, claimed, after, error = self.names
        if len(parts) == 3 and parts[0] == claimed:
            try:
                owner = check_owner(parts[1])
            except InvalidName:
                return None
            return self._known(self.grammar.parse_bare(parts[2]), State.CLAIMED, owner)
        if len(parts) != 2 or parts[0] not in self.names:
            return None
        folder, text = parts
        if text.startswith("T_"):
            return self.grammar.parse_helper(text)  # a probe renames its scratch through the folders
        if folder == after and text.startswith("D_"):
            return self._known(self.grammar.parse_bare(text[2:]), State.DONE)
        states = {before: State.BEFORE, ready: State.READY, after: State.AFTER, error: State.ERROR}
        state = states.get(folder)
        return self._known(self.grammar.parse_bare(text), state) if state is not None else None

    def _known(self, bare: Name | None, state: State, owner: str = "") -> Name | None:
        if bare is None or (bare.again and state not in (State.AFTER, State.ERROR)):
            return None
        return replace(bare, state=state, owner=owner)
