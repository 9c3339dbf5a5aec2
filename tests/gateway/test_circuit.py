"""A dead endpoint is left alone, ever longer, by all of its users together."""

import random
from dataclasses import dataclass

import pytest

from gateway.handoff.circuit import Circuit
from gateway.handoff.clock import Backoff, Clock
from transports.errors import AuthenticationFailed, Unreachable


@dataclass
class Server:
    """Counts how often somebody tried."""

    up: bool = False
    tries: int = 0
    now: float = 0.0

    def connect(self) -> str:
        self.tries += 1
        if not self.up:
            raise Unreachable("connect", "", "refused")
        return "connection"


class Longest(random.Random):
    """Chance that always draws the longest pause."""

    def uniform(self, a: float, b: float) -> float:
        del a
        return b


def circuit(server: Server) -> Circuit:
    return Circuit(Clock(monotonic=lambda: server.now, chance=Longest()), Backoff(base=1.0, largest=60.0))


def test_while_it_answers_everybody_connects() -> None:
    server = Server(up=True)
    there = circuit(server)
    assert [there.connect(server.connect) for _ in range(3)] == ["connection"] * 3


def test_after_a_failure_nobody_tries_until_the_pause_is_over() -> None:
    server = Server()
    there = circuit(server)
    for _ in range(10):
        with pytest.raises(Unreachable):
            there.connect(server.connect)
    assert server.tries == 1
    server.now = 3
    with pytest.raises(Unreachable, match="refused"):
        there.connect(server.connect)
    assert server.tries == 2


def test_pauses_grow_up_to_a_bound_and_end_with_the_first_success() -> None:
    server = Server()
    there = circuit(server)
    for _ in range(3600):
        server.now += 1
        with pytest.raises(Unreachable):
            there.connect(server.connect)
    assert server.tries < 3600 / 60 + 10
    server.up = True
    server.now += 61
    assert there.connect(server.connect) == "connection"
    assert there.connect(server.connect) == "connection"


def test_a_refused_login_is_told_each_time_and_does_not_open_it() -> None:
    server = Server(up=True)
    there = circuit(server)

    def refused() -> str:
        raise AuthenticationFailed("connect", "", "no")

    for _ in range(2):
        with pytest.raises(AuthenticationFailed):
            there.connect(refused)
    assert there.connect(server.connect) == "connection"
