"""A process that has loaded everything and forks a process for each job: as good as a new one, and begun at once.

It reads one request a line on its standard input and answers each with one line:

    start JOB WORK     the pid of a process that does it, MODULE:FUNCTION; WORK is pickled, in base64
    status PID         its exit status as `subprocess` counts it, or "running"

It ends, and takes all its processes along, when its standard input ends.
"""

import base64
import contextlib
import importlib
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable

import transports.sftp.connect
import transports.smb.connect
from tests.crash import jobs

_LOADED = (jobs, transports.sftp.connect, transports.smb.connect)  # with all that they import


def _found(job: str) -> Callable[[object], None]:
    module, _, name = job.partition(":")
    found: Callable[[object], None] = getattr(importlib.import_module(module), name)
    return found


def _do(job: str, work: str) -> None:
    status = 1
    try:
        os.close(0)
        os.dup2(2, 1)
        # Only ever from the test that started us.
        _found(job)(pickle.loads(base64.b64decode(work)))  # noqa: S301 - our own bytes
        status = 0
    except BaseException:  # noqa: BLE001 - told on standard error, and by the status
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _start(job: str, work: str) -> int:
    _found(job)  # loaded here once, and not in each of its processes
    pid = os.fork()
    if not pid:
        _do(job, work)
    return pid


def _status(pid: int, ended: dict[int, int]) -> str:
    if pid not in ended:
        found, status = os.waitpid(pid, os.WNOHANG)
        if not found:
            return "running"
        ended[pid] = os.waitstatus_to_exitcode(status)
    return str(ended[pid])


def main() -> None:
    """Serves until standard input ends."""
    started: list[int] = []
    ended: dict[int, int] = {}
    for line in sys.stdin:
        match line.split():
            case ["start", job, work]:
                started.append(_start(job, work))
                answer = str(started[-1])
            case ["status", pid]:
                answer = _status(int(pid), ended)
            case _:
                raise ValueError(line)
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()
    for pid in set(started) - set(ended):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
