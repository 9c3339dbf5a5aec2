"""Sequence numbers: unique and ascending for any crowd, whoever dies, sleeps or loses a reply, the first number included."""

import contextlib
from random import Random
from typing import Any

import pytest

from protocol.errors import Anomaly, OutcomeUnresolved, SequenceExhausted, StillBusy
from protocol.layout import FolderLayout, PrefixLayout
from protocol.names import CounterName, Grammar, ItemId, Name, OriginName, SeedName
from protocol.operations import Claim, Delete, Operation, Publish, ReadSmall, Store
from protocol.procedures.take_number import take_numbers
from protocol.rules import Rules
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.process import Disconnected, Fault, Process, cut_everywhere, run

RULES = Rules(busy_patience=3.0)
GROUP = "orders_"
layouts = pytest.mark.parametrize("rules", [RULES, Rules(layout=FolderLayout(), busy_patience=3.0)], ids=["prefix", "folders"])


def counters(there: Directory, group: str = GROUP) -> list[int]:
    parsed = (there.rules.grammar.parse_helper(path) for path in there.files)
    return [name.number for name in parsed if isinstance(name, CounterName) and name.group == group]


def helpers(there: Directory) -> set[type]:
    return {type(there.rules.layout.parse(path)) for path in there.files}


def handed_out(there: Directory) -> list[int]:
    """Every number that a rename of the counter has taken, in the order of the renames."""
    taken: list[int] = []
    for src, dst in there.renames:
        old, new = there.rules.grammar.parse_helper(src), there.rules.grammar.parse_helper(dst)
        if isinstance(old, CounterName) and isinstance(new, CounterName):
            taken += range(old.number, new.number)
    return taken


def take(there: Directory, owner: str = "o", **more: Any) -> int:
    return run(there, take_numbers(there.rules, GROUP, owner, **more))


# One producer.


@layouts
def test_numbers_begin_at_1_and_ascend(rules: Rules) -> None:
    there = Directory(rules)
    assert [take(there) for _ in range(3)] == [1, 2, 3]
    assert counters(there) == [4]
    assert there.ls() == ["S_orders_0000000004.next", "S_orders_origin"]


@layouts
@pytest.mark.parametrize("state", State)
def test_numbers_begin_after_the_highest_in_use_in_any_state(rules: Rules, state: State) -> None:
    there = Directory(rules)
    there.folders.add("processing/o")
    there.put(rules.layout.path(Name(ItemId(GROUP, 7), "csv", state, "o" if state is State.CLAIMED else "")))
    there.put(rules.layout.path(Name(ItemId(GROUP, 3), "csv")))
    there.put(rules.layout.path(Name(ItemId("other_", 900), "csv")))
    there.put(rules.layout.path(Name(ItemId("sub_orders_", 901), "csv")))
    assert take(there) == 8


def test_each_group_counts_for_itself() -> None:
    there = Directory(RULES)
    for group in ("orders_", "orders_x_", "", "orders"):
        assert run(there, take_numbers(RULES, group, "o")) == 1
        assert run(there, take_numbers(RULES, group, "o")) == 2
    assert [counters(there, group) for group in ("orders_", "orders_x_", "", "orders")] == [[3]] * 4


def test_several_numbers_are_taken_with_one_rename() -> None:
    there = Directory(RULES)
    assert take(there, count=10) == 1
    assert take(there) == 11
    assert counters(there) == [12]


@pytest.mark.parametrize("count", [0, -1])
def test_no_number_cannot_be_taken(count: int) -> None:
    with pytest.raises(ValueError, match="cannot be taken"):
        take(Directory(RULES), count=count)


def test_a_right_hint_saves_the_listing_and_a_wrong_one_costs_nothing_but_time() -> None:
    there = Directory(RULES)
    take(there)
    asked: list[Operation[Any]] = []
    process = Process(there, take_numbers(RULES, GROUP, "o", hint=2), before=lambda _number, operation: asked.append(operation))
    assert process.run() == 2
    assert [type(operation) for operation in asked] == [Claim]
    assert take(there, hint=2) == 3
    assert take(there, hint=99) == 4


@pytest.mark.parametrize(("width", "taken"), [(1, 8), (2, 98)])
def test_numbers_end_where_their_width_ends(width: int, taken: int) -> None:
    rules = Rules(layout=PrefixLayout(Grammar(width)))
    there = Directory(rules)
    assert [take(there) for _ in range(taken)] == list(range(1, taken + 1))
    with pytest.raises(SequenceExhausted, match="begin a new group prefix"):
        take(there)
    assert counters(there) == [taken + 1]


def test_a_drop_whose_numbers_are_used_up_gets_no_counter() -> None:
    rules = Rules(layout=PrefixLayout(Grammar(2)))
    there = Directory(rules)
    there.put("A_orders_99.csv")
    with pytest.raises(SequenceExhausted):
        take(there)


# The counter file is what a person sees and steers.


def test_a_counter_that_a_person_made_is_used_without_an_origin() -> None:
    there = Directory(RULES)
    there.put("S_orders_0000000100.next")
    assert take(there) == 100
    assert there.ls() == ["S_orders_0000000101.next"]


def test_of_two_counters_the_higher_is_kept_and_the_lower_removed() -> None:
    there = Directory(RULES)
    there.put("S_orders_0000000005.next")
    there.put("S_orders_0000000009.next")
    assert take(there) == 9
    assert counters(there) == [10]


def test_a_lost_counter_is_told_and_not_made_up() -> None:
    there = Directory(RULES)
    take(there)
    there.put("A_orders_0000000030.csv")
    del there.files["S_orders_0000000002.next"]
    with pytest.raises(Anomaly, match=r"Put it back by hand as S_orders_0000000031\.next, or higher"):
        take(there)
    assert counters(there) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"S_orders_seed+", b"x" * 5000, b"\xff", b"S_other_seed+o+1", b"../../etc/passwd", b"orders_0000000001.csv"],
)
def test_an_origin_that_names_no_seed_is_told_and_not_believed(content: bytes) -> None:
    there = Directory(RULES)
    there.put("S_orders_origin", content)
    there.put("orders_0000000001.csv")
    with pytest.raises(Anomaly, match=r"make the file S_orders_0000000001\.next by hand"):
        take(there)
    assert there.ls() == ["S_orders_origin", "orders_0000000001.csv"]
    there.put("S_orders_0000000002.next")  # as the message says
    assert take(there) == 2


def test_a_seed_is_never_used_beside_a_counter() -> None:
    # Somebody made a counter by hand while the origin's seed was still there.
    there = Directory(RULES)
    there.put("S_orders_origin", b"S_orders_seed+o+1")
    there.put("S_orders_seed+o+1")
    hidden = there.files.copy()

    def by_hand(_number: int, operation: Operation[Any]) -> None:
        if isinstance(operation, ReadSmall):
            there.put("S_orders_0000000050.next")

    process = Process(there, take_numbers(RULES, GROUP, "p"), before=by_hand)
    assert process.run() == 50
    assert counters(there) == [51]
    assert "S_orders_seed+o+1" in hidden
    assert "S_orders_seed+o+1" not in there.files
    assert there.renames == [("S_orders_0000000050.next", "S_orders_0000000051.next")]


# Trouble.


@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE])
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_reply_costs_a_number_and_nothing_else(fault: Fault, times: int) -> None:
    there = Directory(RULES)
    take(there)
    left = times

    def lose(_number: int, operation: Operation[Any]) -> Fault | None:
        nonlocal left
        if not isinstance(operation, Claim) or not left:
            return None
        left -= 1
        return fault

    process = Process(there, take_numbers(RULES, GROUP, "o"), faults=lose)
    number = process.run()
    there.carry_out_late()
    assert number >= 2
    assert handed_out(there).count(number) == 1
    assert counters(there) == [max(handed_out(there)) + 1]


def test_a_rename_that_was_cut_in_two_leaves_no_second_counter() -> None:
    there = Directory(RULES)
    take(there)
    faults = iter([Fault.CUT])
    process = Process(
        there,
        take_numbers(RULES, GROUP, "o"),
        faults=lambda _number, operation: next(faults, None) if isinstance(operation, Claim) else None,
    )
    assert process.run() == 3
    assert counters(there) == [4]


def test_replies_that_are_lost_for_ever_end_in_an_error() -> None:
    there = Directory(RULES)
    take(there)
    process = Process(
        there,
        take_numbers(RULES, GROUP, "o"),
        faults=lambda _number, operation: Fault.LOST_BEFORE if isinstance(operation, Claim) else None,
    )
    with pytest.raises(OutcomeUnresolved, match="lost its reply 20 times"):
        process.run()


def test_an_open_counter_is_waited_for() -> None:
    there = Directory(RULES)
    take(there)
    there.held["S_orders_0000000002.next"] = 3
    assert take(there) == 2


def test_a_counter_that_stays_open_is_told_after_the_drops_patience() -> None:
    there = Directory(RULES)
    take(there)
    there.held["S_orders_0000000002.next"] = -1
    begun = there.clock
    with pytest.raises(StillBusy, match="held open by somebody"):
        take(there)
    assert 3 < there.clock - begun < 20
    assert counters(there) == [2]


def test_a_seed_or_an_origin_that_stays_open_is_told_after_the_drops_patience() -> None:
    for step in (Publish, Claim):
        there = Directory(RULES)
        process = Process(
            there,
            take_numbers(RULES, GROUP, "o"),
            faults=lambda _number, operation, step=step: Fault.BUSY if isinstance(operation, step) else None,  # type: ignore[misc] # bound now
        )
        with pytest.raises(StillBusy):
            process.run()
        assert take(there, "p") == 1


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


# Crowds.


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
