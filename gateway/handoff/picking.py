"""Which of the ready items a worker takes first, so that a crowd of workers does not fight for the same ones."""

import zlib
from collections.abc import Collection, Sequence
from itertools import zip_longest

from protocol.names import Name
from protocol.rules import Rules
from protocol.snapshot import Snapshot
from protocol.states import State

_WORTH_A_LOOK = 40  # for so many claims one may be lost to somebody else


def ready_in(seen: Snapshot, rules: Rules, groups: Sequence[str]) -> list[Name]:
    """The tokens of some groups' ready items, group by group, by number."""
    names = (name for view in seen.items.values() for name, _ in view.files)
    tokens = [name for name in names if name.state is State.READY and rules.is_token(name.kind)]
    return [token for group in groups for token in tokens if token.item.group == group]


def share_of(tokens: Sequence[Name], owner: str, crowd: Collection[str]) -> list[Name]:
    """Those that fall to one worker, where every one of the crowd counts alike. All of them, where there is no crowd.

    Nobody relies on it: what two workers count differently costs the slower one a claim that it finds gone.
    """
    workers = sorted({*crowd, owner})
    place = workers.index(owner)
    return [t for t in tokens if zlib.crc32(f"{t.item.group}{t.item.number}".encode()) % len(workers) == place]


def fair_part(tokens: Sequence[Name], owner: str, crowd: Collection[str]) -> list[Name]:
    """What a worker takes before it looks again: its share, or a little of what is left of the others' when that is done."""
    share = share_of(tokens, owner, crowd)
    return share or list(tokens[: max(1, len(tokens) // (2 * len({*crowd, owner})))])


def is_out_of_date(taken: int, lost: int) -> bool:
    """Whether a listing is worth making anew, after so many of its items were taken and so many were gone."""
    return lost > taken // _WORTH_A_LOOK


def in_turns(tokens: Sequence[Name]) -> list[Name]:
    """One of each group after the other, each group in the order in which it stands: a flood in one starves no other."""
    groups: dict[str, list[Name]] = {}
    for token in tokens:
        groups.setdefault(token.item.group, []).append(token)
    return [token for turn in zip_longest(*groups.values()) for token in turn if token is not None]
