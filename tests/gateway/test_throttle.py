"""A limit on the bytes a second of a route."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.handoff.clock import Clock
from gateway.handoff.throttle import Throttle


@dataclass
class Time:
    """A clock that only naps move."""

    now: float = 0.0

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now)

    def nap(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@settings(deadline=None)  # of a busy machine
@given(st.lists(st.integers(1, 300_000), min_size=1, max_size=50), st.floats(1_000, 1_000_000))
def test_what_has_passed_is_never_more_than_the_rate_allows(pieces: list[int], rate: float) -> None:
    time = Time(100.0)
    throttle, passed = Throttle(rate, time.clock()), 0
    for piece in pieces:
        throttle.take(piece, time.nap)
        passed += piece
        # What half a second takes may pass at once at the beginning, and no more than that is saved up.
        assert passed <= rate * (time.now - 100.0 + 0.5) * (1 + 1e-9)
    assert time.now - 100.0 == pytest.approx(max(0.0, sum(pieces) / rate - 0.5), abs=1e-3)


def test_a_pause_does_not_save_up_more_than_half_a_second() -> None:
    time = Time()
    throttle = Throttle(1000, time.clock())
    time.now = 3600.0
    throttle.take(500, time.nap)
    assert time.now == 3600.0
    throttle.take(1000, time.nap)
    assert time.now == pytest.approx(3601.0)


def test_waiting_can_be_ended() -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Throttle(1, Time().clock()).take(1000, interrupted)
