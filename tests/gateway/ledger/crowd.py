"""Starts processes that share a ledger, lets them go at one moment, and collects what they say."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from testenv.spec import ROOT

ALL = 1 << 30  # bytes
PATIENCE = 120  # seconds for one of them to end


class Process:
    """One process of `worker`, which is killed with the `with` block of its crowd at the latest."""

    def __init__(self, job: str, url: str, name: str, number: int, keep: int) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.ledger.worker", job, url, name, str(number), str(keep)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout

    def wait_ready(self) -> None:
        """Returns when it is about to begin."""
        assert self._out.readline() == "ready\n"

    def go(self) -> None:
        """Lets it begin."""
        self._in.write("go\n")
        self._in.flush()

    def line(self) -> Any:
        """What it says next; None: it has ended."""
        line = self._out.readline()
        return json.loads(line) if line.endswith("\n") else None

    def lines(self) -> list[Any]:
        """All that it still says, to its end."""
        said = list(iter(self.line, None))
        self._process.wait(PATIENCE)
        return said

    def result(self) -> Any:
        """What came of its job."""
        said = self.lines()
        assert self._process.returncode == 0, f"{self.name} ended with {self._process.returncode}"
        return said[-1]

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self._process.send_signal(number)

    def end(self) -> None:
        """Kills it if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
        self._in.close()
        self._out.close()


@contextmanager
def crowd(job: str, url: str, names: Sequence[str], number: int, *, keep: int = ALL) -> Iterator[list[Process]]:
    """So many processes, all of which began at the same moment."""
    processes = [Process(job, url, name, number, keep) for name in names]
    try:
        for process in processes:
            process.wait_ready()
        for process in processes:
            process.go()
        yield processes
    finally:
        for process in processes:
            process.end()
