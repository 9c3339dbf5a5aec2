"""Starting the processes of a crash test, and what is done to them."""

import base64
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from testenv.spec import ROOT
from tests.crash.jobs import Work

PATIENCE = 60.0  # seconds for anything to come about
Job = Callable[[Any], None]


def wait_until(seen: Callable[[], object], what: str, within: float = PATIENCE) -> float:
    """Returns once something can be seen, and how long that took. Fails where it does not come about."""
    begun = time.monotonic()
    while not seen():
        assert time.monotonic() - begun < within, f"{what}: not within {within:g} s"
        time.sleep(0.01)
    return time.monotonic() - begun


class Nursery:
    """Where processes come from."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def ask(self, *words: str) -> str:
        """One request and its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """Ends it, and every process that it has started."""
        self._process.communicate(timeout=PATIENCE)


@dataclass(frozen=True)
class Process:
    """One process."""

    pid: int
    nursery: Nursery

    @property
    def status(self) -> int | None:
        """Its exit status; None: it runs."""
        answer = self.nursery.ask("status", str(self.pid))
        return None if answer == "running" else int(answer)

    def join(self) -> int:
        """Waits for its end."""
        wait_until(lambda: self.status is not None, f"the end of process {self.pid}")
        status = self.status
        assert status is not None
        return status


class Crew:
    """The processes of one test, which end with it, whatever becomes of it."""

    def __init__(self, nursery: Nursery, harm: Counter[str]) -> None:
        self.harm = harm
        self._nursery = nursery
        self._processes: list[Process] = []

    def start(self, job: Job, work: Work) -> Process:
        """A process of its own: nothing of this one is in it."""
        pid = self._nursery.ask("start", f"{job.__module__}:{job.__name__}", base64.b64encode(pickle.dumps(work)).decode())
        self._processes.append(Process(int(pid), self._nursery))
        return self._processes[-1]

    def run(self, job: Job, work: Work) -> bool:
        """Runs a job to its end; False where it has killed itself on the way."""
        status = self.start(job, work).join()
        assert status in (0, -signal.SIGKILL), f"{job.__name__} ended with {status}"
        self.harm["kills"] += status != 0
        return status == 0

    def kill(self, process: Process) -> None:
        """SIGKILL."""
        self.harm["kills"] += process.status is None
        self._signal(process, signal.SIGKILL)
        process.join()

    def freeze(self, process: Process) -> None:
        """SIGSTOP."""
        self._signal(process, signal.SIGSTOP)
        self.harm["freezes"] += 1

    def thaw(self, process: Process) -> None:
        """SIGCONT."""
        self._signal(process, signal.SIGCONT)

    def stop(self, *processes: Process) -> None:
        """Asks them to end, as a service manager does."""
        for process in processes:
            self._signal(process, signal.SIGTERM)
        for process in processes:
            status = process.join()
            # One that was started a moment ago cannot listen yet: it ends by the signal, and holds nothing.
            assert status in (0, -signal.SIGTERM), f"it was asked to stop, and ended with {status}"

    def end(self) -> None:
        """Kills whatever still runs."""
        for process in self._processes:
            self._signal(process, signal.SIGKILL)
            process.join()

    def _signal(self, process: Process, number: signal.Signals) -> None:
        # Of one that has ended the number may be somebody else's by now.
        if process.status is None:
            os.kill(process.pid, number)
