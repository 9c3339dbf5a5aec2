"""Schedules of a drop with receipts: at rest each image has that of its last run, and the simulator would see it if not."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from protocol.errors import InvalidReceipt
from protocol.names import Name
from protocol.procedures import consume, finish, sweep, write_receipt
from protocol.receipt import Receipt, parse_receipt
from protocol.rules import Rules
from tests.simulation import actors
from tests.simulation.mutations import HARSH, SLEEPY
from tests.simulation.quick import remembering
from tests.simulation.simulation import Odds, check
from tests.simulation.world import Violation

SCHEDULES = 250  # of each kind: thousands were run by hand
KINDS = {"ordinary": Odds(), "harsh": HARSH, "sleepy": SLEEPY}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("odds", KINDS.values(), ids=KINDS)
def test_at_rest_each_image_has_the_receipt_of_its_last_run(odds: Odds) -> None:
    with remembering():
        for seed in range(SCHEDULES):
            check(seed, replace(odds, receipts=True))


Patches = Iterator[tuple[object, str, Any]]


def _archived_without_a_look() -> Patches:
    """What was cut between its one rename and its receipt is closed in the ledger as it is."""
    archive = sweep.archive_ledger

    async def archive_ledger(rules: Rules, worker: Any = None) -> int:
        return await archive(rules)

    yield actors, "archive_ledger", archive_ledger


def _an_old_one_taken_for_the_new() -> Patches:
    """Any receipt of the item will do, and earlier runs' are left where they are."""

    def judge(data: bytes, ours: Receipt) -> write_receipt.Wrote | None:
        try:
            there = parse_receipt(data)
        except InvalidReceipt as error:
            return None if error.torn else write_receipt.Wrote.THERE
        return write_receipt.Wrote.TAKEN if there.key != ours.key else write_receipt.Wrote.THERE

    async def leave(*_: Any) -> None:
        return None

    yield write_receipt, "_judge", judge
    yield consume, "retract_receipts", leave


def _put_away_before_its_receipt() -> Patches:
    """The receipt comes after the token, when nobody is left to finish it."""
    put = finish.put_away

    async def put_away(rules: Rules, done: Name, payloads: Any, writing: Any = None) -> finish.PutAway:
        away = await put(rules, done, payloads)
        token = rules.layout.parse(away.token)
        if away.seen and not away.left and isinstance(token, Name):
            await finish.add_receipt(rules, token, writing)
        return away

    yield from _archived_without_a_look()
    yield finish, "put_away", put_away
    yield sweep, "put_away", put_away


BROKEN = {
    broken.__name__.removeprefix("_"): broken
    for broken in (_archived_without_a_look, _an_old_one_taken_for_the_new, _put_away_before_its_receipt)
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_rule_that_is_broken_is_found(broken: Any) -> None:
    with ExitStack() as stack:
        stack.enter_context(remembering())
        for target, name, value in broken():
            stack.enter_context(patch.object(target, name, value))
        with pytest.raises(Violation, match="RECEIPTED"):
            _run(range(4 * SCHEDULES))


def _run(seeds: range) -> None:
    for seed in seeds:
        check(seed, replace(HARSH, receipts=True))
