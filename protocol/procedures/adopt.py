"""Looking before repeating: whether an item that we want to publish is at the destination already (PROTOCOL section 9).

Whoever forwards an item may die after its publication and before it could note that. So it looks first, under the number
it would use, and takes what it finds for its own only where the key says so.
"""

from dataclasses import replace
from enum import Enum

from protocol.checksum_file import parse_checksums
from protocol.errors import InvalidChecksumFile, InvalidManifest, SequenceTaken
from protocol.hashes import parse_hash
from protocol.manifest import LARGEST, parse_manifest
from protocol.names import ItemId, Name
from protocol.operations import Fetch, Outcome, Pause, Publish, ReadSmall, Scan
from protocol.procedures.look import find_item
from protocol.procedures.rename import rename
from protocol.rules import Rules, Signal
from protocol.states import State

_LOOKS = 4


class Found(Enum):
    """What is at the destination under a number."""

    NOTHING = "nothing"
    PUBLISHED = "published"  # ours, in whatever state by now
    UNFINISHED = "unfinished"  # before files that make no whole item: being written, or left by a writer that was cut


async def adopt(rules: Rules, item: ItemId, key: str | None, hashes: dict[str, str]) -> Found:
    """Looks for an earlier publication of ours under this number, and finishes one that was cut between its renames.

    `hashes` are our payloads' by suffix, as `algorithm:hex`; they decide where the drop's signal carries no key. Raises
    SequenceTaken where the number belongs to another item.
    """
    names: list[Name] = []
    for look in range(1, _LOOKS + 1):
        names = [name for name in await find_item(rules, item) if not name.again]
        if not names:
            return Found.NOTHING
        found = await _judge(rules, item, names, key, hashes)
        if found is not None:
            return found
        if look < _LOOKS:
            await Pause(look)
    raise SequenceTaken(
        f"number {rules.grammar.digits(item.number)} of group {item.group!r} is in use at the destination: "
        f"{', '.join(sorted(rules.layout.path(name) for name in names))}"
    )


async def _judge(rules: Rules, item: ItemId, names: list[Name], key: str | None, hashes: dict[str, str]) -> Found | None:
    """What these names of the item say; None where they have to be looked at again.

    A token may be between two names just now, and a listing then shows none: that is no reason to give up an item.
    """
    tokens = [name for name in names if rules.is_token(name.kind)]
    settled = [name for name in tokens if name.state is not State.BEFORE]
    for token in settled or tokens:
        ours = await _is_ours(rules, token, rules.layout.path(token), key, hashes)
        if ours is False:
            raise SequenceTaken(
                f"number {rules.grammar.digits(item.number)} of group {item.group!r} is in use at the destination by another "
                f"item: {rules.layout.path(token)} is there, with another key"
            )
        if ours:
            return Found.PUBLISHED if token.state is not State.BEFORE else await _finish(rules, token, hashes)
    return Found.UNFINISHED if all(name.state is State.BEFORE for name in names) else None


async def was_archived(rules: Rules, item: ItemId, key: str | None, hashes: dict[str, str]) -> bool:
    """Whether an item of ours was published, processed, and moved into one of the archive's folders of days since.

    For whoever has begun the item before and finds nothing of it now: that is no proof that it was never there. It lists
    every one of those folders.
    """
    after = rules.layout.folder_of(State.AFTER)
    for day in await Scan(rules.layout.archive_folder):
        if not day.folder:
            continue
        for listed in await Scan(day.path, rules.layout.item_pattern(Name(item, "x"))):
            name = listed.path.rpartition("/")[2]
            token = rules.layout.parse(f"{after}/{name}" if after else name)
            if not isinstance(token, Name) or token.item != item or not rules.is_token(token.kind):
                continue
            if await _is_ours(rules, token, listed.path, key, hashes):
                return True
    return False


async def _is_ours(rules: Rules, token: Name, path: str, key: str | None, hashes: dict[str, str]) -> bool | None:
    """Whether the token is that of our item; None where it cannot be told, as with one that was cut while it was written."""
    if rules.signal is Signal.NONE:
        expected = hashes.get(token.suffix)
        if token.state is State.BEFORE or expected is None:
            return None
        algorithm, digest = parse_hash(expected)
        read = await Fetch(path, algorithm)
        return None if read is None else read.digest == digest
    data = await ReadSmall(path, LARGEST)
    if data is None:
        return None
    try:
        if rules.signal is Signal.MANIFEST:
            manifest = parse_manifest(data)
            if key is not None:
                return manifest.key == key
            there = {record.name: record.hash.lower() for record in manifest.files}
        else:
            found = parse_checksums(data, token.item, rules.grammar)
            there = {rules.grammar.format(name): f"sha256:{digest}" for name, digest in found.items()}
    except (InvalidManifest, InvalidChecksumFile):
        return None if token.state is State.BEFORE else False
    return there == {rules.grammar.format(Name(token.item, suffix)): value.lower() for suffix, value in hashes.items()}


async def _finish(rules: Rules, token: Name, hashes: dict[str, str]) -> Found | None:
    """Renames what is left of a publication whose token was complete, payloads first. None where something is in the way.

    The token is the last file that is written, so what it names was complete then. But its writer may have taken the payloads
    away again, because the reply to the token's making was lost: a token without them would be all that is handed over.
    """
    before = []
    for suffix, expected in hashes.items():
        algorithm, digest = parse_hash(expected)
        name = Name(token.item, suffix, State.BEFORE)
        # In the order in which a file moves, so that it cannot slip by.
        read = await Fetch(rules.layout.path(name), algorithm)
        if read is not None:
            before.append(name)
        else:
            read = await Fetch(rules.layout.path(replace(name, state=State.READY)), algorithm)
        if read is None or read.digest != digest:
            return Found.UNFINISHED
    for name in (*before, token):
        dst = rules.layout.path(replace(name, state=State.READY))
        outcome = await rename(Publish, rules.layout.path(name), dst, patience=rules.busy_patience, shared=True)
        if outcome is not Outcome.DONE:
            return None
    return Found.PUBLISHED
