"""A drop with a claimed item, and the three ways out of the claim by one signature."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from protocol.names import Name
from protocol.operations import Procedure
from protocol.procedures.claim import claim, prepare_owner
from protocol.procedures.finish import (
    PutAway,
    Reason,
    complete,
    fail,
    release,
)
from protocol.procedures.publish import publish
from protocol.rules import Rules, Signal
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.drops import ITEM, KINDS, draft, found, tokens
from tests.protocol.process import run

kinds = pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
with_token = pytest.mark.parametrize(
    "rules", [r for r in KINDS.values() if r.signal is not Signal.NONE], ids=[k for k in KINDS if "none" not in k]
)
MANIFESTS = KINDS["prefix-manifest"]
NONE = KINDS["prefix-none"]
REASON = Reason("HandlerFailed", "exit status 1", 5, "host-1", "o")


def hand_out(rules: Rules, there: Directory | None = None, content: bytes = b"a;b\n1;2\n") -> tuple[Directory, Name]:
    """A drop with the item claimed by `o`."""
    there = there or Directory(rules)
    run(there, publish(rules, draft(rules, content), ITEM.number, given=False))
    for owner in ("o", "p"):
        run(there, prepare_owner(rules, owner))
    (token,) = [name for name in tokens(there) if name.state is State.READY]
    name = run(there, claim(rules, token, "o"))
    assert isinstance(name, Name)
    there.renames.clear()
    return there, name


def payloads(rules: Rules) -> list[Name]:
    return [Name(ITEM, file.suffix) for file in draft(rules).files]


def completing(rules: Rules, name: Name) -> Procedure[PutAway]:
    return complete(rules, name, payloads(rules))


def failing(rules: Rules, name: Name) -> Procedure[PutAway]:
    return fail(rules, name, payloads(rules), REASON)


def releasing(rules: Rules, name: Name) -> Procedure[None]:
    return release(rules, name)


Way = Callable[[Rules, Name], Procedure[Any]]
ways = pytest.mark.parametrize("way", [completing, failing, releasing])
ENDS: dict[Way, State] = {completing: State.AFTER, failing: State.ERROR, releasing: State.READY}


def states(there: Directory) -> set[State]:
    return {name.state for name in found(there)}


def after_images(rules: Rules) -> list[str]:
    names = [*payloads(rules), Name(ITEM, rules.token_suffix("csv"))]
    return sorted({rules.layout.path(replace(name, state=State.AFTER)) for name in names})
