"""Items a second on each transport, to produce, to consume and to forward; and how often a crowd gets in its own way.

    python benchmarks/handoff.py [--transports local,sftp,smb] [--items 300]
    python benchmarks/handoff.py --crowd 16 --crowd-items 10000

Conflicts are claims that found the item gone. Each row is one run; the machine's load is in it, so compare within a run.
"""

import argparse
import logging
import signal
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import structlog

from benchmarks.crew import GROUP, Job, produce, read_lines, shares, start, work
from benchmarks.places import TRANSPORTS, Place, ledger_url, place, say
from gateway.drop import Drop
from gateway.handoff.clock import Clock
from gateway.service.board import Board
from gateway.service.daemon import Daemon
from gateway.service.runner import End, Route
from gateway.service.transitions import Hub
from protocol.rules import Rules

_LOOK = 0.1  # seconds between two looks at the folder
_PATIENCE = 3600.0  # seconds for one row


def count(folder: Path, pattern: str) -> int:
    """How many files fit."""
    return sum(1 for _ in folder.glob(pattern))


def fill(job: Job, items: int, producers: int) -> float:
    """Hands items over, and returns the seconds that it took."""
    begun = time.monotonic()
    processes = [start(produce, replace(job, first=first, count=part)) for first, part in shares(items, producers)]
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError("a producer failed; it has said why")
    return time.monotonic() - begun


def drain(job: Job, seen: Path, items: int, workers: int) -> float:
    """Has so many processes consume everything, and returns the seconds from the first item to the last."""
    crew = [start(work, job) for _ in range(workers)]
    try:
        begun = time.monotonic()
        first = begun
        while (done := count(seen, f"A_{GROUP}*.manifest.json")) < items:
            if not done:
                first = time.monotonic()
            if time.monotonic() - begun > _PATIENCE:
                raise TimeoutError(f"only {done} of {items} items were done in {_PATIENCE:g} s")
            time.sleep(_LOOK)
        return time.monotonic() - first
    finally:
        for process in crew:
            process.terminate()
        for process in crew:
            process.join(60)
            if process.is_alive():
                process.kill()


def forward(at: Place, items: int, scratch: Path) -> float:
    """Carries items from here to a local drop by a route of one worker, and returns the seconds that it took."""
    target = scratch / "destination"
    target.mkdir()
    route = Route("benchmark", Drop(at.address.endpoint()), (End("destination", Drop.at(str(target))),), (GROUP,))
    clock = Clock()
    begun = time.monotonic()
    Daemon(Board(clock.utc), Hub(), threading.Event(), clock).run_once([route])
    took = time.monotonic() - begun
    if count(target, f"{GROUP}*.manifest.json") != items:
        raise RuntimeError("not everything has arrived")
    return took


def conflicts(told: Path) -> str:
    """What the workers told at their end."""
    lines = list(read_lines(told))
    claims, lost = (sum(line[key] for line in lines) for key in ("claims", "conflicts"))
    listings = sum(line["listings"] for line in lines)
    return f"claims {claims}, conflicts {lost} ({lost / max(claims, 1):.2%}), listings {listings}"


def one_transport(transport: str, items: int, workers: int, ledger: str) -> None:
    """Its rows."""
    with place(transport) as at, ledger_url(ledger) as url, tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        job = Job(at.address, Rules(), scratch / "effects", scratch / "told", url)
        say(f"{transport} ({at.server})")
        say(f"  produce  {items / fill(job, items, 1):7.1f} items a second, one producer")
        say(f"  consume  {items / drain(job, at.seen, items, workers):7.1f} items a second, {workers} workers, ledger {ledger}")
        say(f"           {conflicts(job.told)}")
        fill(replace(job, first=items), items, 1)
        say(f"  forward  {items / forward(at, items, scratch):7.1f} items a second, one worker, to a local drop")


def crowd(transport: str, items: int, workers: int, ledger: str) -> float:
    """A crowd on one drop: prints its conflicts."""
    with place(transport) as at, ledger_url(ledger) as url, tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        job = Job(at.address, Rules(), scratch / "effects", scratch / "told", url, ttl=30.0)
        fill(job, items, 4)
        took = drain(job, at.seen, items, workers)
        say(f"{transport}: {workers} workers on {items} items: {conflicts(job.told)}, {items / took:.1f} items a second")
        return took


def main(arguments: list[str]) -> int:
    """Runs the rows that were asked for."""
    # What is printed are the rows; a line for each item would be most of the output.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--transports", default=",".join(TRANSPORTS))
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ledger", default="sqlite")
    parser.add_argument("--crowd", type=int, default=0, help="only this: so many workers on one drop")
    parser.add_argument("--crowd-items", type=int, default=10_000)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and workers end with us
    for transport in options.transports.split(","):
        if options.crowd:
            crowd(transport, options.crowd_items, options.crowd, options.ledger)
        else:
            one_transport(transport, options.items, options.workers, options.ledger)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
