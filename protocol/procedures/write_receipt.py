"""Writing a receipt: whole or not at all, once for a run, and never an earlier run's over a later one's.

    1 store it under a scratch name     nobody reads that; anyone may delete an old one
    2 publish it as the receipt         never replaces, so what is there is looked at first:
                                          this run's or a later one's     it is written
                                          an earlier run's, or torn       aside with it, and again
                                          another item's                  the number came twice: the caller takes the next "+n"

A receipt is not deleted by its name: between the look and the deletion a later one may have come there. It is renamed to a
scratch name first, and put back if it is not the one that was looked at. Cut in between, the scratch name tells the next
sweep which image has lost its receipt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from protocol.contents import Contents
from protocol.errors import InvalidReceipt
from protocol.ledger import Entry
from protocol.names import RECEIPT_SUFFIX, ItemId, Name
from protocol.operations import Claim, Now, Outcome, Pause, Publish, ReadSmall, Replace, Stat, Store
from protocol.procedures.rename import remove, rename
from protocol.receipt import LARGEST, Ending, Receipt, aside_path, format_receipt, parse_receipt
from protocol.rules import Rules
from protocol.states import State

_TRIES = 8
_IMAGES = (State.AFTER, State.ERROR)


@dataclass(frozen=True, slots=True)
class Writing:
    """A receipt that is to be written, and the owner id of whoever writes it: that names his scratch files."""

    receipt: Receipt
    writer: str


class Wrote(Enum):
    """How writing a receipt ended."""

    THERE = "there"  # this one, or that of a later run
    TAKEN = "taken"  # the name holds the receipt of another item of this number
    BUSY = "busy"  # somebody has the old one open, or others write and remove it without end


async def receipt_of(
    rules: Rules,
    item: ItemId,
    key: str,
    contents: Contents | None,
    entry: Entry | None,
    outcome: Ending,
    facts: Mapping[str, object],
) -> Receipt:
    """What is to be said of an item, from the ledger's entry as far as there is one; `facts` are said in its place.

    The item's own run is meant: an entry of another number says only that it was processed before.
    """
    known: dict[str, object] = {}
    if entry is not None:
        known = {"owner": entry.owner, "run": entry.generation, "attempts": entry.attempts}
        known |= {"result" if outcome != "failed" else "error": entry.result}
    forwarded = outcome == "processed" and item.group in rules.forwards
    duplicate = entry is not None and entry.item != item
    payloads = contents.payloads if contents is not None else ()
    return Receipt(
        **{
            "item": f"{item.group}{rules.grammar.digits(item.number)}",
            "key": key,
            "outcome": "forwarded" if forwarded else outcome,
            "hashes": {rules.grammar.format(p.name): f"{p.algorithm}:{p.digest}" for p in payloads if p.digest},
            "time": (await Now()).utc,
            # Of a second delivery nothing more will be heard: the first one's receipt says what became of the content.
            "complete": outcome == "failed" or duplicate or item.group not in rules.awaits,
            **known,
            **facts,
        }  # type: ignore[arg-type]  # each fact is of its field's type, which the model checks
    )


async def read_receipt(rules: Rules, at: Name) -> Receipt | None:
    """The receipt beside an image of the item; None where there is none that can be read."""
    data = await ReadSmall(rules.layout.path(replace(at, suffix=RECEIPT_SUFFIX)), LARGEST)
    return _parsed(data) if data is not None else None


async def write_receipt(rules: Rules, at: Name, writing: Writing) -> Wrote:
    """Writes a receipt beside the image `at`. May be called by anyone, any number of times, also at once.

    Raises what an operation raises; a scratch file of ours may be left then.
    """
    path = rules.layout.path(replace(at, suffix=RECEIPT_SUFFIX))
    for attempt in range(1, _TRIES + 1):
        data = await ReadSmall(path, LARGEST)
        if data is not None:
            found = _judge(data, writing.receipt)
            if found is not None:
                return found
            if not await _set_aside(rules, path, data, writing.writer):
                return Wrote.BUSY
            continue
        if await _put(rules, path, writing):
            return Wrote.THERE
        await Pause(attempt)
    return Wrote.BUSY


async def replace_receipt(rules: Rules, at: Name, writing: Writing, before: bytes) -> bool:
    """Puts a receipt of which more is known in place of the one that was looked at; False where that is not there any more.

    A reader sees one or the other; where the server cannot replace, for a moment none. A run that ends in the moment between
    the look and the replacement finds its receipt replaced: whoever calls this looks again, and says what the ledger says.
    """
    path = rules.layout.path(replace(at, suffix=RECEIPT_SUFFIX))
    if not await _store(rules, writing):
        return False
    scratch = _scratch(writing)
    if await ReadSmall(path, LARGEST) != before:
        await remove(scratch)
        return False
    outcome = await Replace(scratch, path)
    if outcome is Outcome.EXISTS:
        return await _set_aside(rules, path, before, writing.writer) and await _put(rules, path, writing)
    if outcome is not Outcome.DONE:
        await remove(scratch)  # somebody reads the old one just now, or the reply was lost
    return outcome is Outcome.DONE


async def earlier_run(rules: Rules, item: ItemId, key: str) -> int:
    """The highest run that a receipt of the item tells of; 0: none. For a ledger that knows nothing of the item any more."""
    receipts = [await read_receipt(rules, Name(item, RECEIPT_SUFFIX, state)) for state in _IMAGES]
    return max((receipt.run for receipt in receipts if receipt is not None and receipt.key == key), default=0)


async def retract_receipts(rules: Rules, item: ItemId, key: str, run: int, writer: str) -> None:
    """Takes the receipts of earlier runs away, before a run begins: they must not be taken for its own.

    Only of earlier ones: a worker that slept here may find the receipt of whoever took over from it.
    """
    for state in _IMAGES:
        path = rules.layout.path(Name(item, RECEIPT_SUFFIX, state))
        data = await ReadSmall(path, LARGEST)
        found = _parsed(data) if data is not None else None
        if data is not None and found is not None and found.key == key and found.run < run:
            await _set_aside(rules, path, data, writer)


def _parsed(data: bytes) -> Receipt | None:
    try:
        return parse_receipt(data)
    except InvalidReceipt:
        return None


def _judge(data: bytes, ours: Receipt) -> Wrote | None:
    """What a receipt that is there means for ours; None where it has to go."""
    try:
        there = parse_receipt(data)
    except InvalidReceipt as error:
        return None if error.torn else Wrote.THERE  # of a later version, perhaps: not ours to judge
    if there.key != ours.key:
        return Wrote.TAKEN
    return None if there.run < ours.run else Wrote.THERE


def _scratch(writing: Writing) -> str:
    return f"T_{writing.writer}.receipt"


async def _store(rules: Rules, writing: Writing) -> bool:
    """Writes the receipt under its scratch name; False where a sweep takes such files away as fast as we make them."""
    scratch, content = _scratch(writing), format_receipt(writing.receipt)
    if await Store(scratch, content, rules.algorithm) is not None:
        return True
    # Of an earlier attempt of ours, which was cut.
    await remove(scratch)
    return await Store(scratch, content, rules.algorithm) is not None


async def _put(rules: Rules, path: str, writing: Writing) -> bool:
    """Whether the receipt is there now; False where somebody was faster, or a sweep has taken the scratch file."""
    if not await _store(rules, writing):
        return False
    outcome = await rename(Publish, _scratch(writing), path, patience=rules.busy_patience, shared=True)
    if outcome is not Outcome.DONE:
        await remove(_scratch(writing))
    return outcome is Outcome.DONE


async def _set_aside(rules: Rules, path: str, data: bytes, writer: str) -> bool:
    """Takes away the receipt that was read, and no other; True where it is worth looking again, False where it is open."""
    aside = aside_path(path, writer)
    if await Stat(aside) is not None:
        # Of an earlier attempt of ours, which was cut: it is put back, and looked at again.
        if await rename(Publish, aside, path, patience=rules.busy_patience, shared=True) is Outcome.DONE:
            return True
        await remove(aside)
    outcome = await rename(Claim, path, aside, patience=rules.busy_patience)
    if outcome is not Outcome.DONE:
        return outcome is not Outcome.BUSY
    if await ReadSmall(aside, LARGEST) != data:
        # Not the one that we looked at: it is put back, unless a still newer one has come meanwhile.
        await rename(Publish, aside, path, patience=rules.busy_patience, shared=True)
    await remove(aside)
    return True
