"""What is known of a file system's steps, and how they are made."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractFileSystem

from transports import errors
from transports.base import Fact, Guarantee
from transports.paths import split

Step = Callable[[Any, str, str], None]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """How steps are made in one kind of file system, and what they are worth."""

    create_mode: str
    create: Fact
    publish: Step
    publish_fact: Fact
    claim: Step
    replace: Step
    rename_fact: Fact
    shared_handles: bool = False  # two opens of one file give one object, with one position


def known(system: AbstractFileSystem) -> Knowledge:
    name = type(system).__name__
    if type(system) is LocalFileSystem:
        # `mv` of this one copies where it cannot rename: the calls of the operating system do not.
        return Knowledge(
            create_mode="xb",
            create=Fact(Guarantee.ATOMIC, "mode 'xb' reaches open(O_EXCL)"),
            publish=_link_and_remove,
            publish_fact=Fact(Guarantee.ATOMIC, "a hard link, which replaces nothing; then the source is removed"),
            claim=_local_rename,
            replace=_local_rename,
            rename_fact=Fact(Guarantee.ATOMIC, "rename(2)"),
        )
    own_move = type(system).mv is not AbstractFileSystem.mv
    move, how = (_move, f"mv of {name}") if own_move else (_copy_and_remove, "a copy, then a delete")
    unproved = Fact(Guarantee.NONE, f"{how}: nothing is known of what rivals see and do")
    looked = Fact(Guarantee.CHECKED, f"{name} is asked whether the name is free, and then written to")
    return Knowledge(
        create_mode="wb",
        create=looked,
        publish=move,
        publish_fact=Fact(Guarantee.NONE, f"{name} is asked whether the name is free; then {how}"),
        claim=move,
        replace=move,
        rename_fact=unproved,
        shared_handles=isinstance(system, MemoryFileSystem),
    )


def _local_rename(system: Any, source: str, target: str) -> None:
    os.rename(source, target)


def _link_and_remove(system: Any, source: str, target: str) -> None:
    system.link(source, target)
    try:
        system.rm_file(source)
    except OSError as error:
        detail = "the target is made, and the source could not be removed"
        raise errors.OutcomeUnknown("publish", split(source)[1], detail) from error


def _copy_and_remove(system: Any, source: str, target: str) -> None:
    system.cp_file(source, target)
    system.rm_file(source)


def _move(system: Any, source: str, target: str) -> None:
    system.mv(source, target)
