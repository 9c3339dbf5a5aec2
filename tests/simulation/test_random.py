"""At least a hundred thousand random schedules hold every promise."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.simulation.batches import run_batches
from tests.simulation.simulation import Simulation, check
from tests.simulation.world import FLAVOURS, Violation

SCHEDULES = 100_000
SECONDS = 270.0  # of wall clock, in which a machine of two cores that has nothing else to do runs them all


@pytest.mark.timeout(600)
def test_random_schedules_hold_every_promise(capsys: pytest.CaptureFixture[str]) -> None:
    workers = os.cpu_count() or 1
    begun = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        ran, befell, violation = run_batches(pool, range(SCHEDULES), until=begun + SECONDS)
    took = time.monotonic() - begun
    with capsys.disabled():
        print(f"\n{ran} schedules in {took:.0f} s on {workers} cores, {ran / took:.0f} a second")  # noqa: T201 - the measure
    assert not violation, violation
    assert ran == SCHEDULES or took >= SECONDS
    _check_diversity(befell, ran)


def _check_diversity(befell: Counter[str], ran: int) -> None:
    """A schedule in which nothing happens proves nothing: every fault and every scene is met often."""
    for what in (*FLAVOURS, "prefix", "folders", "manifest", "checksum", "none", "route"):
        assert befell[f"scene: {what}"] > ran / 20, what
    for fault in ("killed", "frozen", "leap", "clock set", "replay asked"):
        assert befell[fault] > ran / 10, fault
    for fault in ("before", "after", "late", "cut"):
        assert befell[f"reply lost, {fault}"] > ran / 200, fault
    for fault in ("held open", "disconnected", "handler failed"):
        assert befell[fault] > ran / 200, fault


def test_a_seed_replays_exactly() -> None:
    traces = []
    for _ in range(2):
        simulation = Simulation(4711, trace=True)
        simulation.run()
        traces.append(simulation.trace)
    assert traces[0] == traces[1]
    assert traces[0]


def test_a_failing_seed_shows_its_trace() -> None:
    def break_it(simulation: Simulation) -> None:
        simulation.drops[0].promises.numbers.update(range(1, 9))  # as if they had been handed out before
        simulation.drops[0].promises.sent.clear()

    found = [seed for seed in range(50) if _is_told(seed, break_it)]
    assert found


def _is_told(seed: int, break_it: Callable[[Simulation], None]) -> bool:
    try:
        check(seed, prepare=break_it)
    except Violation as violation:
        told = str(violation)
        assert told.startswith(f"seed {seed} (")
        assert "--- the drop ---" in told
        assert len(told.splitlines()) > 10
        return True
    return False
