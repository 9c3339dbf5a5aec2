"""Taking numbers in a directory in memory, and what its counter has given so far."""

from typing import Any

import pytest

from protocol.layout import FolderLayout
from protocol.names import CounterName
from protocol.procedures.take_number import take_numbers
from protocol.rules import Rules
from tests.protocol.directory import Directory
from tests.protocol.process import run

RULES = Rules(busy_patience=3.0)
GROUP = "orders_"
layouts = pytest.mark.parametrize("rules", [RULES, Rules(layout=FolderLayout(), busy_patience=3.0)], ids=["prefix", "folders"])


def counters(there: Directory, group: str = GROUP) -> list[int]:
    parsed = (there.rules.grammar.parse_helper(path) for path in there.files)
    return [name.number for name in parsed if isinstance(name, CounterName) and name.group == group]


def helpers(there: Directory) -> set[type]:
    return {type(there.rules.layout.parse(path)) for path in there.files}


def handed_out(there: Directory) -> list[int]:
    """Every number that a rename of the counter has taken, in the order of the renames."""
    taken: list[int] = []
    for src, dst in there.renames:
        old, new = there.rules.grammar.parse_helper(src), there.rules.grammar.parse_helper(dst)
        if isinstance(old, CounterName) and isinstance(new, CounterName):
            taken += range(old.number, new.number)
    return taken


def take(there: Directory, owner: str = "o", **more: Any) -> int:
    return run(there, take_numbers(there.rules, GROUP, owner, **more))
