"""Killed with -9 at each step of a forward, and started again: every destination has the item exactly once."""

from dataclasses import replace
from itertools import count

import pytest

from protocol.names import Name
from protocol.states import State
from tests.crash.conftest import make_place
from tests.crash.jobs import Work, content_of, produce
from tests.crash.place import Place
from tests.crash.processes import Crew
from tests.crash.test_steps import below
from tests.service.forwarding import Forwarding, forward

_MOST = 400


def twice_below(place: Place, name: str) -> tuple[Place, Place]:
    """Two fresh drops below one place."""
    return below(place, f"{name}-one"), below(place, f"{name}-two")


def published(target: Place) -> list[Name]:
    """The item's tokens at a destination, wherever they are by now."""
    names = [target.rules.layout.parse(name.rpartition("/")[2]) for name in target.names()]
    return [n for n in names if isinstance(n, Name) and target.rules.is_token(n.kind) and n.state is not State.BEFORE]


def check_once(targets: tuple[Place, ...], number: int, size: int = 100) -> None:
    """Each destination was handed the item once, whole; and nothing unfinished is left there."""
    for target in targets:
        names = target.names()
        assert len(published(target)) == 1, names
        payloads = [name for name in names if name.endswith(".csv")]
        assert [(target.seen / name).read_bytes() for name in payloads] == [content_of(number, size)], names


@pytest.mark.timeout(400)
@pytest.mark.parametrize("counter", [False, True], ids=["same-number", "counter"])
def test_killed_at_any_step_of_a_forward_to_two_destinations(
    request: pytest.FixtureRequest, hands: Crew, counter: bool
) -> None:
    """Every other step of each way of numbering, between them all."""
    place = make_place(request, "local")
    for number in count():
        assert number < _MOST
        source = below(place, f"source-{number}")
        targets = twice_below(place, f"target-{number}")
        work = Forwarding(source, first=number, targets=(("one", targets[0]), ("two", targets[1])), counter=counter)
        produce(Work(source, first=number))
        survived = hands.run(forward, replace(work, die_at=1 + 2 * number + counter))
        if not survived:
            assert hands.run(forward, work)
        check_once(targets, number)
        if survived:
            break
    assert 2 * number > 40, "a forward to two destinations has more steps than that"


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("source_kind", "target_kind"), [("sftp", "smb"), ("smb", "sftp")])
def test_killed_on_the_way_between_servers(
    request: pytest.FixtureRequest, hands: Crew, source_kind: str, target_kind: str
) -> None:
    """Every third step, of which each direction takes others, and in the midst of the writing."""
    from_, to = make_place(request, source_kind), make_target(request, target_kind)
    start = 1 if source_kind == "sftp" else 2
    for number in count():
        assert number < _MOST
        source, target = below(from_, f"s{number}"), below(to, f"t{number}")
        work = Forwarding(source, first=number, targets=(("one", target),))
        produce(Work(source, first=number))
        survived = hands.run(forward, replace(work, die_at=start + number * 3, inside=number % 2 == 1))
        if not survived:
            assert hands.run(forward, work)
        check_once((target,), number)
        if survived:
            break
    assert number * 3 > 25, "a forward has more steps than that"


def make_target(request: pytest.FixtureRequest, kind: str) -> Place:
    """The other end of a route; `make_place` makes its scratch folder but once."""
    scratch = request.getfixturevalue("tmp_path") / "scratch"
    scratch.rename(scratch.with_name("kept"))
    target = make_place(request, kind)
    scratch.rmdir()
    scratch.with_name("kept").rename(scratch)
    return target
