"""Whether a directory can be a drop: asked once at the start, so that a misfit is told before the first file, not after.

One scratch file is made and renamed through every folder of the layout. That shows in one go that this account may create,
rename and delete, that the server allows renames at all, and that the folders are on one volume (PROTOCOL sections 2, 10).
"""

import contextlib

from gateway.errors import UnfitDrop
from gateway.handoff.connection import Connection
from protocol.names import LONGEST_OWNER, MANIFEST_SUFFIX, ItemId, Name, check_owner, rivals
from protocol.rules import Rules
from protocol.snapshot import Snapshot
from protocol.states import State
from transports.base import Fact, Guarantee, Transport
from transports.errors import AlreadyExists, CrossVolume, Denied, TransportError, Unsupported
from transports.paths import join


def probe(connection: Connection, rules: Rules, owner: str, groups: tuple[str, ...] = ()) -> None:
    """Makes missing folders of the layout, and returns where the drop can be used by this account.

    Raises UnfitDrop with what is missing, Denied where the account may not work there, and what connecting raises.
    """
    check_owner(owner)
    connection.retrying(lambda transport: _probe(transport, rules, owner, groups))


def _probe(transport: Transport, rules: Rules, owner: str, groups: tuple[str, ...]) -> None:
    facts = transport.capabilities
    for step, fact in (("create", facts.create), ("publish", facts.publish), ("claim", facts.claim)):
        _require(step, fact)
    _check_longest(facts.longest_name, rules, groups)
    for folder in rules.layout.folders:
        try:
            transport.make_dir(folder)
        except AlreadyExists:
            continue
        except Denied as error:
            raise Denied(
                "probe", folder, f"this account may not make the layout's folders: {error.detail}; make them beforehand"
            ) from error
    _send_round(transport, rules, f"T_{owner}.probe")


def _require(step: str, fact: Fact) -> None:
    if fact.guarantee is not Guarantee.ATOMIC:
        raise UnfitDrop(
            f"this server cannot be used as a drop: its {step} is not one step ({fact.evidence}), "
            f"so two hosts could both believe that they won"
        )


def _check_longest(longest: int, rules: Rules, groups: tuple[str, ...]) -> None:
    for group in groups:
        name = Name(ItemId(group, 0), MANIFEST_SUFFIX, State.CLAIMED, "x" * LONGEST_OWNER)
        needed = len(rules.grammar.format(name))
        if needed > longest:
            raise UnfitDrop(
                f"names end at {longest} bytes on this server, and a claim in group {group!r} needs {needed}; "
                f"shorten the group prefix"
            )


def _send_round(transport: Transport, rules: Rules, name: str) -> None:
    """A scratch file, from the drop's directory through each folder and back to nothing."""
    at = name
    try:
        # Empty, since a full disk is no reason not to take items out of it.
        with transport.create(at) as sink:
            sink.commit()
    except AlreadyExists:
        pass  # of a probe of ours that was cut; it serves as well
    except Denied as error:
        raise Denied("probe", error.path, f"this account may not create files in the drop: {error.detail}") from error
    before = ""
    try:
        for folder in (*rules.layout.folders, ""):
            to = join(folder, name + ".2" if not folder else name)
            if transport.same_volume(before, folder) is False:
                raise _two_volumes(before, folder)
            try:
                transport.claim(at, to)
            except CrossVolume as error:
                raise _two_volumes(before, folder) from error
            at, before = to, folder
        transport.publish(at, name)
        at = name
    except (Denied, Unsupported) as error:
        raise type(error)(
            "probe", at, f"this account, or this server, does not allow renames in the drop: {error.detail or error.summary}"
        ) from error
    finally:
        # The probe has its answer; a T_ name is nobody's, and whoever may delete it does so later.
        with contextlib.suppress(TransportError):
            transport.delete(at)


def _two_volumes(first: str, second: str) -> UnfitDrop:
    one, other = (f"folder {f!r}" if f else "the drop's own directory" for f in (first, second))
    return UnfitDrop(
        f"{one} and {other} are on different volumes, so a rename between them is not one step; "
        f"put every folder of the drop on one volume"
    )


def check_groups(snapshot: Snapshot, groups: tuple[str, ...]) -> None:
    """Refuses groups that differ only by case from each other, or from one that the drop shows (PROTOCOL section 2)."""
    known = dict.fromkeys((*groups, *snapshot.groups()))
    for group in groups:
        for other in known:
            if fault := rivalry(group, other):
                raise UnfitDrop(fault)


def rivalry(first: str, second: str) -> str:
    """Why two groups cannot share a drop; "" where they can."""
    if not rivals(first, second):
        return ""
    if first.lower() == second.lower():
        return f"groups {first!r} and {second!r} differ only by case, and SMB takes them for one; rename one"
    return f"groups {first!r} and {second!r} have names that differ only by case, such as of before files on SMB; rename one"
