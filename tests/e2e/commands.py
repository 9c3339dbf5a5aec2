"""The command `dropgate` as a user runs it: processes of their own, found beside this Python."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DROPGATE = str(Path(sys.executable).with_name("dropgate"))
_STOP_WITHIN = 60.0  # seconds, to finish the item at hand


def clean_environment(**more: str) -> dict[str, str]:
    """This process' environment, less whatever would configure dropgate."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("DROPGATE_")}
    return kept | more


def dropgate(*words: str, cwd: Path, environment: Mapping[str, str] | None = None, within: float = 120.0) -> str:
    """Runs one command to its end, which must be exit 0, and gives its standard output."""
    done = subprocess.run(
        [DROPGATE, *words],
        cwd=cwd,
        env=environment or clean_environment(),
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    assert done.returncode == 0, f"dropgate {words[0]} ended with {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


class Service:
    """A `dropgate run` that is running; its log is in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def tail(self) -> str:
        """The end of its log, for a failure's message."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]

    def stop(self) -> int:
        """Asks it to end as a service manager does, and gives its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_WITHIN)


@contextmanager
def service(config: Path, **environment: str) -> Iterator[Service]:
    """Runs the routes of a configuration for as long as the block lasts, unless it was stopped before."""
    log = config.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [DROPGATE, "run", str(config)], env=clean_environment(**environment), stderr=output, process_group=0
        )
        try:
            yield Service(process, log)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
