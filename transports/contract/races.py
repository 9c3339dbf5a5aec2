"""Races: eight at a time for each of two hundred files, and never two winners.

Every racer has a connection of its own. All of them go through the same files in the same order, so that the front of the
field is always at one file. A guarantee that a backend does not give is not asked of it; what is left is.
"""

import multiprocessing
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

import pytest

from transports.base import Fact, Guarantee, Transport
from transports.contract.place import ContractBase, Place, content, fill, names
from transports.errors import AlreadyExists, Busy, ChangedWhileReading, NotFound, TransportError, Unsupported

RACERS = 8
ITEMS = 200
VERSIONS = 40
VERSION_SIZE = 96 * 1024

BUSY_PATIENCE = 60.0  # seconds; a server may say Busy for as long as another racer has the file open
START_PATIENCE = 120.0  # seconds, for the slowest racer to log in

T = TypeVar("T")
Start = Callable[[], None]
Won = tuple[str, str]  # the file that was won, and the text the winner put there


class Barrier(Protocol):
    """What `threading.Barrier` and the one of `multiprocessing` have in common."""

    def wait(self, timeout: float | None = None) -> int: ...
    def abort(self) -> None: ...
    def reset(self) -> None: ...


_here = threading.local()


def _enrol(barrier: Barrier) -> None:
    _here.barrier = barrier


def _race(job: Callable[..., T], connect: Callable[[str], Transport], racer: int, *arguments: object) -> T:
    """One racer's part: everything before the job's call of `start` is preparation."""
    barrier: Barrier = _here.barrier

    def start() -> None:
        barrier.wait(START_PATIENCE)

    try:
        with connect("") as transport:
            return job(transport, racer, start, *arguments)
    except BaseException:
        barrier.abort()  # the others would wait for one who never comes
        raise


class Crew:
    """Eight racers, kept from one race to the next: as processes, or as threads."""

    def __init__(self, *, processes: bool) -> None:
        self._executor: Executor
        if processes:
            # Not by fork from here: an SMB or SSH session does not survive it.
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["pytest", __name__])
            self._barrier: Barrier = context.Barrier(RACERS)
            self._executor = ProcessPoolExecutor(RACERS, context, _enrol, (self._barrier,))
        else:
            self._barrier = threading.Barrier(RACERS)
            self._executor = ThreadPoolExecutor(RACERS, "racer", _enrol, (self._barrier,))

    def run(self, job: Callable[..., T], place: Place, *arguments: object) -> list[T]:
        """Every racer's result, in the order of their numbers."""
        self._barrier.reset()
        futures = [self._executor.submit(_race, job, place.connect, racer, *arguments) for racer in range(RACERS)]
        failures = [failure for future in futures if (failure := future.exception()) is not None]
        # The first to fail breaks the barrier for the rest, who then tell nothing of interest.
        for failure in failures:
            if not isinstance(failure, threading.BrokenBarrierError):
                raise failure
        return [future.result() for future in futures]

    def dismiss(self) -> None:
        self._executor.shutdown()


class RaceContract(ContractBase):
    """What holds when everybody wants the same file."""

    @pytest.fixture(scope="class")
    @classmethod
    def crews(cls) -> Iterator[dict[bool, Crew]]:
        """Those hired so far, by whether they are processes; eight of these are not started for every test."""
        hired: dict[bool, Crew] = {}
        yield hired
        for crew in hired.values():
            crew.dismiss()

    @pytest.fixture
    def crew(self, crews: dict[bool, Crew], place: Place) -> Crew:
        if place.processes not in crews:
            crews[place.processes] = Crew(processes=place.processes)
        return crews[place.processes]

    def test_race_to_claim_has_one_winner_each(self, place: Place, transport: Transport, crew: Crew) -> None:
        items = [f"x_{number:03}" for number in range(ITEMS)]
        for name in items:
            fill(transport, name, name.encode())
        winners = _winners(crew.run(_claim_all, place, items))
        told = transport.capabilities.claim
        left = names(transport)
        if _one_each(told, winners, items):
            assert left == sorted(racer_name for won in winners.values() for racer_name in won)
        for name in items:
            claims = [claim for claim in left if claim.endswith(name)]
            assert claims, f"{name} is lost"
            assert all(content(transport, claim) == name.encode() for claim in claims)

    def test_race_for_one_counter_hands_out_each_step_once(self, place: Place, transport: Transport, crew: Crew) -> None:
        # All of them rename the same file to the same next name: compare and swap.
        fill(transport, "S_0", b"counter")
        taken = Counter(step for steps in crew.run(_count, place, ITEMS) for step in steps)
        if transport.capabilities.claim.guarantee is Guarantee.ATOMIC:
            assert taken == Counter(range(ITEMS))
            assert names(transport) == [f"S_{ITEMS}"]
        assert set(taken) == set(range(ITEMS))
        assert content(transport, f"S_{ITEMS}") == b"counter"

    def test_race_to_publish_has_one_winner_each(self, place: Place, transport: Transport, crew: Crew) -> None:
        items = [f"x_{number:03}" for number in range(ITEMS)]
        results = crew.run(_publish_all, place, items)
        winners = _winners([won for won, _ in results])
        told = transport.capabilities.publish
        left = set(names(transport))
        if _one_each(told, winners, items):
            unused = {source for _, source in results}
            assert left == {*items, *unused}, "every loser's source is still there, and nothing else"
            for source in unused:
                assert content(transport, source) == source.encode()
        for name in items:
            assert content(transport, name).decode() in winners[name], f"{name} holds what no winner put there"

    def test_race_to_create_has_one_winner_each(self, place: Place, transport: Transport, crew: Crew) -> None:
        items = [f"x_{number:03}" for number in range(ITEMS)]
        winners = _winners(crew.run(_create_all, place, items))
        _one_each(transport.capabilities.create, winners, items)
        assert names(transport) == items
        for name in items:
            assert content(transport, name).decode() in winners[name]

    def test_race_of_readers_with_a_replacer_shows_whole_files(self, place: Place, transport: Transport, crew: Crew) -> None:
        fill(transport, "state", _version(0))
        told = transport.capabilities.replace
        torn = sum(crew.run(_replace_or_read, place, told.guarantee is Guarantee.ATOMIC))
        assert told.evidence
        if told.guarantee is Guarantee.ATOMIC:
            assert torn == 0, f"{torn} times a reader saw neither the old file nor the new one"
            assert content(transport, "state") == _version(VERSIONS)
            assert names(transport) == ["state"]


def _winners(results: Sequence[Sequence[Won]]) -> dict[str, list[str]]:
    winners: dict[str, list[str]] = {}
    for won in results:
        for name, text in won:
            winners.setdefault(name, []).append(text)
    return winners


def _one_each(told: Fact, winners: dict[str, list[str]], items: list[str]) -> bool:
    """Holds a race to the guarantee that was given for it, and says whether that was the full one."""
    assert sorted(winners) == items, "every file has a winner"
    if told.guarantee is not Guarantee.ATOMIC:
        assert told.evidence, "who promises less says why"
        return False
    several = {name: won for name, won in winners.items() if len(won) != 1}
    assert not several, f"{len(several)} of {len(items)} had more than one winner, though: {told.evidence}"
    return True


def _settled(step: Callable[[], None], lost: type[TransportError] | tuple[type[TransportError], ...]) -> bool:
    """Whether a step was won. Busy is no answer: somebody else is at it, and may still fail."""
    deadline = time.monotonic() + BUSY_PATIENCE
    while True:
        try:
            step()
        except lost:
            return False
        except Busy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)
        else:
            return True


def _claim_all(transport: Transport, racer: int, start: Start, items: list[str]) -> list[Won]:
    start()
    won = []
    for name in items:
        mine = f"C_{racer}_{name}"
        if _settled(partial(transport.claim, name, mine), NotFound):
            won.append((name, mine))
    return won


def _count(transport: Transport, racer: int, start: Start, steps: int) -> list[int]:
    start()
    # The target is no name of the racer's own here, so a server may also find it taken: lost as well.
    lost = (NotFound, AlreadyExists)
    return [step for step in range(steps) if _settled(partial(transport.claim, f"S_{step}", f"S_{step + 1}"), lost)]


def _publish_all(transport: Transport, racer: int, start: Start, items: list[str]) -> tuple[list[Won], str]:
    """What was won, and the source that is left over. A loser's source is untouched, and good for the next file."""
    serial = 0
    source = f"B_{racer}_{serial}"
    fill(transport, source, source.encode())
    start()
    won = []
    for name in items:
        if _settled(partial(transport.publish, source, name), AlreadyExists):
            won.append((name, source))
            serial += 1
            source = f"B_{racer}_{serial}"
            fill(transport, source, source.encode())
    return won, source


def _create_all(transport: Transport, racer: int, start: Start, items: list[str]) -> list[Won]:
    text = f"by {racer}"
    start()
    return [(name, text) for name in items if _settled(partial(fill, transport, name, text.encode()), AlreadyExists)]


def _version(number: int) -> bytes:
    return bytes([number]) * VERSION_SIZE


def _replace_or_read(transport: Transport, racer: int, start: Start, promised: bool) -> int:
    """The first racer replaces, the others read; how often one of them saw what it must not."""
    start()
    if racer == 0:
        for number in range(1, VERSIONS + 1):
            fill(transport, "new", _version(number))
            try:
                _settled(partial(transport.replace, "new", "state"), NotFound)
            except Unsupported:
                assert not promised, "a step that is promised is there"
                transport.delete("new")
        return 0
    torn = 0
    last = 0
    deadline = time.monotonic() + BUSY_PATIENCE
    for _ in range(VERSIONS):
        try:
            data = content(transport, "state")
        except Busy:
            continue
        except (NotFound, ChangedWhileReading):
            torn += 1
            continue
        if len(data) != VERSION_SIZE or len(set(data)) != 1 or data[0] < last:
            torn += 1
        last = data[0] if data else last
        if time.monotonic() > deadline:
            break
    return torn
