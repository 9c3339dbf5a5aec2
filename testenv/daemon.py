"""A container engine of our own: started where none answers, and stopped by the last test run that uses it.

Whoever may use the engine holds a shared lock. On leaving, each tries to get the lock for itself alone; who succeeds is the
last, and stops the engine if a test run has started it. So a run that was killed leaves that to the next.
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
_CGROUPS = Path("/sys/fs/cgroup")

# Where the kernel lacks what packet filtering takes, published ports still work: the engine forwards them itself.
_VARIANTS = ((), ("--iptables=false", "--ip6tables=false"))


class DaemonFailed(Exception):
    """The engine could not be started. The text says why."""


def _lock_file(name: str) -> TextIO:
    _STATE.mkdir(mode=0o700, exist_ok=True)
    return (_STATE / name).open("a", encoding="ascii")


@contextmanager
def in_use() -> Iterator[None]:
    """Keeps an engine that a test run has started from being stopped meanwhile; the last user stops it."""
    if os.geteuid() != 0:
        yield  # only root's runs start one
        return
    with _lock_file("in_use") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            yield
        finally:
            _leave(lock)


def ensure(say: Callable[[str], None], *, stop_at_end: bool) -> None:
    """An engine answers on return: it is installed and started if need be. To be called within `in_use`.

    With `stop_at_end` the last user stops the engine that was started here; else it stays.
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
        for flags in _VARIANTS:
            mark = _start(flags)
            if mark and stop_at_end:
                _MARK.write_text(mark, encoding="ascii")
            if mark:
                return
    said = _LOG.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise DaemonFailed(f"dockerd does not start: {said[-1] if said else 'it says nothing'} (all of it: {_LOG})")


def _install(say: Callable[[str], None]) -> None:
    if shutil.which("dockerd") is None:
        say("installing a container engine: " + " ".join(packages.ENGINE))
        packages.install(packages.ENGINE)
    if shutil.which("docker") is None:
        packages.install(("docker-cli",))  # a package of its own since Debian 13
    if not any(_CGROUPS.iterdir()):
        # No init system has done it. Where this fails too, the engine says so.
        packages.install(("cgroupfs-mount",))
        subprocess.run(["cgroupfs-mount"], timeout=60, check=False)


def _start(flags: tuple[str, ...]) -> str | None:
    """The mark of an engine that answers, or None; then the log tells more."""
    with _LOG.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            ["dockerd", f"--pidfile={_STATE / 'dockerd.pid'}", *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if engine.version():
            return owner.mark_of(process.pid)
        time.sleep(0.1)
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return None


def _leave(lock: TextIO) -> None:
    """Stops the engine if a test run has started it and nobody uses it any more."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # another one uses it, and will come here later
    if not _MARK.exists():
        return
    mark = _MARK.read_text(encoding="ascii")
    # A person may have put something on it meanwhile.
    if not owner.is_dead(mark) and engine.version() and engine.docker("ps", "--quiet").strip():
        return
    _MARK.unlink()
    if owner.is_dead(mark):
        return
    os.kill(owner.pid_of(mark), signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE
    while not owner.is_dead(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
