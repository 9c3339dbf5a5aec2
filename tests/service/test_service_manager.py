"""`dropgate run` under a service manager: it says when it is ready, that it is alive, and that it reloads."""

import signal
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import Service, service

CONFIGURATION = '[drop.out]\nurl = "out"\ngroups = ["orders_"]\n[drop.in]\nurl = "in"\n[[route]]\nfrom = "out"\nto = "in"\n'
WITHIN = 120.0  # seconds for one message, on a machine that has much else to do


class Manager:
    """What listens as systemd does."""

    def __init__(self, receiver: socket.socket) -> None:
        self._receiver = receiver

    def hears(self, wanted: str) -> None:
        """Waits for a message with this line; signs of life and status lines may come between, and nothing else."""
        while True:
            lines = self._receiver.recv(4096).decode().split("\n")
            if wanted in lines:
                return
            assert all(line.startswith(("WATCHDOG=", "STATUS=")) for line in lines), f"{lines} in place of {wanted}"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Service, Manager, Path]]:
    """The service of a unit with a watchdog of one second."""
    for name in ("out", "in"):
        (tmp_path / name).mkdir()
    config = tmp_path / "dropgate.toml"
    config.write_text(CONFIGURATION, encoding="utf-8")
    name = f"dropgate-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(WITHIN)
        receiver.bind("\0" + name)
        state = str(tmp_path / "state")
        with service(config, NOTIFY_SOCKET=f"@{name}", WATCHDOG_USEC="1000000", XDG_STATE_HOME=state) as started:
            yield started, Manager(receiver), config


def test_it_is_ready_alive_and_reloaded(running: tuple[Service, Manager, Path]) -> None:
    started, manager, config = running
    manager.hears("READY=1")
    for _ in range(3):
        manager.hears("WATCHDOG=1")

    started.process.send_signal(signal.SIGHUP)
    manager.hears("RELOADING=1")
    manager.hears("READY=1")

    # A file that cannot be used is refused, and the service is as ready as before.
    config.write_text(CONFIGURATION + "colour = 1\n", encoding="utf-8")
    manager.hears("RELOADING=1")
    manager.hears("READY=1")
    manager.hears("WATCHDOG=1")

    started.process.send_signal(signal.SIGTERM)
    manager.hears("STOPPING=1")
    assert started.process.wait(WITHIN) == 0, started.tail()
    assert "route.0.colour: this key is not known" in started.tail(), "and the log says why it was refused"
