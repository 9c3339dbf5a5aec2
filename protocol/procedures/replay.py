"""Asking for an item again: the after or error image goes back to ready (PROTOCOL section 8).

It does what a person does with `mv`, in the order in which a cut does no harm: payloads first, the token last. Until then a
consumer sees a payload that was brought back, which is a replay that was asked for as well.
"""

from dataclasses import replace

from protocol.errors import Anomaly
from protocol.ledger import LedgerState
from protocol.names import REASON_SUFFIX, FileKind, ItemId, Name
from protocol.operations import Now, Outcome, Publish, UnarchivedKeys, WriteLedger
from protocol.procedures.look import find_item
from protocol.procedures.rename import remove, rename
from protocol.rules import Rules
from protocol.states import State


async def replay(rules: Rules, item: ItemId) -> tuple[str, ...]:
    """Renames an item's files back to ready, and returns their ready names.

    Raises Anomaly where the item is not an after or error image, or something is in the way; what was renamed by then stays,
    and asking again goes on from there.
    """
    names = [name for name in await find_item(rules, item) if not name.again]
    tokens = [name for name in names if rules.is_token(name.kind)]
    title = f"{item.group}{rules.grammar.digits(item.number)}"
    if not tokens or any(name.state not in (State.AFTER, State.ERROR) for name in tokens):
        states = ", ".join(sorted({name.state.word for name in tokens})) or "not there"
        raise Anomaly(f"{title} is {states}; only an after or error image can be replayed")
    # The ledger first: an entry that is only `done` would make the item look like one that was cut before its completion.
    for key, entry in await UnarchivedKeys():
        if entry.item == item:
            await WriteLedger(key, entry, replace(entry, state=LedgerState.ARCHIVED, at=(await Now()).utc))
    moved = []
    for name in sorted(names, key=lambda n: rules.is_token(n.kind)):
        if name.suffix == REASON_SUFFIX:
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
