"""Replays: an after or error image goes back to ready, by whoever asks for it, and is claimed again (PROTOCOL section 8).

Asking does what a person does with `mv`, in the order in which a cut does no harm: payloads first, the token last. Until
then a consumer sees a payload that was brought back, which is a replay that was asked for as well.

Claiming from an after token is the one claim whose name comes back: between the look and the rename another worker may have
run that very replay and put it away again, and a listing may show the payload as it was before and the token as it is after.
So the run is begun in the ledger *before* the rename, by compare-and-set against what was read before the look: whoever
loses that has looked at something that is over.
"""

from collections.abc import Collection
from dataclasses import replace

from protocol.contents import Contents
from protocol.errors import Anomaly, ClaimLost
from protocol.ledger import Ended, Entry, LedgerState
from protocol.names import REASON_SUFFIX, RECEIPT_SUFFIX, FileKind, ItemId, Name
from protocol.operations import Now, Outcome, Publish, ReadLedger, Stat, UnarchivedKeys, WriteLedger
from protocol.procedures.claim import claim, read_contents
from protocol.procedures.consume import UNFIT, Begun, Worker, item_key, next_entry
from protocol.procedures.finish import put_payloads_away
from protocol.procedures.look import find_item
from protocol.procedures.rename import remove, rename
from protocol.rules import Rules
from protocol.states import State


async def claim_replay(rules: Rules, token: Name, worker: Worker, dead: Collection[str]) -> tuple[Name, Begun] | Outcome:
    """Claims an item whose payload was brought back, from its after or error token: its claim, and its run as it was begun.

    `dead` are the owners that are known to be dead. GONE: it is not asked for (any more), or somebody else has it. BUSY: its
    token is open. Raises what an operation raises; a run that was begun and not claimed is told to the next as cut.
    """
    if token.state is State.ERROR and await Stat(rules.layout.path(replace(token, suffix=REASON_SUFFIX))) is None:
        return Outcome.GONE  # without its reason it is still being put away, and its payloads are on their way
    try:
        contents = await read_contents(rules, token)
    except (ClaimLost, *UNFIT):
        return Outcome.GONE
    key = item_key(rules, token.item, contents)
    read = await ReadLedger(key)
    if read is not None and read.item == token.item and read.state is LedgerState.DONE:
        # Nobody has seen it put away whole, so this is no replay: a worker that woke up late has renamed the token before the
        # payloads of this very run were away. That is all that is left to do.
        if await Stat(rules.layout.path(token)) is not None:
            await put_payloads_away(rules, [payload.name for payload in contents.payloads])
        return Outcome.GONE
    if read is not None and not await _may_begin(rules, token, worker, read, dead):
        return Outcome.GONE
    # Payloads are put away before the token is: with the token at its last name, one at its ready name was brought back.
    if await Stat(rules.layout.path(token)) is None or not await _was_brought_back(rules, contents):
        return Outcome.GONE
    started = await next_entry(rules, token.item, key, contents, worker, read)
    if not await WriteLedger(key, read, started):
        return Outcome.GONE
    claimed = await claim(rules, token, worker.owner)
    return claimed if isinstance(claimed, Outcome) else (claimed, Begun(read, started, token))


async def _may_begin(rules: Rules, token: Name, worker: Worker, read: Entry, dead: Collection[str]) -> bool:
    """Whether no live worker has begun this replay and is about to rename the token."""
    if read.state is not LedgerState.STARTED or read.ended is not Ended.OPEN or read.owner == worker.owner:
        return True
    return read.owner in dead or await Stat(rules.layout.lease(read.owner)) is None


async def _was_brought_back(rules: Rules, contents: Contents) -> bool:
    for payload in contents.payloads:
        if await Stat(rules.layout.path(payload.name)) is not None:
            return True
    return False


async def replay(rules: Rules, item: ItemId) -> tuple[str, ...]:
    """Renames an item's files back to ready, and returns their ready names.

    Raises Anomaly where the item is not an after or error image, or something is in the way; what was renamed by then stays,
    and asking again goes on from there.
    """
    # Read before the drop is looked at, so that what is `done` by then belongs to the token as it is seen.
    unarchived = [(key, entry) for key, entry in await UnarchivedKeys() if entry.item == item]
    names = [name for name in await find_item(rules, item) if not name.again]
    tokens = [name for name in names if rules.is_token(name.kind)]
    title = f"{item.group}{rules.grammar.digits(item.number)}"
    if not tokens or any(name.state not in (State.AFTER, State.ERROR) for name in tokens):
        states = ", ".join(sorted({name.state.word for name in tokens})) or "not there"
        raise Anomaly(f"{title} is {states}; only an after or error image can be replayed")
    # The ledger first: an entry that is only `done` would make the item look like one that was cut before its completion.
    for key, entry in unarchived:
        await WriteLedger(key, entry, replace(entry, state=LedgerState.ARCHIVED, at=(await Now()).utc))
    moved = []
    for name in sorted(names, key=lambda n: rules.is_token(n.kind)):
        if name.suffix in (REASON_SUFFIX, RECEIPT_SUFFIX):
            # They tell of a run that is not the last one any more.
            await remove(rules.layout.path(name))
        elif name.state in (State.AFTER, State.ERROR) and name.kind in (FileKind.PAYLOAD, tokens[0].kind):
            moved.append(await _bring_back(rules, name))
    return tuple(moved)


async def _bring_back(rules: Rules, name: Name) -> str:
    src, dst = rules.layout.path(name), rules.layout.path(replace(name, state=State.READY))
    outcome = await rename(Publish, src, dst, patience=rules.busy_patience, shared=True)
    if outcome not in (Outcome.DONE, Outcome.GONE):
        raise Anomaly(f"{src} could not be renamed to {dst}: {outcome.value}")
    return dst
