"""`python -m tests.simulation --seeds 1000000`: longer runs than a test has time for."""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter

from tests.simulation.batches import BATCH, run_batches
from tests.simulation.quick import remembering
from tests.simulation.simulation import Simulation, check

_ROUND = BATCH * 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="one seed alone, with its trace")
    arguments = parser.parse_args()
    return one(arguments.seed) if arguments.seed is not None else many(arguments.first, arguments.seeds)


def one(seed: int) -> int:
    """A single seed: its trace, whether it holds or not."""
    with remembering():
        print(dict(check(seed)))
        simulation = Simulation(seed, trace=True)
        simulation.run()
    print("\n".join(simulation.trace or []))
    return 0


def many(first: int, seeds: int) -> int:
    """All of them, on every core; stops at the first violation."""
    begun = time.monotonic()
    ran, befell = 0, Counter[str]()
    for at in range(first, first + seeds, _ROUND):
        with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
            piece = range(at, min(at + _ROUND, first + seeds))
            done, faults, violation = run_batches(pool, piece, until=float("inf"))
        ran += done
        befell += faults
        if violation:
            print(violation)
            return 1
        print(f"{ran} seeds, {ran / (time.monotonic() - begun):.0f} a second", file=sys.stderr)
    print(f"{ran} seeds, {ran / (time.monotonic() - begun):.0f} a second, no violation")
    for what, count in sorted(befell.items()):
        print(f"  {what:24}{count:>10}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
