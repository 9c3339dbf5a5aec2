"""`python -m tests.simulation --seeds 1000000`: longer runs than a test has time for."""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter

from tests.simulation.simulation import check
from tests.simulation.world import Violation

BATCH = 250


def batch(first: int) -> tuple[int, Counter[str], str]:
    """A batch of seeds: how many ran, the faults that befell them, and the first violation, if any."""
    faults: Counter[str] = Counter()
    for seed in range(first, first + BATCH):
        try:
            faults += check(seed)
        except Violation as violation:
            return seed - first, faults, str(violation)
    return BATCH, faults, ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="one seed alone, with its trace if it fails")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        print(dict(check(arguments.seed)))
        return 0
    begun = time.monotonic()
    done, faults = 0, Counter[str]()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        firsts = range(arguments.first, arguments.first + arguments.seeds, BATCH)
        for ran, befell, violation in pool.imap_unordered(batch, firsts):
            done += ran
            faults += befell
            if violation:
                print(violation)
                return 1
            if done % (BATCH * 40) < BATCH:
                print(f"{done} seeds, {done / (time.monotonic() - begun):.0f} a second", file=sys.stderr)
    print(f"{done} seeds, {done / (time.monotonic() - begun):.0f} a second, no violation")
    for what, count in sorted(faults.items()):
        print(f"  {what:24}{count:>10}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
