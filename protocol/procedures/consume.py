"""What a worker does with a claimed item: ask the ledger, run the handler, record, complete (PROTOCOL sections 7 and 8).

The order is the whole point. Dying after any step, or losing the claim unnoticed, must neither lose the item nor run its
handler again without telling it:

    1 read the token              what is this, and under which key?
    2 read the ledger
    3 look at the claim           it must be ours *after* the reading: whoever took it over has written, or will fail to
    4 write `started`             compare-and-set against 2: of two workers with one key one gets on
    5 run the handler
    6 write `done`                compare-and-set against 4
    7 rename the token to D_      the fence and the commit
    8 put away, write `archived`    in a drop with receipts the receipt comes before the last step of it

A run that was cut between 4 and 6 is told to the next one (`redelivered`). One cut between 6 and 7 is completed without a
run. `docs/protocol.md` tells which rule each step rests on.
"""

from dataclasses import dataclass, replace
from enum import Enum

from protocol.contents import Contents
from protocol.errors import (
    Anomaly,
    ClaimLost,
    IntegrityError,
    InvalidChecksumFile,
    InvalidManifest,
    SignatureRejected,
    StillBusy,
)
from protocol.ledger import Ended, Entry, LedgerState
from protocol.manifest import LARGEST, derived_key, parse_manifest
from protocol.names import FileKind, ItemId, Name
from protocol.operations import Handle, Handled, Now, ReadLedger, ReadSmall, Stat, Verdict, WriteLedger
from protocol.procedures.claim import read_contents
from protocol.procedures.finish import PutAway, Reason, complete, fail, payload_names, put_back, release
from protocol.procedures.look import find_item
from protocol.procedures.write_receipt import Writing, earlier_run, receipt_of, retract_receipts
from protocol.rules import Rules, Signal
from protocol.states import State

UNFIT = (InvalidManifest, InvalidChecksumFile, SignatureRejected, IntegrityError)


class Result(Enum):
    """What became of one item in one go."""

    PROCESSED = "processed"
    ACKNOWLEDGED = "acknowledged"  # completed without a run: it was processed before
    FAILED = "failed"  # an error image now
    RETURNED = "returned"  # back to ready, to be tried again
    WAITING = "waiting"  # back to ready: the same key is being processed under another number
    LOST = "lost"  # the claim was taken away meanwhile
    UNSETTLED = "unsettled"  # processed, and still under its claim name: its token is held open
    HELD = "held"  # not processed, and still under its claim name: its token is held open


@dataclass(frozen=True, slots=True)
class Consumed:
    """One item's outcome. `left` are paths that are still to be put away; `error` says why it was not processed."""

    result: Result
    claimed: Name
    attempt: int = 0
    contents: Contents | None = None
    key: str = ""
    outcome: str = ""
    error: str = ""
    left: tuple[str, ...] = ()
    host: str = ""  # where it was run, and whether that was a replay: for the receipt of what is completed later
    replay: bool = False


@dataclass(frozen=True, slots=True)
class Worker:
    """Who consumes, and how stubbornly."""

    owner: str
    host: str
    max_attempts: int = 5


def item_key(rules: Rules, item: ItemId, contents: Contents) -> str:
    """The idempotency key: the manifest's, or what stands for it where the drop has none (section 3)."""
    if contents.manifest is not None:
        return contents.manifest.key
    hashes = [f"{p.algorithm}:{p.digest}" for p in contents.payloads if p.digest]
    return derived_key(item, rules.grammar, hashes)


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that was recorded in the ledger before its claim, as a replay is: the entry that was read, ours, and the token
    from which it was claimed."""

    read: Entry | None
    started: Entry
    origin: Name


async def consume(
    rules: Rules, claimed: Name, worker: Worker, *, taken_over: bool = False, begun: Begun | None = None
) -> Consumed:
    """Carries a claimed item to whatever end it comes to; every way out gives the claim up, but for LOST, UNSETTLED and HELD.

    `taken_over` says that the claim was another worker's, or ours in an earlier call that ended HELD: an outcome that was
    recorded then is carried out, not begun anew. `begun` is a run that stands in the ledger already. Raises what an
    operation raises, after giving the claim back; a note says where that failed too.
    """
    contents: Contents | None = None
    try:
        contents = await read_contents(rules, claimed)
        return await _with_ledger(rules, claimed, contents, worker, begun, taken_over=taken_over)
    except ClaimLost as error:
        return Consumed(Result.LOST, claimed, contents=contents, error=str(error))
    except StillBusy as error:
        return Consumed(Result.HELD, claimed, contents=contents, error=str(error))
    except UNFIT as error:
        return await _fail(rules, claimed, contents, worker, 1, Handled(Verdict.UNFIT, error=str(error), kind=_kind(error)))
    except GeneratorExit:
        raise
    except BaseException as error:
        await _give_back(rules, claimed, error)
        raise


async def recover(rules: Rules, claimed: Name, worker: Worker, *, taken_over: bool = True) -> Consumed:
    """What a sweep does with a claim that it took from a dead worker, having no handler: whatever the ledger has settled.

    Processed: completed. Given up: an error image, unless the claim is a ready item's (not `taken_over`): that was asked for
    again. Anything else: back to ready. Raises as `consume`.
    """
    contents: Contents | None = None
    try:
        contents = await read_contents(rules, claimed)
        key = item_key(rules, claimed.item, contents)
        read = await ReadLedger(key)
        if read is not None:
            settled = await _by_what_is_known(rules, claimed, contents, worker, key, read, taken_over=taken_over)
            if settled is not None:
                return settled
        await release(rules, claimed)
        return Consumed(Result.RETURNED, claimed, read.attempts if read else 0, contents, key, "taken from a dead worker")
    except ClaimLost as error:
        return Consumed(Result.LOST, claimed, contents=contents, error=str(error))
    except UNFIT as error:
        return await _fail(rules, claimed, contents, worker, 1, Handled(Verdict.UNFIT, error=str(error), kind=_kind(error)))


async def settle(rules: Rules, unsettled: Consumed) -> Consumed:
    """Completes an item that was UNSETTLED. It was processed: it is never given back, and never run again."""
    assert unsettled.contents is not None  # noqa: S101 - nothing is UNSETTLED before its handler ran
    known = replace(unsettled, result=Result.PROCESSED, error="")
    return await _complete(rules, unsettled.claimed, unsettled.contents, unsettled.key, known)


async def _with_ledger(
    rules: Rules, claimed: Name, contents: Contents, worker: Worker, begun: Begun | None, *, taken_over: bool
) -> Consumed:
    key = item_key(rules, claimed.item, contents)
    if begun is not None:
        if await ReadLedger(key) != begun.started:
            # We slept between the ledger and the rename, and were taken for dead: another worker has run this replay and put
            # the token back under the name from which we then claimed it. Or he is about to, and needs it there.
            await put_back(rules, claimed, begun.origin)
            raise ClaimLost(f"{rules.layout.path(begun.origin)} was begun by another worker meanwhile, and is his")
        consumed = await _run(rules, claimed, contents, worker, key, begun.read, begun.started)
        if consumed is not None:
            return consumed
    while True:
        read = await ReadLedger(key)
        if await Stat(rules.layout.path(claimed)) is None:
            raise ClaimLost(f"{rules.layout.path(claimed)} is no longer there: the claim was taken over")
        if read is not None:
            settled = await _by_what_is_known(rules, claimed, contents, worker, key, read, taken_over=taken_over)
            if settled is not None:
                return settled
        started = await next_entry(rules, claimed.item, key, contents, worker, read)
        if not await WriteLedger(key, read, started):
            continue  # somebody has written since: his word counts, and ours is read anew
        consumed = await _run(rules, claimed, contents, worker, key, read, started)
        if consumed is not None:
            return consumed


async def next_entry(rules: Rules, item: ItemId, key: str, contents: Contents, worker: Worker, read: Entry | None) -> Entry:
    """What a worker writes into the ledger, over what it has read there, to begin a run."""
    generation = 1 if read is None else read.generation + 1
    if read is None and rules.writes_receipt(item.group):
        # Runs are counted on where the ledger was lost: a receipt tells by its run that it is not an earlier one's.
        generation += await earlier_run(rules, item, key)
    now = (await Now()).utc
    replayed = ""
    if read is not None and read.item == item:
        # An error image that is brought back goes on where it failed; an after image begins a replay.
        replayed = now if read.state is LedgerState.ARCHIVED else read.replayed
    return Entry(
        LedgerState.STARTED,
        generation,
        item,
        worker.owner,
        1 if read is None or is_over(read) else read.attempts + 1,
        now,
        contents.payloads[0].digest,
        replayed=replayed,
    )


async def _by_what_is_known(
    rules: Rules, claimed: Name, contents: Contents, worker: Worker, key: str, read: Entry, *, taken_over: bool
) -> Consumed | None:
    """An end that needs no run of the handler; None where it is to be run."""
    same_item = read.item == claimed.item
    other = f"{read.item.group}{rules.grammar.digits(read.item.number)}"
    if read.state is LedgerState.DONE or (read.state is LedgerState.ARCHIVED and not same_item):
        outcome = "was processed before" if same_item else f"was processed before, as {other}"
        known = Consumed(Result.ACKNOWLEDGED, claimed, read.attempts, contents, key, outcome)
        return await _complete(rules, claimed, contents, key, known)
    if taken_over and same_item and read.given_up:
        # Its worker had given it up, and was cut before it became an error image.
        handled = Handled(Verdict.FAILED, error=read.result, kind="HandlerFailed")
        return await _fail(rules, claimed, contents, worker, read.attempts, handled, key, read)
    if not same_item and read.state is LedgerState.STARTED and read.ended is Ended.OPEN and await _is_under_way(rules, read):
        await release(rules, claimed)
        return Consumed(Result.WAITING, claimed, 0, contents, key, error=f"{other} has the same key and is being processed")
    return None


async def _is_under_way(rules: Rules, read: Entry) -> bool:
    """Whether the other item of a key is under way, so that its outcome is worth waiting for: claimed, or asked for again.

    If its worker is dead, whoever takes the claim over settles it, and a replay that was begun is claimed by the next; if a
    person has moved it away, there is nothing to wait for. Either way this comes to an end.
    """
    names = await find_item(rules, read.item)
    states = {name.state for name in names if rules.is_token(name.kind)}
    asked = any(name.kind is FileKind.PAYLOAD and name.state is State.READY for name in names)
    return State.CLAIMED in states or (asked and not states.isdisjoint({State.AFTER, State.ERROR}))


def is_over(read: Entry) -> bool:
    """Whether an earlier round of attempts has come to its end, so that this one is a new round."""
    return read.state is LedgerState.ARCHIVED or read.given_up


async def _run(
    rules: Rules, claimed: Name, contents: Contents, worker: Worker, key: str, read: Entry | None, started: Entry
) -> Consumed | None:
    """Runs the handler and settles its outcome; None where the ledger has moved on meanwhile, and must be read again."""
    if started.attempts > worker.max_attempts:
        error = f"it was begun {started.attempts - 1} times, and each run was cut short before its outcome was recorded"
        handled = Handled(Verdict.FAILED, error=error, kind="Interrupted")
        return await _give_up(rules, claimed, contents, worker, key, started, handled, Ended.CUT)
    cut = read is not None and read.state is LedgerState.STARTED and read.ended in (Ended.OPEN, Ended.CUT)
    replay = started.replayed != "" or (read is not None and is_over(read) and read.item == claimed.item)
    if started.generation > 1 and rules.writes_receipt(claimed.item.group):
        await retract_receipts(rules, claimed.item, key, started.generation, worker.owner)
    handled = await Handle(claimed, contents, key, started, cut, replay)
    match handled.verdict:
        case Verdict.PROCESSED:
            done = replace(started, state=LedgerState.DONE, at=(await Now()).utc, result=handled.outcome)
            if not handled.recorded and not await WriteLedger(key, started, done):
                return None
            known = Consumed(
                Result.PROCESSED, claimed, started.attempts, contents, key, handled.outcome, host=worker.host, replay=replay
            )
            return await _complete(rules, claimed, contents, key, known)
        case Verdict.FAILED if started.attempts < worker.max_attempts:
            return await _return(rules, claimed, contents, key, started, started, handled)
        case Verdict.FAILED | Verdict.UNFIT:
            return await _give_up(rules, claimed, contents, worker, key, started, handled)
        case Verdict.REFUSED:
            # Not the item's fault: the attempt is taken back.
            uncounted = replace(started, attempts=started.attempts - 1)
            return await _return(rules, claimed, contents, key, started, uncounted, handled)


async def _complete(rules: Rules, claimed: Name, contents: Contents, key: str, known: Consumed) -> Consumed:
    # Read while the claim is ours: read after the fence, it might be the word of a later run, of which nothing is put away.
    entry = await ReadLedger(key)
    writing: Writing | None = None
    if rules.writes_receipt(claimed.item.group):
        # Without an entry's word for it, as where the ledger was lost, ours is all there is.
        facts: dict[str, object] = {"owner": claimed.owner, "attempts": known.attempt} if entry is None else {}
        if entry is None or entry.owner == claimed.owner:
            facts |= {"host": known.host, "replay": known.replay}
        if entry is None or entry.item != claimed.item:
            facts["result"] = known.outcome
        writing = Writing(await receipt_of(rules, claimed.item, key, contents, entry, "processed", facts), claimed.owner)
    try:
        away: PutAway = await complete(rules, claimed, _where_they_are(rules, contents), writing)
    except ClaimLost as error:
        return replace(known, result=Result.LOST, error=str(error))
    except (StillBusy, Anomaly) as error:
        return replace(known, result=Result.UNSETTLED, error=str(error))
    if away.seen and not away.left:
        await _mark_archived(key, entry, claimed)
    return replace(known, left=away.left)


def _where_they_are(rules: Rules, contents: Contents) -> list[Name]:
    parsed = (rules.layout.parse(payload.path) for payload in contents.payloads)
    return [name for name in parsed if isinstance(name, Name)]


async def _mark_archived(key: str, entry: Entry | None, claimed: Name) -> None:
    """Notes that the item is put away, so that its name coming back is a replay. A sweep does the same, if this is cut."""
    if entry is not None and entry.state is LedgerState.DONE and entry.item == claimed.item:
        await WriteLedger(key, entry, replace(entry, state=LedgerState.ARCHIVED, at=(await Now()).utc))


async def _return(
    rules: Rules, claimed: Name, contents: Contents, key: str, started: Entry, ended: Entry, handled: Handled
) -> Consumed:
    # First the ledger: cut in between, the next run knows that this one had ended.
    entry = replace(ended, ended=Ended.RETURNED, at=(await Now()).utc, result=handled.error)
    await WriteLedger(key, started, entry)
    await release(rules, claimed)
    return Consumed(Result.RETURNED, claimed, started.attempts, contents, key, error=handled.error)


async def _give_up(
    rules: Rules,
    claimed: Name,
    contents: Contents,
    worker: Worker,
    key: str,
    entry: Entry,
    handled: Handled,
    ended: Ended = Ended.ERROR,
) -> Consumed:
    await WriteLedger(key, entry, replace(entry, ended=ended, at=(await Now()).utc, result=handled.error))
    return await _fail(rules, claimed, contents, worker, entry.attempts, handled, key, entry)


async def _fail(
    rules: Rules,
    claimed: Name,
    contents: Contents | None,
    worker: Worker,
    attempts: int,
    handled: Handled,
    key: str = "",
    entry: Entry | None = None,
) -> Consumed:
    there = [] if contents is not None else await find_item(rules, claimed.item)
    payloads = payload_names(there) if contents is None else _where_they_are(rules, contents)
    reason = Reason(handled.kind, handled.error, attempts, worker.host, worker.owner)
    writing: Writing | None = None
    if rules.writes_receipt(claimed.item.group):
        facts = {"kind": handled.kind, "error": handled.error, "attempts": attempts, "host": worker.host, "owner": worker.owner}
        said = key or await key_as_said(rules, claimed)
        writing = Writing(await receipt_of(rules, claimed.item, said, contents, entry, "failed", facts), worker.owner)
    try:
        away = await fail(rules, claimed, payloads, reason, writing)
    except ClaimLost as lost:
        return Consumed(Result.LOST, claimed, attempts, contents, error=str(lost))
    except StillBusy as error:
        return Consumed(Result.HELD, claimed, attempts, contents, error=str(error))
    return Consumed(Result.FAILED, claimed, attempts, contents, error=handled.error, left=away.left)


async def key_as_said(rules: Rules, token: Name) -> str:
    """The key of an item that is not to be believed, so that its producer can tell whose receipt it is; "" without one."""
    if rules.signal is not Signal.MANIFEST:
        return ""
    try:
        return parse_manifest(await ReadSmall(rules.layout.path(token), LARGEST) or b"").key
    except InvalidManifest:
        return ""


async def _give_back(rules: Rules, claimed: Name, error: BaseException) -> None:
    try:
        await release(rules, claimed)
    except ClaimLost:
        pass  # somebody else has it, so nothing is held up
    except Exception as failure:  # noqa: BLE001 - told with the first error, which is the one to act on
        error.add_note(
            f"and {rules.layout.path(claimed)} stays claimed ({failure}); it is taken over once its worker's lease expires"
        )


def _kind(error: Exception) -> str:
    return type(error).__name__
