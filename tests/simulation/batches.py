"""Many seeds on all cores: in batches, so that what one process is sent back is little."""

import time
from collections import Counter
from multiprocessing.pool import Pool

from tests.simulation.quick import remembering
from tests.simulation.simulation import check
from tests.simulation.world import Violation

BATCH = 100

Ran = tuple[int, Counter[str], str]


def batch(seeds: range) -> Ran:
    """How many seeds ran, the faults that befell them, and the first violation with its trace, if any."""
    faults: Counter[str] = Counter()
    with remembering():
        for index, seed in enumerate(seeds):
            try:
                faults += check(seed)
            except Violation as violation:
                return index, faults, str(violation)
    return len(seeds), faults, ""


def run_batches(pool: Pool, seeds: range, *, until: float) -> Ran:
    """Seeds by batches until all have run, one is violated, or it is `until` by the monotonic clock."""
    ran, befell = 0, Counter[str]()
    pieces = [seeds[at : at + BATCH] for at in range(0, len(seeds), BATCH)]
    for done, faults, violation in pool.imap_unordered(batch, pieces):
        ran += done
        befell += faults
        if violation or time.monotonic() > until:
            pool.terminate()
            return ran, befell, violation
    return ran, befell, ""
