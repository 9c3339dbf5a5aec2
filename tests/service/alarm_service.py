"""A board and its alarms as one service has them, whose rounds are made by hand."""

import base64
import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.handoff.clock import Clock
from gateway.service.alarms import Alarms
from gateway.service.alarms.limits import Rule
from gateway.service.alarms.watch import RULES
from gateway.service.board import Board
from gateway.service_sections import AlarmsSettings, ExpectSettings
from tests.service.alarm_tools import (
    HandClock,
    drop_view,
    snapshot_of,
)

ERRORS = "errors:outbox:orders_"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = base64.b64decode(SECRET.removeprefix("whsec_"))


class Impatient(random.Random):
    """Chance that makes every pause as short as can be."""

    def uniform(self, a: float, b: float) -> float:
        del b
        return a + 0.01


class Service:
    """A board and its alarms, started again and again on one state file. Its rounds are made by hand."""

    def __init__(self, folder: Path, clock: Clock | None = None, **settings: Any) -> None:
        self.folder, self.hand = folder, HandClock()
        self.clock = clock or self.hand.clock()
        self.settings = AlarmsSettings.model_validate(settings)
        self.expectations: list[ExpectSettings] = []
        self.rules: tuple[Rule, ...] = RULES
        self.state = folder / "state" / "alarms.json"
        self.alarms = self.start()

    def start(self) -> Alarms:
        """A new process: an empty board, and what the file keeps."""
        self.board = Board(self.clock.utc)
        self.alarms = Alarms(
            self.settings, self.expectations, self.board, self.clock, self.state, "shop", self.folder, self.rules
        )
        return self.alarms

    def restart(self) -> None:
        self.alarms.close()
        self.start()

    def see(self, *files: Any, name: str = "outbox", **more: Any) -> list[str]:
        """A look at a drop, and a round; the ids of what is on."""
        self.board.set_drop(drop_view(snapshot_of(*files), self.hand.now, name, **more))
        return self.round()

    def round(self) -> list[str]:
        self.alarms.look()
        return [alarm.id for alarm in self.alarms.current()]

    def pass_by(self, seconds: float, *files: Any) -> list[str]:
        """Looks, again and again, for so long."""
        for _ in range(4):
            self.hand.move(seconds / 4)
            self.see(*files)
        return [alarm.id for alarm in self.alarms.current()]


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(clock: Clock | None = None, **settings: Any) -> Service:
        made.append(Service(tmp_path, clock, **settings))
        return made[-1]

    yield make
    for service in made:
        service.alarms.close(timeout=30)


def hangs_until(let_go: threading.Event) -> Callable[[socket.socket], None]:
    """A receiver that takes a request and does not answer."""

    def wait(connection: socket.socket) -> None:
        del connection
        let_go.wait(60)

    return wait


def answers_after(let_go: threading.Event) -> Callable[[socket.socket], None]:
    """A receiver that takes its time."""

    def answer(connection: socket.socket) -> None:
        let_go.wait(60)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    return answer


def running(service: Service) -> Service:
    """Tells what there is to tell; rounds are still made by hand."""
    service.alarms._notifier.start()
    return service
