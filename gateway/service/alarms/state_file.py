"""The file that keeps alarms, their memory and what was not yet told across restarts: replaced as a whole, or not at all."""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_VERSION = 1
_LARGEST = 64 * 2**20  # bytes: more is not of our making


class Damaged(Exception):
    """The file is there, and is not what dropgate wrote. It says what is wrong, and where the file was put."""


def default_state_file() -> Path:
    """The file of this user on this host, in the place where programs keep their state."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dropgate" / "alarms.json"


@dataclass(frozen=True, slots=True)
class StateFile:
    """One file, for one process at a time."""

    path: Path

    def load(self) -> Mapping[str, Any]:
        """What was saved last; nothing, where nothing was. Raises Damaged, and OSError where the file cannot be read."""
        try:
            with self.path.open("rb") as file:
                data = file.read(_LARGEST + 1)
        except FileNotFoundError:
            return {}
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            raise Damaged(f"{self.path} is not JSON; {self.put_aside()}") from None
        if not isinstance(found, dict) or found.get("version") != _VERSION:
            raise Damaged(f"{self.path} is not of version {_VERSION}; {self.put_aside()}")
        return found

    def put_aside(self) -> str:
        """Moves the file out of the way, and says what became of it. Raises OSError."""
        aside = self.path.with_name(f"{self.path.name}.damaged")
        self.path.replace(aside)
        return f"it was moved to {aside}, and a new one is begun"

    def save(self, value: Mapping[str, Any]) -> None:
        """Replaces the file. After an OSError the former content is there still."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self.path.with_name(f"{self.path.name}.new")
        try:
            # Texts of alarms name hosts and paths: for this user alone.
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(json.dumps({"version": _VERSION, **value}).encode())
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
