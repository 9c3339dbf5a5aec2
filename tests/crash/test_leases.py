"""Who is taken for dead, and when: the frozen, the slow, the killed of this host and of another one."""

import threading
import time

import pytest

from protocol.states import State
from tests.crash.checks import check_effects, check_healed, heal
from tests.crash.jobs import Work, consume, lines, produce
from tests.crash.place import TTL, Place
from tests.crash.processes import Crew, Process, wait_until
from transports.connect import connect

LONG = 60.0  # seconds: a ttl that no test waits for
MARGIN = 20.0  # seconds that a busy machine may take over what is due at once


def results(place: Place, process: Process) -> list[str]:
    """What became of each item in one process."""
    return [line["result"] for line in lines(place.scratch / "events") if line["pid"] == process.pid]


def owners(place: Place, process: Process) -> list[str]:
    """Under which owner ids one process finished its items."""
    return [line["owner"] for line in lines(place.scratch / "events") if line["pid"] == process.pid]


def leases(place: Place) -> list[str]:
    """The files of all leases."""
    return [name for name in place.names() if name.startswith("L_")]


def wait_for_handler(place: Place, process: Process) -> None:
    """Returns when a process is in the midst of a handler's run."""
    wait_until(lambda: any(line["pid"] == process.pid for line in lines(place.scratch / "begun")), "a handler's run")


@pytest.mark.timeout(150)
def test_a_sleeper_that_wakes_after_its_lease_was_taken_cannot_complete(place: Place, hands: Crew) -> None:
    """As with a closed laptop lid or a paused virtual machine: it is told, and goes on under a new owner id."""
    produce(Work(place))
    sleeper = hands.start(consume, Work(place, seconds=2.0))
    wait_for_handler(place, sleeper)
    (claimed,) = place.claims_of(sleeper.pid)
    hands.freeze(sleeper)
    other = hands.start(consume, Work(place))
    took = wait_until(lambda: results(place, other) == ["processed"], "the other worker to take it over")
    assert took > TTL - 1, "a frozen process is not dead, and only its lease says that it is gone"
    after = place.names()
    hands.thaw(sleeper)
    wait_until(lambda: results(place, sleeper), "the sleeper to notice")
    assert results(place, sleeper) == ["lost"]
    assert [n for n in after if not n.startswith(("L_", "T_"))] == [n for n in place.names() if not n.startswith(("L_", "T_"))]
    hands.stop(other)
    produce(Work(place, first=1))
    wait_until(lambda: results(place, sleeper) == ["lost", "processed"], "the sleeper to go on")
    first, second = owners(place, sleeper)
    assert first == claimed.owner != second
    hands.stop(sleeper)
    heal(place)
    check_healed(place, range(2))
    check_effects(place, range(2), interruptions=1)


@pytest.mark.timeout(120)
def test_a_long_handler_keeps_its_claim(place: Place, hands: Crew) -> None:
    """Ten seconds of work under a ttl of three: renewed all the time, and never taken over."""
    produce(Work(place))
    slow = hands.start(consume, Work(place, seconds=10.0))
    wait_for_handler(place, slow)
    watcher = hands.start(consume, Work(place, machine="elsewhere"))
    wait_until(lambda: results(place, slow), "the end of the work")
    assert results(place, slow) == ["processed"]
    hands.stop(slow, watcher)
    assert results(place, watcher) == []
    check_healed(place, [0])
    check_effects(place, [0], interruptions=0)


@pytest.mark.timeout(120)
def test_a_lease_that_somebody_reads_while_its_worker_ends_is_removed_all_the_same(remote: Place, hands: Crew) -> None:
    """A reader on SMB keeps a file from being deleted, as long as it has it open."""
    worker = hands.start(consume, Work(remote))
    wait_until(lambda: leases(remote), "its lease")
    with connect(remote.endpoint) as reader:
        (lease,) = leases(remote)
        with reader.open_read(lease) as source:
            source.read(1)
            ending = threading.Thread(target=hands.stop, args=(worker,))
            ending.start()
            time.sleep(0.5)
        ending.join()
    check_healed(remote, [])


@pytest.mark.timeout(120)
def test_a_dead_process_of_this_host_is_not_waited_for(place: Place, hands: Crew) -> None:
    produce(Work(place))
    victim = hands.start(consume, Work(place, seconds=30.0, ttl=LONG))
    wait_for_handler(place, victim)
    hands.kill(victim)
    heir = hands.start(consume, Work(place, ttl=LONG))
    assert wait_until(lambda: results(place, heir) == ["processed"], "the next worker to finish it", LONG / 2) < MARGIN
    hands.stop(heir)
    heal(place)
    check_healed(place, [0])
    check_effects(place, [0], interruptions=1)


@pytest.mark.timeout(120)
def test_a_dead_process_of_another_host_is_waited_for_as_long_as_its_lease_lasts(place: Place, hands: Crew) -> None:
    produce(Work(place))
    victim = hands.start(consume, Work(place, seconds=30.0, machine="elsewhere"))
    wait_for_handler(place, victim)
    hands.kill(victim)
    begun = time.monotonic()
    heir = hands.start(consume, Work(place))
    wait_until(lambda: results(place, heir) == ["processed"], "the next worker to finish it")
    assert TTL - 0.5 < time.monotonic() - begun < TTL + MARGIN
    hands.stop(heir)
    assert not place.tokens(State.CLAIMED)
    heal(place)
    check_healed(place, [0])
    check_effects(place, [0], interruptions=1)
