"""Telling of an alarm by a command: without a shell, with the event on its standard input, and bounded in time."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from typing import IO

from gateway.service.alarms.channel import NotTold
from gateway.service.alarms.event import Event

_LONGEST_RUN = 30.0  # seconds
_TURN = 0.1  # seconds between two looks whether to go on waiting
_TAIL = 500  # bytes of its error output that are told
_PREFIX = "DROPGATE_"


@dataclass(frozen=True, slots=True)
class Command:
    """Runs a program for each event. Exit status 0 means told.

    It gets the CloudEvent on its standard input, and DROPGATE_ALARM_CHANGE (fired, worse, cleared), _ID, _KIND, _ABOUT, _TITLE,
    _TEXT, _SINCE and _SEVERITY. No other variable of our prefix reaches it: they may hold passwords.
    """

    words: tuple[str, ...]
    instance: str
    longest: float = _LONGEST_RUN

    def __call__(self, event: Event, stop: threading.Event) -> None:
        """Runs it to its end. Raises NotTold where it cannot be run, fails, takes too long, or is stopped."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as complaints:
            given.write(event.as_json(self.instance))
            given.seek(0)
            try:
                # A group of its own: what it has started ends with it, and Ctrl-C at the terminal is not for it.
                process = subprocess.Popen(
                    self.words,
                    env=_environment(event),
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=complaints,
                    process_group=0,
                )
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "its words cannot be passed on"
                raise NotTold(f"the command {self.words[0]!r} cannot be run: {why}") from error
            try:
                status = self._wait(process, stop)
            finally:
                _end(process)
            if status != 0:
                ended = f"exit status {status}" if status > 0 else f"signal {-status}"
                tail = _tail(complaints)
                raise NotTold(f"the command {self.words[0]!r} ended with {ended}" + (f": {tail}" if tail else ""))

    def _wait(self, process: subprocess.Popen[bytes], stop: threading.Event) -> int:
        waited = 0.0
        while waited < self.longest and not stop.is_set():
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(_TURN)
            waited += _TURN
        late = f"took longer than {self.longest:g} s" if not stop.is_set() else "was stopped with dropgate"
        raise NotTold(f"the command {self.words[0]!r} {late}, and was ended")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever is left of it and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _environment(event: Event) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
    facts = {"change": event.change.value, **event.facts()}
    # A NUL cannot be in an environment, and a lone surrogate is no text.
    clean = {name: value.replace("\0", "").encode("utf-8", "replace").decode() for name, value in facts.items()}
    return kept | {f"{_PREFIX}ALARM_{name.upper()}": value for name, value in clean.items()}


def _tail(complaints: IO[bytes]) -> str:
    complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - _TAIL))
    return complaints.read().decode("utf-8", "replace").strip()
