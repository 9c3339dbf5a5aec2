"""Two producers, two consumers, one sweeper, two items: every crash, every lost reply, every interleaving up to a bound."""

import multiprocessing
import os
from functools import partial

import pytest

from tests.simulation.explore import Case, crashes, interleavings, lost_replies, run, switched
from tests.simulation.quick import remembering
from tests.simulation.world import FLAVOURS, Flavour

SWITCHES = 1  # of the whole scene
SWITCHES_OF_THE_SMALL_ONE = 2


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_host_may_die_before_any_of_its_steps(flavour: Flavour) -> None:
    with remembering():
        killed = len([run(case) for case in crashes(Case(flavour))])
    assert killed > 100


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_any_reply_may_be_lost(flavour: Flavour) -> None:
    with remembering():
        lost = len([run(case) for case in lost_replies(Case(flavour))])
    assert lost > 60


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_any_one_actor_may_come_between_at_any_step(flavour: Flavour) -> None:
    with remembering():
        assert interleavings(Case(flavour), SWITCHES) > 250


def _small(flavour: Flavour) -> Case:
    """One producer and two consumers, where two switches can be afforded: some ten thousand schedules a flavour."""
    return Case(flavour, producers=1, consumers=2, sweepers=0)


def _from(bound: int, case: Case) -> int:
    with remembering():
        return interleavings(case, bound)


def _crashed(case: Case) -> int:
    with remembering():
        return len([run(cut) for cut in crashes(case)])


@pytest.mark.timeout(300)
def test_any_two_switches_of_a_producer_and_two_consumers_hold(capsys: pytest.CaptureFixture[str]) -> None:
    schedules = 0
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for flavour in FLAVOURS:
            base = _small(flavour)
            prefixes = list(switched(base, run(base)))
            schedules += sum(pool.imap_unordered(partial(_from, SWITCHES_OF_THE_SMALL_ONE - 1), prefixes, chunksize=4))
    with capsys.disabled():
        print(f"\n{schedules} schedules with up to {SWITCHES_OF_THE_SMALL_ONE} switches")  # noqa: T201 - the measure
    assert schedules > 10_000


@pytest.mark.timeout(300)
def test_a_host_may_die_at_any_step_after_any_switch() -> None:
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        base = _small("openssh")
        cases = sum(pool.imap_unordered(_crashed, list(switched(base, run(base))), chunksize=4))
    assert cases > 5_000
