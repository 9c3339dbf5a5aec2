"""Publishing an item: written under before names, checked, then renamed, the token last (PROTOCOL section 5).

    step                          dying, or failing, here leaves
    1 create and fill B_ payloads   B_ files, which nobody reads
    2 create B_ token               the same
    3 rename payloads               ready payloads without a token: nobody reads them
    4 rename the token              a published item: this rename is the publication

Up to the first rename a failure takes the B_ files away again. From then on the way is forward only: the names that are
left are enough to finish, and sending again would hand the same content over twice (`PublishInterrupted`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from protocol.checksum_file import format_checksums
from protocol.errors import (
    IntegrityError,
    InvalidManifest,
    InvalidName,
    OutcomeUnresolved,
    PublishInterrupted,
    SequenceTaken,
    StillBusy,
    StoredWrong,
)
from protocol.hashes import new_hasher, parse_hash
from protocol.json_text import faults
from protocol.manifest import VERSION, Manifest, Producer, derived_key, format_manifest
from protocol.names import ItemId, Name, check_suffix
from protocol.operations import Content, Fetch, Now, Outcome, Pause, Publish, Stat, Store, Stored
from protocol.procedures.look import find_item
from protocol.procedures.rename import remove, rename, same_file
from protocol.rules import Rules, Signal, Verify
from protocol.states import State

_LOOKS = 4  # at where a file has gone that may be moved on just now
_NOT_LATER = (State.BEFORE, State.READY)

Sign = Callable[[Manifest], Manifest]


@dataclass(frozen=True, slots=True)
class DraftFile:
    """One payload to be sent. `expected` is its hash as `algorithm:hex` where it is known beforehand.

    The file is then hashed, and its manifest written, with that algorithm instead of the drop's own: a hash that was made
    where the content was is worth more than one that was made on the way.
    """

    suffix: str
    content: Content
    source_name: str | None = None
    records: int | None = None
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """An item to be sent: everything of it but its number. `key` identifies the hand-off across retries and hops.

    Without a key it is made of group, number and the payloads' hashes, as a reader without a manifest would (section 3).
    """

    group: str
    files: tuple[DraftFile, ...]
    key: str | None
    producer: Producer
    meta: dict[str, object]


@dataclass(frozen=True, slots=True)
class Published:
    """What was handed over. `names` are its ready names, the token last; `size` is in bytes over all payloads."""

    item: ItemId
    key: str
    names: tuple[str, ...]
    size: int
    hashes: tuple[str, ...]


def check_draft(rules: Rules, draft: Draft) -> None:
    """That the item fits the drop, before a number is taken or anything is written.

    Raises InvalidName, and InvalidManifest where its manifest could not be written or would be refused by every reader.
    """
    rules.grammar.check_prefix(draft.group)
    if not draft.files:
        raise InvalidName("an item needs at least one file")
    seen: set[str] = set()
    for file in draft.files:
        check_suffix(file.suffix)
        rules.grammar.check_fits(draft.group, file.suffix)
        if file.suffix.lower() in seen:
            raise InvalidName(f"two files of one item have the suffix {file.suffix!r}; the suffix is what tells them apart")
        seen.add(file.suffix.lower())
        if rules.signal is Signal.CHECKSUM and _algorithm(rules, file) != "sha256":
            raise InvalidManifest(
                f"the hash of .{file.suffix} is {file.expected}; this drop has signal = 'checksum': sha256 only"
            )
    if rules.signal is Signal.NONE and len(draft.files) > 1:
        raise InvalidName("an item of several files needs a manifest: this drop has signal = 'none'")
    if rules.signal is Signal.MANIFEST:
        nothing = [Stored(0, new_hasher(_algorithm(rules, file)).hexdigest()) for file in draft.files]
        format_manifest(_manifest(rules, draft, ItemId(draft.group, 0), nothing, "2000-01-01T00:00:00.000000Z"))


async def publish(
    rules: Rules, draft: Draft, number: int, *, given: bool, looked: bool = False, sign: Sign | None = None
) -> Published:
    """Hands one item over under a number, exclusively, and never replaces anything.

    `given` says that the number was not taken from the counter, so that others may use it: every state is looked through,
    but where the caller has `looked` himself just now, and once more when the before files are there.
    Raises InvalidName, InvalidManifest, SequenceExhausted and SequenceTaken (nothing is left behind), StillBusy and
    IntegrityError (what the server stored, or the source, is not what it should be; nothing is left behind),
    PublishInterrupted, and whatever stopped the writing. Where a before file could not be removed, a note on the error
    says so.
    """
    check_draft(rules, draft)
    item = ItemId(draft.group, number)
    if given and not looked and (taken := await find_item(rules, item)):
        raise SequenceTaken(_taken(rules, item, rules.layout.path(taken[0])))
    made: list[Name] = []
    try:
        stored = await _write_payloads(rules, draft, item, made)
        await _write_token(rules, draft, item, stored, made, sign)
        if given:
            await _look_again(rules, item, made)
        # Nothing of this item is public yet, so even this rename may fail and leave nothing behind.
        await _reveal(rules, made[0], item, shared=given)
    except OutcomeUnresolved as error:
        raise _interrupted(rules, made, made[0], error) from error
    except GeneratorExit:
        raise
    except BaseException as error:
        await _take_away(rules, made, error)
        raise
    for name in made[1:]:
        try:
            await _reveal(rules, name, item, shared=given)
        except Exception as error:
            raise _interrupted(rules, made, name, error) from error
    hashes = _hashes(rules, draft, stored)
    names = tuple(rules.layout.path(replace(name, state=State.READY)) for name in made)
    return Published(item, _key(rules, draft, item, hashes), names, sum(s.size for s in stored), hashes)


def _algorithm(rules: Rules, file: DraftFile) -> str:
    return rules.algorithm if file.expected is None else parse_hash(file.expected)[0]


def _hashes(rules: Rules, draft: Draft, stored: Sequence[Stored]) -> tuple[str, ...]:
    return tuple(f"{_algorithm(rules, file)}:{s.digest}" for file, s in zip(draft.files, stored, strict=True))


def _key(rules: Rules, draft: Draft, item: ItemId, hashes: Sequence[str]) -> str:
    return draft.key or derived_key(item, rules.grammar, hashes)


async def _write_payloads(rules: Rules, draft: Draft, item: ItemId, made: list[Name]) -> list[Stored]:
    stored = []
    for file in draft.files:
        name = Name(item, file.suffix, State.BEFORE)
        stored.append(await _make(rules, name, file.content, _algorithm(rules, file), made))
        if file.expected is not None and parse_hash(file.expected)[1] != stored[-1].digest:
            raise IntegrityError(f"{file.source_name or file.suffix}: its content is not what its hash says")
    return stored


async def _make(rules: Rules, name: Name, content: Content | bytes, algorithm: str, made: list[Name]) -> Stored:
    path = rules.layout.path(name)
    stored = await Store(path, content, algorithm)
    if stored is None:
        raise SequenceTaken(
            f"{path} is there: another producer is writing this number, or one was cut while it did. "
            f"If nobody writes to it, remove it and send again"
        )
    made.append(name)
    listed = await Stat(path)
    if listed is None or (listed.size is not None and listed.size != stored.size):
        there = "nothing" if listed is None else f"{listed.size} bytes"
        raise StoredWrong(f"{path}: {stored.size} bytes were written and acknowledged, and the server has {there}")
    if rules.verify is Verify.READBACK and await Fetch(path, algorithm) != stored:
        raise StoredWrong(f"{path}: what the server stored is not what was written")
    return stored


async def _write_token(
    rules: Rules, draft: Draft, item: ItemId, stored: list[Stored], made: list[Name], sign: Sign | None
) -> None:
    if rules.signal is Signal.NONE:
        return
    if rules.signal is Signal.CHECKSUM:
        ready = [rules.grammar.format(Name(item, file.suffix)) for file in draft.files]
        content = format_checksums({name: s.digest for name, s in zip(ready, stored, strict=True)})
    else:
        manifest = _manifest(rules, draft, item, stored, (await Now()).utc)
        content = format_manifest(sign(manifest) if sign is not None else manifest)
    token = Name(item, rules.token_suffix(draft.files[0].suffix), State.BEFORE)
    await _make(rules, token, content, rules.algorithm, made)


def _manifest(rules: Rules, draft: Draft, item: ItemId, stored: Sequence[Stored], created: str) -> Manifest:
    hashes = _hashes(rules, draft, stored)
    files = []
    for file, s, hash_ in zip(draft.files, stored, hashes, strict=True):
        # Only what is known is written: a key that says nothing would be one more thing to wonder about.
        known = {"source_name": file.source_name, "records": file.records}
        fields = {"name": rules.grammar.format(Name(item, file.suffix)), "size": s.size, "hash": hash_}
        files.append(fields | {key: value for key, value in known.items() if value is not None})
    try:
        return Manifest.model_validate(
            {
                "manifest": VERSION,
                "group": draft.group,
                "sequence": rules.grammar.digits(item.number),
                "key": _key(rules, draft, item, hashes),
                "created": created,
                "producer": draft.producer,
                "files": files,
                "meta": draft.meta,
            }
        )
    except ValidationError as error:
        raise InvalidManifest(f"no manifest can say this: {faults(error)}") from error


async def _look_again(rules: Rules, item: ItemId, made: list[Name]) -> None:
    """Whether a rival has published the number between our first look and our B_ files.

    His B_ names were the same as ours and had to be gone, so his payloads are at one of these names or were further on;
    asked in the order in which a file moves, none can slip by. Only where the payload is the token it may be claimed, by
    a name that only a listing can tell.
    """
    if rules.signal is Signal.NONE:
        for found in await find_item(rules, item):
            if found.state is not State.BEFORE:
                raise SequenceTaken(_taken(rules, item, rules.layout.path(found)))
    for name in made:
        for state in (State.READY, State.DONE, State.AFTER, State.ERROR):
            path = rules.layout.path(replace(name, state=state))
            if await Stat(path) is not None and not await _was_moved(rules.layout.path(name), path):
                raise SequenceTaken(_taken(rules, item, path))


async def _was_moved(before: str, path: str) -> bool:
    """Whether a file that is further on is our own: whoever forwards the same item may have taken us for dead (`adopt`)."""
    return await Stat(before) is None or await same_file(before, path)


async def _reveal(rules: Rules, before: Name, item: ItemId, *, shared: bool) -> None:
    """One rename to a ready name. `shared`: somebody else may be making it as well, to finish what he thinks was cut."""
    src, dst = rules.layout.path(before), rules.layout.path(replace(before, state=State.READY))

    async def moved_on() -> bool:
        # The number is ours alone, so any later name of the file can only be this very one. It may be on its way from one
        # name to the next, where a listing misses it and a single look comes too late or too early.
        for look in range(1, _LOOKS + 1):
            if any(n.suffix == before.suffix and n.state not in _NOT_LATER for n in await find_item(rules, item)):
                return True
            for state in (State.DONE, State.AFTER, State.ERROR):
                if await Stat(rules.layout.path(replace(before, state=state))) is not None:
                    return True
            await Pause(look)
        return False

    outcome = await rename(Publish, src, dst, patience=rules.busy_patience, shared=shared, moved_on=moved_on)
    if outcome is Outcome.DONE:
        return
    if outcome is Outcome.EXISTS:
        raise SequenceTaken(_taken(rules, item, dst))
    if outcome is Outcome.BUSY:
        made = await Stat(src) is None and await Stat(dst) is not None  # dropped late, by a request whose reply was lost
        if made or await same_file(src, dst) or await moved_on():
            return  # cut between link and unlink: it is public, and a before name that nobody reads stays
        raise StillBusy(f"{src} is held open by somebody, for longer than {rules.busy_patience:g} s")
    # Neither name: somebody has moved it on. A token that was published may be claimed, and even done, by now.
    later = [n for n in await find_item(rules, item) if n.suffix == before.suffix and n.state is not State.BEFORE]
    if not later:
        raise OutcomeUnresolved(f"{src} has vanished while it was being published, and no later name of it is there")


async def _take_away(rules: Rules, made: list[Name], error: BaseException) -> None:
    for name in made:
        path = rules.layout.path(name)
        try:
            gone = await remove(path, patience=rules.busy_patience)
        except Exception as failure:  # noqa: BLE001 - told with the first error, which is the one to act on
            error.add_note(f"and {path} could not be removed: {failure}")
        else:
            if not gone:
                error.add_note(f"and {path} could not be removed: somebody has it open")


def _interrupted(rules: Rules, made: list[Name], at: Name, error: Exception) -> PublishInterrupted:
    left = tuple(rules.layout.path(name) for name in made[made.index(at) :])
    return PublishInterrupted(
        f"cut while publishing {rules.grammar.format(replace(made[0], state=State.READY))}: {error}. "
        f"Do not send it again; once the drop is reachable, rename what is left of {', '.join(left)} to its name "
        f"without the mark, the last of them last",
        left,
    )


def _taken(rules: Rules, item: ItemId, path: str) -> str:
    return f"number {rules.grammar.digits(item.number)} of group {item.group!r} is in use: {path} is there"
