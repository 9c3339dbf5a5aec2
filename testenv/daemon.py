"""A container engine of our own: started where none answers, and stopped by the last test run that uses it.

Each run holds a shared lock while it may use the engine. Who can get the lock for itself alone is the last one, and stops the
engine if one of the runs has started it; so a run that was killed leaves it to the next.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from testenv import engine, owner, packages

_STATE = Path("/run/dropgate-testenv")
_MARK = _STATE / "dockerd.owner"  # who the engine is, where it is ours
_LOG = _STATE / "dockerd.log"
_PATIENCE = 60.0  # seconds for the engine to come up, or to end

# Where the kernel lacks what packet filtering takes, published ports still work: the engine forwards them itself.
_VARIANTS = ((), ("--iptables=false", "--ip6tables=false"))


class DaemonFailed(Exception):
    """The engine could not be started. The text says why."""


def _lock_file(name: str) -> TextIO:
    _STATE.mkdir(mode=0o700, exist_ok=True)
    return (_STATE / name).open("a", encoding="ascii")


@contextmanager
def in_use() -> Iterator[None]:
    """Keeps an engine that a test run has started from being stopped meanwhile."""
    if os.geteuid() != 0:
        yield  # only root's runs start one
        return
    with _lock_file("in_use") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def ensure(say: Callable[[str], None]) -> None:
    """An engine answers on return: it is installed and started if need be. To be called within `in_use`.

    Raises `DaemonFailed`, `packages.InstallFailed`.
    """
    if engine.version():
        return
    if os.geteuid() != 0:
        raise DaemonFailed("no container engine answers, and only root can start one")
    with _lock_file("starting") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if engine.version():
            return  # another run was faster
        _install(say)
        say("starting dockerd")
        if any(_start(flags) for flags in _VARIANTS):
            return
    said = _LOG.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise DaemonFailed(f"dockerd does not start: {said[-1] if said else 'it says nothing'} (all of it: {_LOG})")


def _install(say: Callable[[str], None]) -> None:
    if shutil.which("dockerd") is None:
        say("installing a container engine: " + " ".join(packages.ENGINE))
        packages.install(packages.ENGINE)
    if shutil.which("docker") is None:
        packages.install(("docker-cli",))  # a package of its own since Debian 13


def _start(flags: tuple[str, ...]) -> bool:
    with _LOG.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            ["dockerd", f"--pidfile={_STATE / 'dockerd.pid'}", *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _MARK.write_text(owner.mark_of(process.pid), encoding="ascii")
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if engine.version():
            return True
        time.sleep(0.1)
    process.kill()
    process.wait()
    return False


def stop_if_ours() -> None:
    """Stops the engine if a test run has started it and nobody uses it any more. Does nothing otherwise."""
    if os.geteuid() != 0 or not _MARK.exists():
        return
    with _lock_file("in_use") as lock:
        if not _lock_alone(lock):
            return  # another run uses it, and will stop it
        mark = _MARK.read_text(encoding="ascii")
        # A person may have put something on it meanwhile.
        if owner.is_dead(mark) or (engine.version() and engine.docker("ps", "--quiet").strip()):
            return
        pid = owner.pid_of(mark)
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE
        while not owner.is_dead(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        _MARK.unlink()


def _lock_alone(lock: TextIO) -> bool:
    """Takes the lock for this process alone, within the time that keepers take to clean up."""
    deadline = time.monotonic() + 30
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        else:
            return True
