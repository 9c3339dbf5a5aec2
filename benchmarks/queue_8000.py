"""A queue of 8000 tasks in a plain directory, six workers, two of them killed with -9 on the way: is anything lost?

    python benchmarks/queue_8000.py --workers 6 --kill 2 --transport local|sftp|smb
    python benchmarks/queue_8000.py --layout folders --names novye,v-rabote,gotovo,bityye --ledger journal

Each victim is killed while it holds a claim, so that there is an orphan. Ends with 0 where nothing was lost and no effect
was repeated, with 1 else.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

from benchmarks.crew import GROUP, Job, key_of, produce, read_lines, shares, start, work
from benchmarks.places import LEDGERS, TRANSPORTS, Place, ledger_url, place, say
from protocol.layout import DEFAULT_FOLDERS, FolderLayout, PrefixLayout
from protocol.names import Name
from protocol.rules import Rules
from protocol.snapshot import Listed, take_snapshot
from protocol.states import State

_LOOK = 0.2  # seconds between two looks at the folder
_PATIENCE = 5400.0  # seconds for all of it, on a machine that has much else to do
_CHASE = 60.0  # seconds to catch a victim with a claim
_RUN = 0.02  # seconds that it may go on between two tries: a long listing must come to its end on the way


@dataclass(slots=True)
class Found:
    """What came of it."""

    seconds: float = 0.0
    orphans: list[Name] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)


def folder_layout(names: str) -> FolderLayout:
    """The folder layout; four names leave that of the files being written as it is."""
    given = tuple(names.split(",")) if names else DEFAULT_FOLDERS
    return FolderLayout(names=given if len(given) != 4 else (DEFAULT_FOLDERS[0], *given))


def paths(seen: Path) -> list[str]:
    """Every file of the drop."""
    found = []
    for folder, _, names in os.walk(seen):
        found += [os.path.relpath(os.path.join(folder, name), seen) for name in names]
    return found


def in_state(seen: Path, rules: Rules, state: State) -> list[Name]:
    """The tokens in one state, as `ls` shows them."""
    names = map(rules.layout.parse, paths(seen))
    return [name for name in names if isinstance(name, Name) and name.state is state and rules.is_token(name.kind)]


def done_so_far(seen: Path, rules: Rules) -> int:
    """How many tasks are finished: by the names alone, as it is asked all the time."""
    folder = rules.layout.folder_of(State.AFTER)
    mark = "" if folder else "A_"
    return sum(n.startswith(f"{mark}{GROUP}") and n.endswith(".manifest.json") for n in os.listdir(seen / folder))


def held_by(pid: int, seen: Path, rules: Rules) -> list[Name]:
    """The claims of one process."""
    claims = rules.layout.claims_folder
    found = [p.relative_to(seen).as_posix() for p in seen.glob(f"{claims}/*-{pid}-*/*" if claims else f"C_*-{pid}-*")]
    return [name for name in map(rules.layout.parse, found) if isinstance(name, Name)]


def kill_with_a_claim(victim: BaseProcess, seen: Path, rules: Rules) -> list[Name]:
    """Freezes a worker until it holds something, and kills it. Returns what it held."""
    assert victim.pid is not None  # noqa: S101 - it was started
    held: list[Name] = []
    end = time.monotonic() + _CHASE
    while not held and time.monotonic() < end:
        os.kill(victim.pid, signal.SIGCONT)
        time.sleep(_RUN)
        os.kill(victim.pid, signal.SIGSTOP)
        held = held_by(victim.pid, seen, rules)
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    return held


def run(options: argparse.Namespace, at: Place, job: Job) -> Found:
    """Works the whole queue off. Raises TimeoutError where it does not end."""
    found = Found()
    begun = time.monotonic()
    crew = [start(work, job) for _ in range(options.workers)]
    try:
        kills = [options.tasks * (n + 1) // (options.kill + 2) for n in range(options.kill)]
        while (done := done_so_far(at.seen, job.rules)) < options.tasks:
            if time.monotonic() - begun > _PATIENCE:
                raise TimeoutError(f"only {done} of {options.tasks} tasks were done in {_PATIENCE:g} s")
            if kills and done >= kills[0]:
                del kills[0]
                found.orphans += kill_with_a_claim(crew.pop(0), at.seen, job.rules)
                if options.restart:
                    crew.append(start(work, job))
            time.sleep(_LOOK)
        found.seconds = time.monotonic() - begun
        for process in crew:
            process.terminate()
        for process in crew:
            process.join(60)
    finally:
        for process in crew:
            if process.is_alive():
                process.kill()
                process.join()
    return found


def judge(options: argparse.Namespace, at: Place, job: Job, found: Found) -> int:
    """Prints what came of it, and returns the exit code."""
    there = paths(at.seen)
    shot = take_snapshot([Listed(path, True, False, 0, None) for path in there], job.rules)
    states = Counter("none" if view.state is None else view.state.word for view in shot.items.values())
    claims = len(in_state(at.seen, job.rules, State.CLAIMED))
    effects = Counter(line["key"] for line in read_lines(job.effects))
    lost = sum(effects[key_of(number)] == 0 for number in range(options.tasks)) + options.tasks - states["after"]
    duplicates = sum(count - 1 for count in effects.values())
    after = {name.item for name in in_state(at.seen, job.rules, State.AFTER)}
    returned = sum(name.item in after for name in found.orphans)
    told = list(read_lines(job.told))
    tries, conflicts = (sum(line[key] for line in told) for key in ("claims", "conflicts"))
    say(f"lost {lost}")
    say(f"duplicate effects {duplicates}")
    say(f"orphans returned {returned} of {len(found.orphans)}")
    say(f"told that an earlier run was cut, and looked before repeating: {sum(line['looked'] for line in told)}")
    say(f"time {found.seconds:.1f} s, {options.tasks / found.seconds:.0f} tasks a second")
    say(f"claims {tries}, conflicts {conflicts} ({conflicts / max(tries, 1):.1%}); listings {sum(t['listings'] for t in told)}")
    say(f"left: claims {claims}, leases {len(shot.leases)}, states {dict(states)}")
    # The lease of a worker that was killed goes with the next sweep, and nobody is left to make it.
    good = lost == duplicates == claims == 0 and len(shot.leases) <= options.kill
    return 0 if good and returned == len(found.orphans) == options.kill else 1


def produce_all(options: argparse.Namespace, job: Job) -> float:
    """Hands all tasks over, and returns the seconds that it took."""
    begun = time.monotonic()
    producers = [start(produce, replace(job, first=f, count=c)) for f, c in shares(options.tasks, options.producers)]
    for producer in producers:
        producer.join()
    if any(producer.exitcode for producer in producers):
        raise RuntimeError("a producer failed; it has said why")
    return time.monotonic() - begun


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--kill", type=int, default=2, help="so many are killed on the way")
    parser.add_argument("--restart", action="store_true", help="each that was killed is started again")
    parser.add_argument("--producers", type=int, default=4)
    parser.add_argument("--transport", choices=TRANSPORTS, default="local")
    parser.add_argument("--layout", choices=("prefix", "folders"), default="prefix")
    parser.add_argument("--names", default="", help="of the folders: five, or four that leave the first at its default")
    parser.add_argument("--ledger", choices=LEDGERS, default="sqlite")
    parser.add_argument("--ttl", type=float, default=10.0, help="seconds")
    options = parser.parse_args(arguments)
    if options.kill >= options.workers and not options.restart:
        parser.error("somebody has to be left to do the work")
    return options


def main(arguments: list[str]) -> int:
    """Runs it."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and workers end with us
    rules = Rules(folder_layout(options.names) if options.layout == "folders" else PrefixLayout())
    with place(options.transport) as at, ledger_url(options.ledger) as ledger, tempfile.TemporaryDirectory() as scratch:
        job = Job(at.address, rules, Path(scratch) / "effects", Path(scratch) / "told", ledger, options.ttl)
        say(f"{options.transport} ({at.server}), layout {options.layout}, ledger {options.ledger}")
        seconds = produce_all(options, job)
        say(f"{options.tasks} tasks handed over in {seconds:.1f} s, by {options.producers} producers")
        return judge(options, at, job, run(options, at, job))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
