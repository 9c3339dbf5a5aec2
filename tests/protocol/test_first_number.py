"""The first number: whoever dies, sleeps or loses a reply while the counter is born, there is never a second one."""

import contextlib
from random import Random
from typing import Any

import pytest

from protocol.errors import Anomaly
from protocol.operations import Delete, Store
from protocol.procedures.take_number import take_numbers
from protocol.rules import Rules
from tests.protocol.counters import GROUP, RULES, counters, handed_out, layouts, take
from tests.protocol.directory import Directory
from tests.protocol.process import Disconnected, Fault, Process, cut_everywhere, run


def birth_operations(rules: Rules) -> int:
    process = Process(Directory(rules), take_numbers(rules, GROUP, "o"))
    process.run()
    return process.number


FAULTS = [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE, Fault.CUT, Fault.BUSY, Fault.DOWN]


@layouts
@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_number_survives_any_one_fault(rules: Rules, fault: Fault) -> None:
    for number in range(1, birth_operations(rules) + 1):
        there = Directory(rules)
        taken = []
        with contextlib.suppress(Disconnected):  # told; the next call begins anew
            taken.append(run(there, take_numbers(rules, GROUP, "o"), {number: fault}))
        there.carry_out_late()
        taken += [take(there), take(there, "p")]
        assert taken == sorted(set(taken))
        assert len(counters(there)) == 1


@layouts
def test_scratch_may_be_deleted_at_any_moment_as_everybody_may(rules: Rules) -> None:
    for number in range(1, birth_operations(rules) + 1):
        there = Directory(rules)

        def tidy(there: Directory = there) -> None:
            for path in [path for path in there.files if path.startswith("T_")]:
                there.change(Delete(path))

        assert run(there, take_numbers(rules, GROUP, "o"), before={number: tidy}) == 1
        assert len(counters(there)) == 1


# Dying.


@layouts
def test_the_next_producer_succeeds_wherever_the_first_one_died(rules: Rules) -> None:
    def make() -> tuple[Directory, Any]:
        there = Directory(rules)
        return there, take_numbers(rules, GROUP, "o")

    deaths = list(cut_everywhere(make))
    for there in deaths:
        first = take(there, "p")
        assert first in (1, 2)
        assert take(there, "q") == first + 1
        assert len(counters(there)) == 1
        assert len(set(handed_out(there))) == len(handed_out(there))
    assert len(deaths) > 8


@layouts
def test_a_whole_row_of_producers_may_die_during_the_birth(rules: Rules) -> None:
    for seed in range(60):
        chance = Random(seed)  # noqa: S311 - a schedule, no secret
        there = Directory(rules)
        for victim in range(6):
            process = Process(there, take_numbers(rules, GROUP, f"o{victim}"))
            for _ in range(chance.randrange(20)):
                process.step()
            process.kill()
        take(there, "p")
        assert handed_out(there) == sorted(set(handed_out(there)))
        assert len(counters(there)) == 1


def _sleepers(rules: Rules) -> int:
    process = Process(Directory(rules), take_numbers(rules, GROUP, "o"))
    steps = 0
    while process.step():
        steps += 1
    return steps


@layouts
def test_a_sleeper_who_wakes_up_late_never_makes_a_second_counter(rules: Rules) -> None:
    for asleep in range(_sleepers(rules) + 1):
        there = Directory(rules)
        sleeper = Process(there, take_numbers(rules, GROUP, "o"))
        for _ in range(asleep):
            sleeper.step()
        others = [take(there, f"p{n}") for n in range(3)]
        last = sleeper.run()
        assert len({*others, last}) == 4
        assert others == sorted(others)
        assert len(counters(there)) == 1
        assert take(there, "q") > max(*others, last)


@layouts
def test_a_sleeper_of_the_same_owner_never_makes_a_second_counter(rules: Rules) -> None:
    # Two threads of one run share their owner id; the seed's name is used once all the same.
    for asleep in range(_sleepers(rules) + 1):
        there = Directory(rules)
        sleeper = Process(there, take_numbers(rules, GROUP, "o"))
        for _ in range(asleep):
            sleeper.step()
        others = [take(there) for _ in range(3)]
        last = sleeper.run()
        assert len({*others, last}) == 4
        assert len(counters(there)) == 1


def test_a_request_that_the_server_carries_out_much_later_makes_no_second_counter() -> None:
    # The zombie of a first attempt creates its seed after the counter was born. Nobody may ever take it for the seed.
    there = Directory(RULES)
    process = Process(there, take_numbers(RULES, GROUP, "o"))
    while not isinstance(process.operation, Store):
        process.step()
    zombie = process.operation
    process.kill()
    assert [take(there), take(there)] == [1, 2]
    there.put(zombie.path)
    del there.files["S_orders_0000000003.next"]  # the worst that a listing can show
    with pytest.raises(Anomaly):
        take(there)
    assert counters(there) == []
