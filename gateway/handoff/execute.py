"""Running a command for each item: without a shell, on a verified copy, with the item's facts in its environment."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import ConfigurationError, DeliveryFailed, HandlerFailed
from gateway.handoff.consumer import Delivery
from gateway.handoff.contents import Progress, ignore_progress

_REASON_TAIL = 2000  # bytes of a failed command's error output that go into the reason
_STOP_GRACE = 5.0  # seconds a command has to end after it was told to
_TURN = 0.2  # seconds between two looks whether to go on waiting for a command


def split_command(text: str) -> tuple[str, ...]:
    """A command line as its words, as a POSIX shell would split it; nothing in it is expanded. Raises ConfigurationError."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigurationError(f"the command {text!r} cannot be split into words: {error}") from error
    if not words:
        raise ConfigurationError("the command is empty; give a program, and {} where the file's path should stand")
    return words


@dataclass(frozen=True, slots=True)
class ToCommand:
    """Runs a command for each item. `{}` becomes the path of the file; as a word of its own, the paths of all of them.

    The command gets DROPGATE_ITEM, _GROUP, _SEQUENCE, _KEY, _ATTEMPT, _REDELIVERED ("1" if an earlier run was cut short, so
    that its effect may be there), _REPLAY ("1" if a person has asked for the item again), _FILE (the first), _FILES (all,
    one a line), _SOURCE_NAME, and _META_<KEY> for each text, number, true or false of the manifest's meta. Exit status 0
    means processed. Its standard output goes to ours' standard error, since standard output is kept for results.
    """

    words: tuple[str, ...]
    progress: Progress = ignore_progress

    def __call__(self, delivery: Delivery) -> None:
        with tempfile.TemporaryDirectory(prefix="dropgate-") as folder:
            paths = [self._fetch(delivery, index, Path(folder)) for index in range(len(delivery.contents.payloads))]
            self._run(delivery, paths)

    def _fetch(self, delivery: Delivery, index: int, folder: Path) -> Path:
        payload = delivery.contents.payloads[index]
        path = folder / delivery.rules.grammar.format(payload.name)
        progress = self.progress
        with path.open("xb") as file:

            class Local:
                """Tells a full disk here from a fault of the item or its drop."""

                def write(self, data: bytes) -> None:
                    try:
                        file.write(data)
                    except OSError as error:
                        raise DeliveryFailed(f"no copy for the command can be made at {path}: {error.strerror}") from error
                    progress(len(data))

            delivery.fetch(payload, Local())
        return path

    def _run(self, delivery: Delivery, paths: list[Path]) -> None:
        arguments: list[str] = []
        for word in self.words:
            arguments.extend(map(str, paths) if word == "{}" else [word.replace("{}", str(paths[0]))])
        with tempfile.TemporaryFile() as complaints:
            try:
                # A group of its own: Ctrl-C at the terminal asks us to stop after this item, and must not kill its work.
                process = subprocess.Popen(
                    arguments,
                    env={**os.environ, **_facts(delivery, paths)},
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr.fileno(),
                    stderr=complaints,
                    process_group=0,
                )
            except OSError as error:
                raise ConfigurationError(f"the command {arguments[0]!r} cannot be run: {error.strerror}") from error
            try:
                status = self._wait(process)
            except BaseException:
                _end(process)
                raise
            complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - _REASON_TAIL))
            tail = complaints.read().decode("utf-8", "replace").strip()
        if status != 0:
            ended = f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
            raise HandlerFailed(f"{arguments[0]} ended with {ended}" + (f": {tail}" if tail else ""))
        delivery.outcome = f"{Path(arguments[0]).name}: exit status 0"

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        while True:
            try:
                return process.wait(_TURN)
            except subprocess.TimeoutExpired:
                self.progress(0)  # nothing has passed; but whoever wants this to end can say so only here


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _facts(delivery: Delivery, paths: list[Path]) -> dict[str, str]:
    manifest = delivery.contents.manifest
    digits = delivery.rules.grammar.digits(delivery.item.number)
    facts = {
        "ITEM": f"{delivery.item.group}{digits}",
        "GROUP": delivery.item.group,
        "SEQUENCE": digits,
        "KEY": delivery.key,
        "ATTEMPT": str(delivery.attempt),
        "REDELIVERED": "1" if delivery.redelivered else "",
        "REPLAY": "1" if delivery.replay else "",
        "FILE": str(paths[0]),
        "FILES": "\n".join(map(str, paths)),
        "SOURCE_NAME": delivery.contents.payloads[0].source_name or "",
    }
    for key, value in (manifest.meta if manifest is not None else {}).items():
        if isinstance(value, str | int | float) and key.isascii() and key.isidentifier():
            facts[f"META_{key.upper()}"] = json.dumps(value) if isinstance(value, bool) else str(value)
    # A NUL cannot be in an environment: such a value is a stranger's and has no honest use.
    return {f"DROPGATE_{name}": value.replace("\0", "") for name, value in facts.items()}
