"""A lease that is given up is gone, whoever looks at it in that moment."""

from protocol.procedures.hold_lease import give_up_lease
from protocol.rules import Rules
from tests.protocol.directory import Directory
from tests.protocol.process import run

OWNER = "host-1-ab"
LEASE = f"L_{OWNER}.lease.json"


def held(times: int, rules: Rules) -> Directory:
    """A drop with one lease, which somebody has open for so many looks; -1: for ever."""
    made = Directory(rules)
    made.put(LEASE, b"{}")
    made.held[LEASE] = times
    return made


def test_a_lease_that_another_worker_reads_just_now_is_given_up_all_the_same() -> None:
    there = held(3, Rules())
    assert run(there, give_up_lease(there.rules, OWNER))
    assert there.ls() == []


def test_a_lease_that_stays_open_is_left_to_expire_and_holds_up_nobody_for_long() -> None:
    there = held(-1, Rules(busy_patience=300.0))
    begun = there.clock
    assert not run(there, give_up_lease(there.rules, OWNER))
    assert there.ls() == [LEASE]
    assert there.clock - begun < 15


def test_a_drop_without_patience_asks_once() -> None:
    there = held(-1, Rules(busy_patience=0.0))
    begun = there.clock
    assert not run(there, give_up_lease(there.rules, OWNER))
    assert there.clock - begun < 1


def test_the_scratch_file_of_a_renewal_goes_with_it() -> None:
    there = held(0, Rules())
    there.put(f"T_{OWNER}.lease", b"{}")
    assert run(there, give_up_lease(there.rules, OWNER))
    assert there.ls() == []
