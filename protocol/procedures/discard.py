"""Discards: an error image is moved out of the way, into the drop's quarantine folder, and nothing is deleted.

The token goes first. From then on nobody can ask for the item again, and whoever is doing so at the same moment has either
renamed the token before, so that nothing was discarded, or finds it gone. Cut in between, error files are left without a
token; asking again takes them along.
"""

from dataclasses import replace

from protocol.errors import Anomaly
from protocol.layout import QUARANTINE_FOLDER
from protocol.names import REASON_SUFFIX, FileKind, ItemId, Name
from protocol.operations import MakeFolder, Outcome, Publish, Stat
from protocol.procedures.look import find_item
from protocol.procedures.rename import rename
from protocol.rules import Rules
from protocol.states import State

_MOST_DOUBLES = 1000


async def discard(rules: Rules, item: ItemId) -> tuple[str, ...]:
    """Moves an error image's files into the quarantine folder, and returns where they are now.

    There they have the names of the mark layout, with a "+n" where one is taken: an earlier item of the same number lies
    there. Raises Anomaly where the item is not an error image that has been put away whole; nothing was moved then. Also
    where a file could not be moved; what was moved by then stays, and asking again goes on from there.
    """
    names = [name for name in await find_item(rules, item) if not name.again]
    title = f"{item.group}{rules.grammar.digits(item.number)}"
    # The receipt of an earlier run may lie about, and stands for no state.
    stand = [name for name in names if name.kind is not FileKind.RECEIPT or name.state is State.ERROR]
    if not stand or any(name.state is not State.ERROR for name in stand):
        states = ", ".join(sorted({name.state.word for name in stand})) or "not there"
        raise Anomaly(f"{title} is {states}; only an error image can be discarded")
    tokens = [name for name in names if rules.is_token(name.kind)]
    if tokens and not any(name.kind is FileKind.REASON for name in names):
        raise Anomaly(f"{title} has no reason beside it: it is still being put away; a sweep finishes that if its worker died")
    await MakeFolder(QUARANTINE_FOLDER)
    moved = []
    # The reason last: with it, what is left of a discard that was cut still says why.
    for name in sorted(names, key=lambda n: (not rules.is_token(n.kind), n.suffix == REASON_SUFFIX, n.suffix)):
        path = await _move(rules, name)
        if path is None and rules.is_token(name.kind):
            raise Anomaly(f"{title} was taken by somebody else just now; nothing was discarded")
        if path is not None:
            moved.append(path)
    return tuple(moved)


async def _move(rules: Rules, name: Name) -> str | None:
    """Where one file is now; None where it was gone."""
    src = rules.layout.path(name)
    for again in range(_MOST_DOUBLES):
        dst = f"{QUARANTINE_FOLDER}/{rules.grammar.format(replace(name, again=again))}"
        if await Stat(dst) is not None:
            continue
        outcome = await rename(Publish, src, dst, patience=rules.busy_patience, shared=True)
        if outcome is Outcome.DONE:
            return dst
        if outcome is Outcome.GONE:
            return None
        if outcome is not Outcome.EXISTS:
            raise Anomaly(f"{src} could not be moved to {dst}: {outcome.value}; ask again to go on from there")
    raise Anomaly(f"{src} cannot be moved: {_MOST_DOUBLES} files of its name are in {QUARANTINE_FOLDER}")
