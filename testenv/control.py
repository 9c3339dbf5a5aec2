"""The test run's side of the keeper: start it, ask it, end it."""

import json
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testenv.spec import ROOT, Name

_PATIENCE = 180.0  # seconds for one answer; starting a server is the longest


class ServerNotAvailable(Exception):
    """A test server could not be started, or could not do what it was asked."""


def ask(control: Path, do: str, server: Name) -> dict[str, Any]:
    """One request to the keeper that listens at `control`, from any process. Raises `ServerNotAvailable`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE)
        connection.connect(str(control))
        connection.sendall(json.dumps({"do": do, "server": server}).encode() + b"\n")
        with connection.makefile("rb") as stream:
            line = stream.readline()
    if not line:
        raise ServerNotAvailable("the process that keeps the test servers has ended")
    reply: dict[str, Any] = json.loads(line)
    if "error" in reply:
        raise ServerNotAvailable(reply["error"])
    ok: dict[str, Any] = reply["ok"]
    return ok


class KeeperProcess:
    """A keeper, which ends with `close` or with this process."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Starts it, with `environment` in place of this process' own."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "testenv.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            env=environment,
            # Ctrl-C goes to a whole session; the keeper has to outlive the tests to clean up after them.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            self.close()
            raise ServerNotAvailable("the process that keeps the test servers did not start; it has said why on standard error")
        self.control = Path(line)

    @property
    def pid(self) -> int:
        """The process that the servers belong to."""
        return self._process.pid

    def start(self, server: Name) -> dict[str, Any]:
        """The facts of a server (`keeper.Facts`), which runs on return. Raises `ServerNotAvailable`."""
        return ask(self.control, "start", server)

    def close(self) -> None:
        """Has everything removed, and returns when it is."""
        # A word, not only the end of its input: a forked child may hold the other end of the pipe open.
        self._process.communicate("end\n", timeout=60)
