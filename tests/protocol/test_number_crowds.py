"""Crowds at one counter: unique ascending numbers in any order of steps, with deaths and lost replies."""

from random import Random
from typing import Any

import pytest

from protocol.names import CounterName, OriginName, SeedName
from protocol.operations import Claim, Delete, Operation, Publish
from protocol.procedures.take_number import take_numbers
from protocol.rules import Rules
from tests.protocol.counters import GROUP, RULES, counters, handed_out, helpers, layouts, take
from tests.protocol.directory import Directory
from tests.protocol.process import Fault, Process, run


def crowd(rules: Rules, seed: int, *, deaths: bool, losses: bool, size: int = 5, each: int = 3) -> tuple[Directory, list[int]]:
    """Producers that take numbers step by step in random order; the directory, and what those who lived were given."""
    chance = Random(seed)  # noqa: S311 - a schedule, no secret
    there = Directory(rules)
    kinds = [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE]

    def faults(_number: int, operation: Operation[Any]) -> Fault | None:
        if not losses or not isinstance(operation, Claim | Publish | Delete) or chance.random() > 0.15:
            return None
        return chance.choice(kinds)

    def begin(owner: int) -> Process[int]:
        return Process(there, take_numbers(rules, GROUP, f"o{owner}"), faults=faults)

    given: list[int] = []
    crowd = [begin(owner) for owner in range(size)]
    left = size * each
    while crowd:
        process = chance.choice(crowd)
        for _ in range(chance.choice([1, 1, 1, 5])):
            if not process.step():
                break
            assert len(counters(there)) <= 1 + losses
        if losses and chance.random() < 0.05:
            there.carry_out_late()
        if process.alive and deaths and chance.random() < 0.02:
            process.kill()
        elif process.alive:
            continue
        else:
            given.append(process.result)
        crowd.remove(process)
        left -= 1
        if left >= size:
            crowd.append(begin(left + 100))
    there.carry_out_late()
    return there, given


@layouts
@pytest.mark.parametrize(("deaths", "losses"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_crowd_gets_unique_ascending_numbers(rules: Rules, *, deaths: bool, losses: bool) -> None:
    for seed in range(40):
        there, given = crowd(rules, seed, deaths=deaths, losses=losses)
        taken = handed_out(there)
        assert taken == sorted(set(taken)), "the counter went back"
        assert len(given) == len(set(given)), "a number was given twice"
        assert set(given) <= set(taken)
        after = take(there, "later")
        assert after > max(taken, default=0)
        assert len(counters(there)) == 1
        if not deaths and not losses:
            assert sorted(given) == taken == list(range(1, 16))


@layouts
def test_a_crowd_leaves_a_counter_an_origin_and_no_more_than_litter_of_the_dead(rules: Rules) -> None:
    for seed in range(20):
        there, _ = crowd(rules, seed, deaths=False, losses=False)
        assert helpers(there) == {CounterName, OriginName}
    for seed in range(20):
        there, _ = crowd(rules, seed, deaths=True, losses=False)
        assert sum(isinstance(there.rules.layout.parse(path), OriginName) for path in there.files) <= 1
        names = {type(there.rules.layout.parse(path)).__name__ for path in there.files}
        assert names <= {"CounterName", "OriginName", "SeedName", "ScratchName"}


def test_a_listing_that_misses_the_counter_again_and_again_makes_no_second_one() -> None:
    there = Directory(RULES)
    take(there)
    counter = "S_orders_0000000002.next"
    hidden = there.files[counter]

    class Blind(Directory):
        """A server whose listings miss the counter, as during a rename, a number of times."""

        blind = 8

        def _scan(self, folder: str, pattern: str) -> Any:
            found = yield from super()._scan(folder, pattern)
            self.blind -= 1
            return tuple(entry for entry in found if entry.path != counter or self.blind < 0)

    for times in range(12):
        blind = Blind(RULES)
        blind.files = {path: file for path, file in there.files.items()}
        blind.blind = times
        assert run(blind, take_numbers(RULES, GROUP, "p")) == 2
        assert counters(blind) == [3]
        assert blind.files["S_orders_0000000003.next"] is hidden


def test_the_seed_names_its_owner_for_a_person_who_finds_it() -> None:
    there = Directory(RULES)
    process = Process(there, take_numbers(RULES, GROUP, "host-1-ab"))
    while not there.files:
        process.step()
    process.kill()
    seed = there.rules.layout.parse(there.ls()[0])
    assert isinstance(seed, SeedName)
    assert (seed.group, seed.owner) == (GROUP, "host-1-ab")
