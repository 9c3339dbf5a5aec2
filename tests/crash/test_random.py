"""A crowd of producers and consumers, killed at random moments and started again."""

import random
import secrets
import time

import pytest

from protocol.states import State
from tests.crash.checks import check_effects, check_healed, heal
from tests.crash.jobs import Work, consume, lines, produce
from tests.crash.place import Place
from tests.crash.processes import Crew, Process, wait_until

ITEMS = 24
KILLS = 6


@pytest.mark.timeout(180)
def test_a_crowd_killed_at_random_loses_nothing(laid_out: Place, hands: Crew) -> None:
    place = laid_out
    seed = secrets.randbits(32)
    chance = random.Random(seed)  # noqa: S311 - a schedule, not a secret
    half = ITEMS // 2
    makers = [Work(place, first=n * half, count=half, size=20_000) for n in range(2)]
    takers = [Work(place, seconds=0.1) for _ in range(3)]
    running: list[tuple[Process, Work]] = [(hands.start(produce, work), work) for work in makers]
    running += [(hands.start(consume, work), work) for work in takers]
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.05, 0.5))
        victim, work = running.pop(chance.randrange(len(running)))
        hands.kill(victim)
        running.append((hands.start(produce if work in makers else consume, work), work))

    def done() -> bool:
        sent = {line["key"] for line in lines(place.scratch / "sent")}
        return len(sent) == ITEMS and sent <= {line["key"] for line in lines(place.effects)}

    wait_until(done, f"all items processed (seed {seed})")
    hands.stop(*(process for process, work in running if work in takers))
    heal(place)
    check_healed(place, range(ITEMS))
    check_effects(place, range(ITEMS), interruptions=KILLS)
    assert not place.tokens(State.ERROR)
