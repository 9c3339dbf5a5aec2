"""Carrying out what a sweep has planned (PROTOCOL section 11). Each action is idempotent, and safe beside live workers."""

import contextlib
from dataclasses import dataclass, replace
from enum import Enum

from protocol.checksum_file import parse_checksums
from protocol.contents import Contents
from protocol.errors import Anomaly, ClaimLost, InvalidChecksumFile, InvalidManifest, StillBusy
from protocol.hashes import parse_hash
from protocol.layout import QUARANTINE_FOLDER
from protocol.ledger import Entry, LedgerState
from protocol.manifest import LARGEST, check_describes, parse_manifest
from protocol.names import FileKind, Name
from protocol.operations import (
    Claim,
    Fetch,
    MakeFolder,
    Now,
    Outcome,
    Publish,
    ReadLedger,
    ReadSmall,
    Stat,
    UnarchivedKeys,
    WriteLedger,
)
from protocol.procedures.claim import claim, read_contents
from protocol.procedures.consume import UNFIT, Consumed, Worker, item_key, key_as_said, recover
from protocol.procedures.finish import PutAway, Reason, add_receipt, payload_names, put_away, put_away_error
from protocol.procedures.look import find_item, snapshot
from protocol.procedures.rename import drop_twin, remove, rename, same_file
from protocol.procedures.write_receipt import Writing, receipt_of
from protocol.recovery import (
    Action,
    Archive,
    DeleteCounter,
    DeleteLease,
    DeleteScratch,
    DropTwin,
    FinishDone,
    FinishError,
    FinishPublish,
    FinishReceipt,
    MissingPayload,
    Replay,
    TakeOver,
    Tell,
    Unfinished,
)
from protocol.rules import Rules, Signal
from protocol.snapshot import ItemView
from protocol.states import State


class Unwanted(Enum):
    """What becomes of before files that are too old."""

    REPORT = "report"
    DELETE = "delete"
    QUARANTINE = "quarantine"  # moved into the drop's folder `quarantine`, on the same volume


@dataclass(frozen=True, slots=True)
class Swept:
    """One action and what came of it: `done`, or why not."""

    action: Action
    done: bool
    text: str


async def carry_out(rules: Rules, action: Action, worker: Worker, unwanted: Unwanted = Unwanted.REPORT) -> Swept:
    """One action of a plan. What it finds done by somebody else is done. Raises transport errors only."""
    try:
        done, text = await _carry_out(rules, action, worker, unwanted)
    except (Anomaly, ClaimLost, StillBusy) as error:
        return Swept(action, False, str(error))
    return Swept(action, done, text)


async def _carry_out(rules: Rules, action: Action, worker: Worker, unwanted: Unwanted) -> tuple[bool, str]:
    match action:
        case TakeOver() | MissingPayload():
            return await _settle(rules, action, worker)
        case FinishDone() | FinishError():
            return await _put_away(rules, action, worker)
        case FinishReceipt(token):
            away = await add_receipt(rules, token, await _writing(rules, token, worker, {}))
            return not away.left, "its receipt had been moved aside" if not away.left else "somebody has its receipt open"
        case FinishPublish(token):
            return await _finish_publish(rules, token)
        case DropTwin(drop, keep):
            return await _drop_twin(rules, drop, keep)
        case Unfinished(_, names):
            return await _unfinished(rules, names, unwanted)
        case Archive(_, names):
            return await _archive(rules, names)
        case DeleteLease() | DeleteCounter() | DeleteScratch():
            return await _tidy(rules, action)
        case Replay(token):
            return False, f"{rules.layout.path(token)} is asked for again; a consumer of its group takes it"
        case Tell(_, text):
            return False, text


async def _settle(rules: Rules, action: TakeOver | MissingPayload, worker: Worker) -> tuple[bool, str]:
    if isinstance(action, TakeOver):
        taken = await take_over(rules, action.claimed, worker.owner)
    else:
        outcome = await claim(rules, action.token, worker.owner)
        taken = outcome if isinstance(outcome, Name) else None
    if taken is None:
        return True, "somebody else has taken it"
    consumed: Consumed = await recover(rules, taken, worker, taken_over=isinstance(action, TakeOver))
    return True, f"{consumed.result.value}: {consumed.error or consumed.outcome}".rstrip(": ")


async def _put_away(rules: Rules, action: FinishDone | FinishError, worker: Worker) -> tuple[bool, str]:
    wants = rules.writes_receipt((action.done if isinstance(action, FinishDone) else action.error).item.group)
    if isinstance(action, FinishDone):
        writing = await _writing(rules, action.done, worker, {}) if wants else None
        away: PutAway = await put_away(rules, action.done, await _payloads(rules, action.done), writing)
    else:
        reason = Reason("Interrupted", "cut while failing; the worker that knew why is gone", 0, worker.host, worker.owner)
        writing = await _writing(rules, action.error, worker, {"kind": reason.kind, "error": reason.error}) if wants else None
        away = await put_away_error(rules, action.error, await _payloads(rules, action.error), reason, writing)
    if away.left:
        return False, f"somebody has {', '.join(away.left)} open; the next sweep tries again"
    return True, f"put away as {away.token}"


async def _writing(rules: Rules, token: Name, worker: Worker, unknown: dict[str, object]) -> Writing:
    """The receipt of a worker that is gone, as the ledger knows it; `unknown` is said of a failure that it does not know."""
    key, contents = await _key_and_contents(rules, token)
    read = await ReadLedger(key) if key else None
    if token.state is State.ERROR:
        entry = read if read is not None and read.given_up and read.item == token.item else None
        facts = unknown if entry is None else {"kind": "HandlerFailed"}
        return Writing(await receipt_of(rules, token.item, key, contents, entry, "failed", facts), worker.owner)
    entry = read if read is not None and read.state is not LedgerState.STARTED else None
    return await _of_processed(rules, token, key, contents, entry, worker)


async def _key_and_contents(rules: Rules, token: Name) -> tuple[str, Contents | None]:
    try:
        contents = await read_contents(rules, token)
    except (ClaimLost, *UNFIT):
        return await key_as_said(rules, token), None
    return item_key(rules, token.item, contents), contents


async def _of_processed(
    rules: Rules, token: Name, key: str, contents: Contents | None, entry: Entry | None, worker: Worker
) -> Writing:
    facts: dict[str, object] = {}
    if entry is not None and entry.item != token.item:
        facts = {"result": f"was processed before, as {entry.item.group}{rules.grammar.digits(entry.item.number)}"}
    return Writing(await receipt_of(rules, token.item, key, contents, entry, "processed", facts), worker.owner)


async def _drop_twin(rules: Rules, drop: Name, keep: Name) -> tuple[bool, str]:
    one, other = rules.layout.path(drop), rules.layout.path(keep)
    if not await same_file(one, other):
        return False, f"{one} and {other} are two files, and are left alone"
    return await drop_twin(one, other), f"{one} was a second name of {other}"


async def _tidy(rules: Rules, action: DeleteLease | DeleteCounter | DeleteScratch) -> tuple[bool, str]:
    match action:
        case DeleteLease(owner):
            return await remove(rules.layout.lease(owner)), f"the lease of {owner} had expired"
        case DeleteCounter(group, number):
            return await remove(rules.layout.counter(group, number)), "a higher counter is there"
        case DeleteScratch(scratch):
            return await remove(scratch), "scratch that nobody uses"


async def take_over(rules: Rules, claimed: Name, owner: str) -> Name | None:
    """Renames a dead worker's claim into one's own; None where somebody was faster, or the worker was not dead.

    The old name is the guard: one of any crowd gets it, and its worker, should it wake, finds it gone.
    """
    own = replace(claimed, owner=owner)
    outcome = await rename(Claim, rules.layout.path(claimed), rules.layout.path(own), patience=0, shared=True)
    return own if outcome is Outcome.DONE else None


def _has_ready_payload(view: ItemView) -> bool:
    """Whether a payload is still to be put away, although a late worker has renamed the token."""
    return any(name.state is State.READY and name.kind is FileKind.PAYLOAD for name, _ in view.files)


async def archive_ledger(rules: Rules, worker: Worker | None = None) -> int:
    """Notes in the ledger which finished items stand as after images, so that their coming back is a replay.

    In a drop with receipts the `worker` first sees to it that each of them has its own.

    The ledger is read first and the drop after it: an entry that is `done` by then belongs to the token as it is seen now. The
    other way round the after image might be that of an earlier run, and a run that is being completed be closed too early.
    """
    noted = 0
    unarchived = await UnarchivedKeys()
    if not unarchived:
        return noted
    views = [view for view in (await snapshot(rules)).in_state(State.AFTER) if not _has_ready_payload(view)]
    away = {view.item: view for view in views}
    for key, entry in unarchived:
        if entry.item not in away:
            continue
        if (
            worker is None
            or not rules.writes_receipt(entry.item.group)
            or await _has_receipt(rules, away[entry.item], key, entry, worker)
        ):
            noted += await WriteLedger(key, entry, replace(entry, state=LedgerState.ARCHIVED, at=(await Now()).utc))
    return noted


async def _has_receipt(rules: Rules, view: ItemView, key: str, entry: Entry, worker: Worker) -> bool:
    """Whether an after image has its receipt now; False where somebody has an old one open."""
    for token in [name for name, _ in view.files if rules.is_token(name.kind) and name.state is State.AFTER]:
        found, contents = await _key_and_contents(rules, token)
        if found == key:
            return not (await add_receipt(rules, token, await _of_processed(rules, token, key, contents, entry, worker))).left
    return True


async def _payloads(rules: Rules, token: Name) -> list[Name]:
    """The item's payloads by its token, or by what is there where the token cannot be read; an error image as such."""
    there = [name for name in await find_item(rules, token.item) if not name.again and not rules.is_token(name.kind)]
    errors = [name for name in there if name.state is State.ERROR and name.kind is FileKind.PAYLOAD]
    names = payload_names(there)
    if rules.signal is Signal.MANIFEST:
        data = await ReadSmall(rules.layout.path(token), LARGEST)
        with contextlib.suppress(InvalidManifest):
            names = list(check_describes(parse_manifest(data or b""), token.item, rules.grammar).values())
    return [*names, *errors]


async def _finish_publish(rules: Rules, token: Name) -> tuple[bool, str]:
    """Publishes what a producer left between its renames, where every byte is as its token says."""
    path = rules.layout.path(token)
    data = await ReadSmall(path, LARGEST)
    if data is None:
        return True, "its producer has finished it"
    try:
        described = _described(rules, token, data)
    except (InvalidManifest, InvalidChecksumFile) as error:
        return False, f"{path} is left of a publication that was cut, and cannot finish it: {error}"
    before: list[Name] = []
    for ready, size, algorithm, digest in described:
        read = await Fetch(rules.layout.path(ready), algorithm)
        if read is None:
            before.append(replace(ready, state=State.BEFORE))
            read = await Fetch(rules.layout.path(before[-1]), algorithm)
        if read is None or read.digest != digest or size not in (None, read.size):
            missing = rules.grammar.format(ready)
            return False, f"{path} is left of a publication that was cut, and {missing} is not as it says"
    for name in (*before, token):
        dst = rules.layout.path(replace(name, state=State.READY))
        outcome = await rename(Publish, rules.layout.path(name), dst, patience=0, shared=True)
        if outcome is Outcome.GONE and name != token and await Stat(dst) is not None:
            continue  # its producer is at it as well
        if outcome is Outcome.GONE:
            return True, "its producer has gone on with it, or taken it away"
        if outcome is not Outcome.DONE:
            return False, f"{rules.layout.path(name)} could not be renamed to {dst}: {outcome.value}"
    return True, "published: its producer was cut, and everything was there"


def _described(rules: Rules, token: Name, data: bytes) -> list[tuple[Name, int | None, str, str]]:
    """The payloads that a token speaks of: ready name, size where it says one, algorithm, hash."""
    if rules.signal is Signal.CHECKSUM:
        return [(name, None, "sha256", digest) for name, digest in parse_checksums(data, token.item, rules.grammar).items()]
    manifest = parse_manifest(data)
    names = check_describes(manifest, token.item, rules.grammar)
    return [(names[record.name], record.size, *parse_hash(record.hash)) for record in manifest.files]


async def _unfinished(rules: Rules, names: tuple[Name, ...], unwanted: Unwanted) -> tuple[bool, str]:
    paths = [path for path in map(rules.layout.path, names) if await Stat(path) is not None]
    if not paths:
        return True, "gone meanwhile"
    shown = ", ".join(paths)
    if unwanted is Unwanted.REPORT:
        return False, f"unfinished and no longer growing: {shown}"
    if unwanted is Unwanted.DELETE:
        gone = [await remove(path) for path in paths]
        return all(gone), f"deleted {shown}" if all(gone) else f"somebody has one of {shown} open"
    await MakeFolder(QUARANTINE_FOLDER)
    for path in paths:
        outcome = await rename(Publish, path, f"{QUARANTINE_FOLDER}/{path.rpartition('/')[2]}", patience=0, shared=True)
        if outcome not in (Outcome.DONE, Outcome.GONE):
            return False, f"{path} could not be moved into {QUARANTINE_FOLDER}: {outcome.value}"
    return True, f"moved into {QUARANTINE_FOLDER}: {shown}"


async def _archive(rules: Rules, names: tuple[Name, ...]) -> tuple[bool, str]:
    """Moves an after image into a folder of the day, the token first: once that has left, nobody can ask for the item again.

    Cut after it, payloads are left without a token, which the next sweep takes along. A token that is not there any more was
    brought back, and its payloads stay for whoever processes it again.
    """
    day = (await Now()).utc[:10]
    folder = f"{rules.layout.archive_folder}/{day}"
    await MakeFolder(rules.layout.archive_folder)
    await MakeFolder(folder)
    for name in sorted(names, key=lambda n: not rules.is_token(n.kind)):
        path = rules.layout.path(name)
        outcome = await rename(Publish, path, f"{folder}/{path.rpartition('/')[2]}", patience=0, shared=True)
        if outcome is Outcome.GONE and rules.is_token(name.kind):
            return True, "somebody has asked for it again, or archives it as well"
        if outcome not in (Outcome.DONE, Outcome.GONE):
            return False, f"{path} could not be moved into {folder}: {outcome.value}"
    return True, f"moved into {folder}"
