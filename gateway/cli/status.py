"""`dropgate status`: items by state, as `ls -1` would group them."""

from typing import Annotated

import typer

from gateway.cli.common import failures_end_well, item_text, open_drop, say, say_json
from gateway.cli.options import Config, DropArgument, HostKey, Json, LayoutOption, SignalOption, Width
from protocol.names import Grammar
from protocol.snapshot import ItemView, Snapshot
from protocol.states import State


def status(
    drop: DropArgument,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="Items shown of each state; 0 shows all.")] = 20,
    layout: LayoutOption = None,
    signal: SignalOption = None,
    width: Width = None,
    host_key: HostKey = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show what DROP holds, and change nothing."""
    with failures_end_well():
        source = open_drop(drop, config, host_key, layout=layout, signal=signal, width=width)
        snapshot = source.snapshot()
        if as_json:
            _tell_json(snapshot, source.rules.grammar)
        else:
            _tell(str(source), snapshot, source.rules.grammar, limit)


def _tell(title: str, snapshot: Snapshot, grammar: Grammar, limit: int) -> None:
    say(title)
    for state in State:
        _tell_items(state.word, snapshot.in_state(state), grammar, limit, newest=state in (State.AFTER, State.ERROR))
    _tell_items("no token", [v for v in snapshot.items.values() if v.state is None], grammar, limit, newest=False)
    for group, numbers in sorted(snapshot.counters.items()):
        say(f"  counter {group or '(no prefix)'}: next is {grammar.digits(max(numbers))}")
    for group in snapshot.groups():
        runs = [f"{grammar.digits(a)}" + (f" to {grammar.digits(b)}" if b > a else "") for a, b in snapshot.gaps(group)]
        if runs:
            say(f"  gap     {group or '(no prefix)'}: {', '.join(runs)} missing")
    for name, entries in (("foreign", snapshot.foreign), ("scratch", snapshot.scratch)):
        if entries:
            say(f"  {name:8}{len(entries):>8} name{'s' if len(entries) != 1 else ''}: {_some([e.path for e in entries])}")
    for view in snapshot.items.values():
        for problem in view.problems:
            say(f"  ! {item_text(grammar, view.item.group, view.item.number)}: {problem}")
    for problem in snapshot.problems:
        say(f"  ! {problem}")
    if not (snapshot.items or snapshot.foreign or snapshot.scratch):
        say("  no items")


def _tell_items(word: str, views: list[ItemView], grammar: Grammar, limit: int, *, newest: bool) -> None:
    """One state: its count, and the items that matter most: the newest of what is over, the oldest of what waits."""
    if not views:
        return
    say(f"  {word:8}{len(views):>8} item{'s' if len(views) != 1 else ' '}{_bytes(sum(v.size for v in views)):>14}")
    shown = views if not limit or len(views) <= limit else views[-limit:] if newest else views[:limit]
    for view in shown:
        owner = f"  by {view.owner}" if view.owner else ""
        say(f"    {item_text(grammar, view.item.group, view.item.number)}{_bytes(view.size):>14}{owner}")
    if len(shown) < len(views):
        say(f"    and {len(views) - len(shown)} more")


def _tell_json(snapshot: Snapshot, grammar: Grammar) -> None:
    for view in snapshot.items.values():
        item = {
            "item": item_text(grammar, view.item.group, view.item.number),
            "group": view.item.group,
            "sequence": grammar.digits(view.item.number),
            "state": view.state.word if view.state is not None else None,
            "owner": view.owner or None,
            "bytes": view.size,
            "names": [listed.path for _, listed in view.files],
            "problems": view.problems,
        }
        say_json({key: value for key, value in item.items() if value not in (None, [])})
    for listed in snapshot.foreign:
        say_json({"foreign": listed.path})
    for group in snapshot.groups():
        for first, last in snapshot.gaps(group):
            say_json({"gap": group, "first": grammar.digits(first), "last": grammar.digits(last)})
    for problem in snapshot.problems:
        say_json({"problem": problem})


def _some(names: list[str]) -> str:
    return ", ".join(sorted(names)[:5]) + (", ..." if len(names) > 5 else "")


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
