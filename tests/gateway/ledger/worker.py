"""One process of a crowd that shares a ledger: `python -m tests.gateway.ledger.worker JOB URL NAME NUMBER KEEP`.

It says "ready" when the ledger is open, begins when it is told to by a line on its standard input, and prints what came of
it as one line of JSON. `crowd` starts such processes.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from gateway.handoff.clock import Clock
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.errors import LedgerMoved
from gateway.handoff.ledger.journal import JournalLedger
from gateway.handoff.ledger.open import open_ledger
from protocol.ledger import LedgerState
from tests.gateway.ledger.places import TEAM, entry

Job = Callable[[Ledger, str, int], object]


def say(text: str) -> None:
    """One line to whoever started us."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def win(ledger: Ledger, name: str, keys: int) -> list[int]:
    """Tries to be the first for each key; tells which it got."""
    return [n for n in range(keys) if ledger.compare_and_set(f"key {n}", None, entry(n, owner=name))]


def count(ledger: Ledger, name: str, times: int) -> list[int]:
    """Raises one key's generation so many times; tells to which it was raised by us."""
    raised: list[int] = []
    while len(raised) < times:
        read = ledger.read("hot")
        following = entry(1, owner=name, generation=read.generation + 1 if read else 1)
        if ledger.compare_and_set("hot", read, following):
            raised.append(following.generation)
    return raised


def write(ledger: Ledger, name: str, keys: int) -> str:
    """Takes keys of its own through all their states, and says after each what was recorded."""
    for number in range(keys):
        started = entry(number, owner=name)
        done = replace(started, state=LedgerState.DONE, result="x" * 200)
        for before, after in ((None, started), (started, done), (done, replace(done, state=LedgerState.ARCHIVED))):
            if not ledger.compare_and_set(f"{name} {number}", before, after):
                return f"lost {name} {number}"
            say(json.dumps([f"{name} {number}", after.state.value]))
    return "all"


def take_part(ledger: Ledger, name: str, keys: int) -> str:
    """Runs a handler for key after key, whose effect is a row of its own table. Waits for a line before each commit."""
    from sqlalchemy import text

    for number in range(keys):
        key = f"{name} {number}"
        started = entry(number, owner=name)
        ledger.compare_and_set(key, None, started)
        try:
            with ledger.transaction(key, started, "booked") as connection:
                connection.execute(text("INSERT INTO bookings VALUES (:key)"), {"key": key})
                say(json.dumps("effect"))
                sys.stdin.readline()
        except LedgerMoved:
            return "moved"
    return "all"


def fork(ledger: Ledger, name: str, keys: int) -> list[int]:
    """Forks, and has parent and child fight for each key with the ledger that was open before; tells what both got."""
    ledger.read("connected")
    reads, writes = os.pipe()
    child = os.fork()
    won = win(ledger, f"{name}-child" if child == 0 else name, keys)
    if child == 0:
        os.write(writes, json.dumps(won).encode())
        os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)
    with open(reads, encoding="ascii") as said:
        childs: list[int] = json.loads(said.read())
    return won + childs


JOBS: dict[str, Job] = {job.__name__: job for job in (win, count, write, take_part, fork)}


def open_small(url: str, keep: int) -> Ledger:
    """The ledger; a journal that is compacted every few lines, and of whose older files `keep` bytes stay."""
    if url.startswith("journal://"):
        return JournalLedger(Path(url.removeprefix("journal://")), TEAM, Clock(), compact_at=4096, keep=keep)
    return open_ledger(url, TEAM)


def main(job: str, url: str, name: str, number: str, keep: str) -> None:
    """Does one job."""
    with closing(open_small(url, int(keep))) as ledger:
        say("ready")
        sys.stdin.readline()
        say(json.dumps(JOBS[job](ledger, name, int(number))))


if __name__ == "__main__":
    main(*sys.argv[1:])
