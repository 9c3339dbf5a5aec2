"""The producer: hands files over to a drop, each as an item or all as one."""

import platform
import stat
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway.errors import NotYet, UnfitSource
from gateway.handoff.abandoned import ABANDONED_AFTER, Abandoned
from gateway.handoff.contents import LocalFile, Progress, ignore_progress
from gateway.handoff.driver import Driver
from protocol.errors import InvalidManifest, InvalidName, PublishInterrupted, SequenceTaken
from protocol.manifest import Producer as ProducerFact
from protocol.names import ItemId, Name
from protocol.operations import Stat
from protocol.procedures.adopt import Found, adopt, was_archived
from protocol.procedures.publish import Draft, DraftFile, Published, Sign, check_draft, publish
from protocol.procedures.rename import remove
from protocol.procedures.take_number import take_numbers
from protocol.rules import Rules
from protocol.states import State

_FRESH_NUMBERS = 5  # tries, where the counter's number turns out to be in use


def producer_fact() -> ProducerFact:
    """This host and this software, for the manifest."""
    return ProducerFact.model_validate({"host": platform.node(), "software": f"dropgate {version('dropgate')}"})


def suffix_of(path: Path) -> str:
    """The suffix a file brings: "csv", "tar.gz". Raises InvalidName where it has none that fits the grammar."""
    parts = path.name.lstrip(".").split(".")[1:]
    usable: list[str] = []
    for part in reversed(parts[-2:]):
        # "report.2024-05.csv" is a csv; "backup.tar.gz" is a tar.gz. More than one part only where each is a plain word.
        if not (part.isascii() and part.isalnum()) or (usable and part not in ("tar",)):
            break
        usable.insert(0, part)
    if not usable:
        raise InvalidName(f"{path.name!r} has no suffix that a drop can use; give one with --suffix, such as --suffix csv")
    return ".".join(usable)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One file to be sent: a local path, and the suffix it gets in the drop (its own unless given)."""

    path: Path
    suffix: str | None = None
    progress: Progress = ignore_progress

    def check(self) -> None:
        """Asked before a number is taken: what cannot be sent should leave no gap. Raises UnfitSource, OSError."""
        if any("\ud800" <= character <= "\udfff" for character in self.path.name):
            raise UnfitSource(f"{str(self.path)!r}: the name is not valid UTF-8, and no manifest can say it; rename the file")
        mode = self.path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise UnfitSource(f"{self.path} is a folder; send the files in it")
        if not stat.S_ISREG(mode):
            # A pipe gives its bytes once, and nobody can say whether they were all.
            raise UnfitSource(f"{self.path} is a pipe or a device and no file; write it to a file, and send that")
        with self.path.open("rb"):
            pass

    def draft(self) -> DraftFile:
        """The file as part of a draft; it is opened only when it is sent."""
        suffix = suffix_of(self.path) if self.suffix is None else self.suffix
        return DraftFile(suffix, LocalFile(self.path, self.progress), source_name=self.path.name)


@dataclass(slots=True)
class Producer:
    """Publishes items into one drop. For one thread, as its driver is."""

    driver: Driver
    rules: Rules
    owner: str
    sign: Sign | None = None
    _next: dict[str, int] = field(default_factory=dict)  # where each group's counter was last seen
    _abandoned: Abandoned | None = None
    _left: set[str] = field(default_factory=set)  # unfinished files of ours that could not be removed yet
    _doubtful: set[str] = field(default_factory=set)  # empty files that are most likely ours

    def send(
        self,
        files: Sequence[Outgoing],
        *,
        group: str,
        sequence: int | None = None,
        key: str | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> Published:
        """Hands the files over as one item, under `sequence` or the next number of the group's counter.

        Raises InvalidName, SequenceTaken, SequenceExhausted, UnfitSource, SourceChanged, IntegrityError, OSError, and
        transport errors: after each of them nothing was handed over and nothing is left in the drop, or a note on the
        error says what is. PublishInterrupted says that the item must not be sent again.
        """
        for file in files:
            file.check()
        if key == "":
            raise InvalidManifest("the key of a hand-off is empty; leave it out to get a fresh one")
        fresh = str(uuid.uuid4()) if key is None else key
        draft = Draft(group, tuple(f.draft() for f in files), fresh, producer_fact(), dict(meta or {}))
        check_draft(self.rules, draft)
        if sequence is not None:
            return self._publish(draft, sequence, given=True)
        for attempt in range(_FRESH_NUMBERS):
            try:
                return self._publish(draft, self._take(group), given=False)
            except SequenceTaken:
                if attempt == _FRESH_NUMBERS - 1:
                    raise
        raise AssertionError("the loop returns or raises")

    def next_number(self, group: str) -> int:
        """The next number of a group's counter, which nobody else gets. Raises SequenceExhausted and transport errors."""
        return self._take(group)

    def forward(self, draft: Draft, number: int, hashes: Mapping[str, str], *, again: bool = False) -> Published | None:
        """Publishes under a given number exactly once, however often it is called: None where it was published before.

        The caller holds the item's claim at its source, so that nobody else forwards it. `hashes` are the payloads' by
        suffix. `again` says that it was begun before: what is not in the drop any more is looked for in its archive.
        Raises SequenceTaken where the number belongs to another item, NotYet where an unfinished one is in the way; the rest
        as `send`.
        """
        check_draft(self.rules, draft)
        for path in [path for path in self._left if self._belongs(path, draft.group, number)]:
            # Ours for certain: nobody else writes to it, so it need not wait for a sweeper.
            if self.driver.run(remove(path)):
                self._left.discard(path)
        for path in [path for path in self._doubtful if self._belongs(path, draft.group, number)]:
            # The name was free right before, so an empty file is our own request's, unless somebody began the same number
            # in that very moment and has written nothing since. He would find his file gone, and publish nothing.
            if self.driver.run(_remove_empty(path)):
                self._doubtful.discard(path)
        item = ItemId(draft.group, number)
        found = self.driver.run(adopt(self.rules, item, draft.key, dict(hashes)))
        if found is Found.UNFINISHED and not self.driver.run(self._watched().remove_if(item)):
            title = f"{draft.group}{self.rules.grammar.digits(number)}"
            raise NotYet(
                f"{title} is being written there by somebody else, or was left by a writer that was cut. "
                f"Once its before files have stood still for {ABANDONED_AFTER:g} s they are removed"
            )
        known = found is Found.PUBLISHED or (again and self._was_archived(item, draft.key, hashes))
        published = None if known else self._publish(draft, number, given=True, looked=True)
        self._watched().forget(item)
        return published

    def _was_archived(self, item: ItemId, key: str | None, hashes: Mapping[str, str]) -> bool:
        return self.driver.run(was_archived(self.rules, item, key, dict(hashes)))

    def _watched(self) -> Abandoned:
        if self._abandoned is None:
            self._abandoned = Abandoned(self.rules, self.driver.clock)
        return self._abandoned

    def _belongs(self, path: str, group: str, number: int) -> bool:
        name = self.rules.layout.parse(path)
        return isinstance(name, Name) and name.item == ItemId(group, number) and name.state is State.BEFORE

    def close(self) -> None:
        """Ends the connection."""
        self.driver.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _take(self, group: str) -> int:
        number = self.driver.run(take_numbers(self.rules, group, self.owner, hint=self._next.pop(group, None)))
        self._next[group] = number + 1
        return number

    def _publish(self, draft: Draft, number: int, *, given: bool, looked: bool = False) -> Published:
        try:
            return self.driver.run(publish(self.rules, draft, number, given=given, looked=looked, sign=self.sign))
        except PublishInterrupted:
            raise  # what it left is complete, and is finished by `adopt`, not taken away
        except BaseException:
            self._left |= self.driver.made
            self._doubtful |= self.driver.doubtful
            raise


async def _remove_empty(path: str) -> bool:
    """Removes a file that is empty; True once nothing of ours can be there."""
    listed = await Stat(path)
    return listed is None or listed.size != 0 or await remove(path)
