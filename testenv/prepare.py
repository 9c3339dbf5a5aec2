"""Makes this machine ready to run the test servers: packages, an engine, images. Quick where all of it is there.

    python -m testenv.prepare COMMAND...

runs a command when everything is ready, and ends as it did; an engine that was started for it is stopped by its last user.
Without a command such an engine stays, for test runs by hand; its pid is in /run/dropgate-testenv/dockerd.pid.
"""

import os
import signal
import subprocess
import sys

from testenv import daemon, engine, images, packages
from testenv.choice import VARIABLE

_NO_CONTAINERS = (
    packages.InstallFailed,
    daemon.DaemonFailed,
    images.CannotBuild,
    engine.EngineFailed,
    subprocess.SubprocessError,  # a tool that did not end in its time
)


class CannotPrepare(Exception):
    """No test server can be run here. The text says why, and what can be done."""


def _say(text: str) -> None:
    sys.stderr.write(f"testenv: {text}\n")
    sys.stderr.flush()


def prepare(*, stop_at_end: bool) -> None:
    """Everything that `DROPGATE_TEST_SERVERS` asks for is there on return. To be called within `daemon.in_use`.

    `stop_at_end` is that of `daemon.ensure`. Where `auto` is asked for and containers cannot be had, that becomes `process`,
    and the reason is told. Raises `CannotPrepare`.
    """
    lacking = packages.missing((*packages.SERVERS, *packages.BROWSER)) if packages.may_install() else []
    if lacking:
        _say("installing " + " ".join(lacking))
        try:
            packages.install(lacking)
        except packages.InstallFailed as error:
            raise CannotPrepare(str(error)) from error
    wanted = os.environ.get(VARIABLE) or "auto"
    if wanted == "process":
        return
    try:
        daemon.ensure(_say, stop_at_end=stop_at_end)
        images.build_missing(_say)
    except _NO_CONTAINERS as error:
        if wanted == "container":
            raise CannotPrepare(f"{VARIABLE}=container, but {error}") from error
        _say(f"no containers here, so the servers run as plain processes: {error}")
        os.environ[VARIABLE] = "process"


def _run(command: list[str]) -> int:
    """Runs the command; a signal that ends a run ends the command first."""
    process: subprocess.Popen[bytes] | None = None
    asked = False

    def end_the_command(*_: object) -> None:
        nonlocal asked
        asked = True
        if process is not None:
            process.send_signal(signal.SIGINT)

    # Before the command is there: a signal may come while it is being started. Functions, since a command would inherit
    # that a signal is ignored. Ctrl-C reaches the command by itself; it cleans up, and this process has to wait for that.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, end_the_command)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    if asked:
        process.send_signal(signal.SIGINT)
    code = process.wait()
    return code if code >= 0 else 128 - code


def main(command: list[str]) -> int:
    """Prepares, and runs the command if there is one. The exit code is the command's."""
    # So that what was begun is cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with daemon.in_use():
        try:
            prepare(stop_at_end=bool(command))
        except CannotPrepare as error:
            _say(f"cannot run the test servers: {error}")
            return 1
        return _run(command) if command else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
