"""What can be done with one running server, however it runs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from testenv import probe
from testenv.spec import HOST, Kind, Service

START_PATIENCE = 60.0  # seconds; a loaded machine makes its accounts and keys slowly


class CannotStart(Exception):
    """A server did not come up. The text says why and what can be done."""


class Box(ABC):
    """One running server on `HOST:port`, which ends with `remove`."""

    def __init__(self, service: Service, port: int) -> None:
        self.service = service
        self.port = port

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """How it runs."""

    @property
    @abstractmethod
    def scripts(self) -> Path:
        """Where the files of compose/ are, as the server sees it."""

    @abstractmethod
    def alive(self) -> bool:
        """Whether its main process runs."""

    @abstractmethod
    def run(self, command: Sequence[str]) -> str:
        """The output of a command run as root beside the server. Raises `CannotStart` where it fails."""

    @abstractmethod
    def log(self) -> str:
        """The end of what the server has written."""

    @abstractmethod
    def restart(self) -> None:
        """Ends every process of the server and starts it anew on the same port; only volume 1 keeps its files."""

    @abstractmethod
    def remove(self) -> None:
        """Ends the server and leaves nothing of it. Does nothing a second time."""

    def wait(self) -> str:
        """Waits until the server answers, and gives what it says of itself. Raises `CannotStart`."""
        try:
            return probe.wait(self.service.probe, HOST, self.port, patience=START_PATIENCE, alive=self.alive)
        except probe.NotAnswering as error:
            raise CannotStart(f"the {self.service.name} server ({self.kind}) did not come up: {error}\n{self.log()}") from error

    def kill_sessions(self) -> None:
        """Kills each process that serves a connection; the server goes on listening."""
        self.run(["sh", str(self.scripts / self.service.folder / "kill-sessions.sh")])
