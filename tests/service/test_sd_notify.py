"""The service manager is told what happens, by a real datagram socket, and a manager that is not there disturbs nothing."""

import contextlib
import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.service.sd_notify import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest) -> Iterator[tuple[str, socket.socket]]:
    """A service manager's address, and its end of it."""
    # Short: the path of a socket has at most 107 bytes.
    name = f"dropgate-{uuid.uuid4().hex}"
    bound, told = (f"\0{name}", f"@{name}") if request.param == "abstract" else (f"/tmp/{name}", f"/tmp/{name}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(10)
        receiver.bind(bound)
        yield told, receiver
    Path(told).unlink(missing_ok=True)


def test_each_message_arrives_as_the_manager_reads_it(manager: tuple[str, socket.socket]) -> None:
    address, receiver = manager
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": address})
    notifier.ready()
    assert receiver.recv(4096) == b"READY=1"
    notifier.stopping()
    assert receiver.recv(4096) == b"STOPPING=1"
    notifier.watchdog()
    assert receiver.recv(4096) == b"WATCHDOG=1"
    notifier.status("2 routes,\n 1 away: é")
    assert receiver.recv(4096).decode() == "STATUS=2 routes, 1 away: é", "a line break would begin another field"


def test_a_reload_says_when_it_began(manager: tuple[str, socket.socket]) -> None:
    address, receiver = manager
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    Notifier.from_environment({"NOTIFY_SOCKET": address}).reloading()
    first, second = receiver.recv(4096).decode().split("\n")
    assert first == "RELOADING=1"
    name, _, moment = second.partition("=")
    assert name == "MONOTONIC_USEC"
    assert before <= int(moment) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


@pytest.mark.parametrize(
    ("variables", "interval"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_wants_a_sign_twice_as_often_as_it_looks(variables: dict[str, str], interval: float | None) -> None:
    assert Notifier.from_environment({"NOTIFY_SOCKET": "@x", **variables}).interval == interval


@pytest.mark.parametrize("variables", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1", "WATCHDOG_USEC": "1000000"}])
def test_without_a_manager_nothing_is_told_and_nobody_watches(variables: dict[str, str]) -> None:
    notifier = Notifier.from_environment(variables)
    assert notifier == Notifier("", None)
    notifier.ready()
    notifier.watchdog()


def test_a_manager_that_has_gone_or_does_not_listen_stops_nothing() -> None:
    Notifier(f"@dropgate-{uuid.uuid4().hex}").ready()
    Notifier("/" + "x" * 200).ready()
    name = f"dropgate-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0" + name)
        full = Notifier("@" + name)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sender.sendto(b"WATCHDOG=1", "\0" + name)
        full.watchdog()
