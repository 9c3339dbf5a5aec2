"""The installed command as a real process: what it prints, how it ends, and how it takes signals."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli.main import app
from tests.e2e.commands import DROPGATE, clean_environment

WITHIN = 90.0  # seconds, for a machine that has much else to do


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Its standard output as JSON, one object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Place:
    """A folder to stand in, of a user who has no settings of any kind."""

    folder: Path
    home: Path

    @property
    def own(self) -> dict[str, str]:
        """What keeps this user's settings and state apart from those of whoever runs the tests."""
        return {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
        }

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a command."""
        kept = clean_environment(**self.own, **more)
        kept.pop("SSH_AUTH_SOCK", None)
        return kept

    def run(self, *words: str, within: float = WITHIN, environment: Mapping[str, str] | None = None) -> Ended:
        """One command to its end."""
        done = subprocess.run(
            [DROPGATE, *words],
            cwd=self.folder,
            env=self.environment(**(environment or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=within,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def done(self, *words: str, **environment: str) -> Ended:
        """One command that does what it is asked, without a word of complaint."""
        ended = self.run(*words, environment=environment)
        assert (ended.code, ended.err) == (0, "")
        return ended

    def call(self, *words: str) -> Ended:
        """One command within this process, where a process of its own would only take time."""
        with contextlib.chdir(self.folder), pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.upper().startswith("DROPGATE_")]:
                patch.delenv(name)
            for name, value in self.own.items():
                patch.setenv(name, value)
            result = CliRunner().invoke(app, list(words))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    def called(self, *words: str) -> Ended:
        """The same, of a command that does what it is asked."""
        ended = self.call(*words)
        assert (ended.code, ended.err) == (0, "")
        return ended

    @contextmanager
    def started(self, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on until it is told to stop; it is killed where the test forgets to."""
        process = subprocess.Popen(
            [DROPGATE, *words],
            cwd=self.folder,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()  # not read to its end: a command that was left behind may hold the other one

    def write(self, name: str, data: bytes | str = b"content\n") -> str:
        """A file in the folder; its name."""
        path = self.folder / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return name

    def drop(self, name: str = "drop") -> Path:
        """An empty folder that is to be a drop."""
        path = self.folder / name
        path.mkdir()
        return path


def names(folder: Path) -> list[str]:
    """What `ls` shows, less counters, leases and empty folders."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    return sorted(name for name in found if not name.rpartition("/")[2].startswith(("S_", "L_")))


def until(true: Callable[[], object], what: str, within: float = WITHIN) -> None:
    """Waits for something that a process of ours is about to do."""
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def ended(process: subprocess.Popen[str], within: float = WITHIN) -> Ended:
    """How a process that was started comes to its end."""
    out, err = process.communicate(timeout=within)
    return Ended(process.returncode, out, err)


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C."""
    process.send_signal(signal.SIGINT)


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
