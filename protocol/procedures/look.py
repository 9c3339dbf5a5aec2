"""Looking at a drop: all of it, or one item in whatever state."""

from protocol.layout import QUARANTINE_FOLDER
from protocol.names import ItemId, Name
from protocol.operations import Scan
from protocol.rules import Rules
from protocol.snapshot import Listed, Snapshot, take_snapshot
from protocol.states import State


async def list_drop(rules: Rules, pattern: str = "*") -> list[Listed]:
    """Every entry of the drop's folders, but for folders that a drop has, whose names are not items."""
    layout = rules.layout
    entries = list(await Scan("", pattern if not layout.folders else "*"))
    for folder in layout.folders:
        if folder != layout.claims_folder:
            entries.extend(await Scan(folder, pattern))
            continue
        for owner in await Scan(folder):
            entries.extend(await Scan(owner.path, pattern) if owner.folder else [owner])
    known = {*layout.folders, layout.archive_folder, QUARANTINE_FOLDER}
    return [e for e in entries if not (e.folder and (e.path in known or e.path.startswith(f"{layout.archive_folder}/")))]


async def snapshot(rules: Rules) -> Snapshot:
    """The whole drop, sorted by what its names say."""
    return take_snapshot(await list_drop(rules), rules)


async def find_item(rules: Rules, item: ItemId) -> list[Name]:
    """The names of one item that a listing shows, in any state."""
    found = [
        rules.layout.parse(e.path) for e in await list_drop(rules, rules.layout.item_pattern(Name(item, "x"))) if e.regular
    ]
    return [name for name in found if isinstance(name, Name) and name.item == item]


async def ready_tokens(rules: Rules, *groups: str) -> list[Name]:
    """The tokens of some groups' ready items, group by group, by number. One listing, however many groups."""
    entries = await Scan(rules.layout.folder_of(State.READY), f"{groups[0]}*" if len(groups) == 1 else "*")
    names = (rules.layout.parse(entry.path) for entry in entries if entry.regular)
    place = {group: index for index, group in enumerate(groups)}
    return sorted(
        (
            n
            for n in names
            if isinstance(n, Name) and n.state is State.READY and n.item.group in place and rules.is_token(n.kind)
        ),
        key=lambda n: (place[n.item.group], n.item, n.suffix),
    )
