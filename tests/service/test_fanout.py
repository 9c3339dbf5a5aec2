"""A route to several destinations: each has every item once, and one that is away holds up nobody else."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gateway.drop import Drop, Outgoing
from gateway.handoff.clock import Clock
from gateway.handoff.ledger.open import open_ledger
from gateway.service.board import Board, RouteState
from gateway.service.daemon import Daemon
from gateway.service.runner import End, Route
from gateway.service.transitions import Hub, Transition, What
from testenv.proxy import Proxy
from tests.crash.conftest import make_place
from tests.crash.place import GROUP, Place

PATIENCE = 60.0  # seconds


class Running:
    """A daemon with its routes, in a thread of this process."""

    def __init__(self, *routes: Route) -> None:
        clock = Clock()
        self.told: list[Transition] = []
        self.board, self.stop = Board(clock.utc, clock.utc()), threading.Event()
        self.daemon = Daemon(self.board, Hub([self.told.append]), self.stop, clock)
        self.daemon.apply(routes)
        self._thread = threading.Thread(target=self.daemon.run, args=(lambda: None,))
        self._thread.start()

    def count(self, what: What, destination: str = "") -> int:
        return sum(1 for one in self.told if one.what is what and destination in ("", one.destination))

    def end(self) -> None:
        self.stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@contextmanager
def running(*routes: Route) -> Iterator[Running]:
    one = Running(*routes)
    try:
        yield one
    finally:
        one.end()


def wait_until(seen: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE:g} s"
        time.sleep(0.05)


def folder(base: Path, name: str) -> Path:
    made = base / name
    made.mkdir()
    return made


def route(scratch: Path, source: Drop, *ends: tuple[str, Drop], **more: object) -> Route:
    """A route whose ledger and records are kept in one file."""
    ledger = f"sqlite://{scratch}/ledger.db"
    settings: dict[str, object] = {"poll": 0.2, "lease_ttl": 3.0, "ledger": partial(open_ledger, ledger, "route")}
    made = Route(
        "the route",
        source,
        tuple(End(name, drop, partial(open_ledger, ledger, f"route > {name}")) for name, drop in ends),
        (GROUP,),
    )
    return replace(made, **settings | more)  # type: ignore[arg-type] # by name


def send(drop: Drop, base: Path, *texts: str, **more: object) -> None:
    with drop.producer() as producer:
        for number, text in enumerate(texts):
            path = base / f"file-{number}.csv"
            path.write_text(text)
            producer.send([Outgoing(path)], group=GROUP, **more)  # type: ignore[arg-type] # by name


def ready(place: Path) -> list[str]:
    return sorted(path.name for path in place.glob(f"{GROUP}*.csv"))


def after(place: Path) -> list[str]:
    return sorted(path.name for path in place.glob(f"A_{GROUP}*.csv"))


def test_every_destination_has_every_item_and_only_then_it_is_an_after_image(tmp_path: Path) -> None:
    source, one, two = (folder(tmp_path, name) for name in ("source", "one", "two"))
    send(Drop.at(str(source)), tmp_path, "a", "b", "c")
    with running(route(tmp_path, Drop.at(str(source)), ("one", Drop.at(str(one))), ("two", Drop.at(str(two))))) as run:
        wait_until(lambda: len(after(source)) == 3, "after images")
    assert ready(one) == ready(two) == [f"{GROUP}000000000{n}.csv" for n in (1, 2, 3)]
    assert (run.count(What.PUBLISHED, "one"), run.count(What.PUBLISHED, "two"), run.count(What.FORWARDED)) == (3, 3, 3)


@pytest.mark.parametrize("kind", ["sftp", "smb"])
def test_a_dead_destination_holds_up_only_itself_and_gets_everything_once_it_is_back(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    place: Place = make_place(request, kind)
    assert place.server is not None
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    with Proxy("127.0.0.1", place.server.port) as proxy:
        far = Drop(place.through(proxy.port).endpoint, place.rules)
        proxy.refuse()
        send(Drop.at(str(source)), tmp_path, *map(str, range(10)))
        with running(route(tmp_path, Drop.at(str(source)), ("far", far), ("one", Drop.at(str(one))))) as run:
            wait_until(lambda: len(ready(one)) == 10, "everything at the one that works")
            assert after(source) == []
            view = run.board.picture().routes[0]
            assert (view.state, view.away) == (RouteState.RUNNING, ("far",))
            begun = run.count(What.BEGUN)
            send(Drop.at(str(source)), tmp_path, "one more")
            wait_until(lambda: len(ready(one)) == 11, "what comes later, without delay")
            # Those that wait for nobody else are left alone: they are not claimed again and again.
            assert run.count(What.BEGUN) - begun <= 4
            proxy.heal()
            wait_until(lambda: len(after(source)) == 11, "after images, once the dead one is back")
            assert run.board.picture().routes[0].away == ()
    assert len(ready(place.seen)) == len(ready(one)) == 11
    assert run.count(What.PUBLISHED, "one") == run.count(What.PUBLISHED, "far") == 11, "a retry goes only where it failed"
    assert run.count(What.KNOWN) == 0, "what was told once is no news at each retry"


def test_what_a_consumer_has_archived_meanwhile_is_not_published_again(tmp_path: Path) -> None:
    """One destination is away for so long that the other's consumer has processed its item and thrown it out."""
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    send(Drop.at(str(source)), tmp_path, "a")
    late = tmp_path / "late"
    ends = (("late", Drop.at(str(late))), ("one", Drop.at(str(one))))
    with running(route(tmp_path, Drop.at(str(source)), *ends)):
        wait_until(lambda: ready(one), "the one that works")
    for path in one.iterdir():
        path.unlink()
    late.mkdir()
    with running(route(tmp_path, Drop.at(str(source)), *ends)) as run:
        wait_until(lambda: after(source), "the after image")
    assert (ready(late), ready(one)) == ([f"{GROUP}0000000001.csv"], [])
    assert (run.count(What.KNOWN, "one"), run.count(What.PUBLISHED, "one")) == (1, 0)


def test_a_replay_goes_to_all_of_them_again(tmp_path: Path) -> None:
    source, one, two = (folder(tmp_path, name) for name in ("source", "one", "two"))
    send(Drop.at(str(source)), tmp_path, "a")
    with running(route(tmp_path, Drop.at(str(source)), ("one", Drop.at(str(one))), ("two", Drop.at(str(two))))):
        wait_until(lambda: after(source), "the after image")
        for place in (one, two):
            for path in place.glob(f"{GROUP}*"):
                path.unlink()
        for path in source.glob("A_*"):
            path.rename(source / path.name.removeprefix("A_"))
        wait_until(lambda: after(source) and ready(one) and ready(two), "the same once more")


def test_a_replay_reaches_also_one_that_was_away_when_it_was_asked_for_and_each_once(tmp_path: Path) -> None:
    source, near, far = (folder(tmp_path, name) for name in ("source", "near", "far"))
    send(Drop.at(str(source)), tmp_path, "a")

    def take(place: Path) -> None:
        """Its consumer has processed it, and thrown it out."""
        for path in place.glob(f"{GROUP}*"):
            path.unlink()

    with running(route(tmp_path, Drop.at(str(source)), ("near", Drop.at(str(near))), ("far", Drop.at(str(far))))) as run:
        wait_until(lambda: after(source), "the after image")
        take(near)
        take(far)
        unmounted = far.rename(tmp_path / "unmounted")
        send(Drop.at(str(source)), tmp_path, "b")  # so that the one that is away is known to be
        wait_until(lambda: ready(near) and run.board.picture().routes[0].away == ("far",), "the one that can be reached")
        take(near)
        for path in source.glob("A_*"):
            path.rename(source / path.name.removeprefix("A_"))
        wait_until(lambda: ready(near), "what was asked for again")
        take(near)
        unmounted.rename(far)
        wait_until(lambda: len(after(source)) == 2, "both")
        assert (run.count(What.PUBLISHED, "near"), run.count(What.PUBLISHED, "far")) == (3, 3)
    assert (ready(near), ready(far)) == ([], [f"{GROUP}0000000001.csv", f"{GROUP}0000000002.csv"])


def test_an_error_image_that_is_brought_back_goes_only_where_it_failed(tmp_path: Path) -> None:
    source, one, two = (folder(tmp_path, name) for name in ("source", "one", "two"))
    send(Drop.at(str(two)), tmp_path, "another one's")
    send(Drop.at(str(source)), tmp_path, "ours")
    ends = (("one", Drop.at(str(one))), ("two", Drop.at(str(two))))
    with running(route(tmp_path, Drop.at(str(source)), *ends, max_attempts=1)) as run:
        wait_until(lambda: list(source.glob("E_*.reason.json")), "the error image")
        for place in (one, two):
            for path in place.glob(f"{GROUP}*"):
                path.unlink()
        for path in sorted(source.glob("E_*")):
            if path.name.endswith("reason.json"):
                path.unlink()
            else:
                path.rename(source / path.name.removeprefix("E_"))
        wait_until(lambda: after(source), "the after image")
        assert run.count(What.PUBLISHED, "one") == 1
    assert (ready(one), ready(two)) == ([], [f"{GROUP}0000000001.csv"])


def test_numbers_of_the_destinations_own_counter(tmp_path: Path) -> None:
    """Two sources into one drop: their numbers are the same, and nothing is in anybody's way."""
    east, west, all_ = (folder(tmp_path, name) for name in ("east", "west", "all"))
    for place, text in ((east, "from the east"), (west, "from the west")):
        send(Drop.at(str(place)), tmp_path, text)
    routes = [
        replace(route(tmp_path, Drop.at(str(place)), ("all", Drop.at(str(all_))), counter=True), title=place.name)
        for place in (east, west)
    ]
    with running(*routes):
        wait_until(lambda: after(east) and after(west), "after images")
    assert sorted((all_ / name).read_text() for name in ready(all_)) == ["from the east", "from the west"]
    assert ready(all_) == [f"{GROUP}0000000001.csv", f"{GROUP}0000000002.csv"]


def test_a_number_that_somebody_else_uses_there_fails_after_its_attempts_and_says_who_has_it(tmp_path: Path) -> None:
    source, one, two = (folder(tmp_path, name) for name in ("source", "one", "two"))
    send(Drop.at(str(two)), tmp_path, "another one's")
    send(Drop.at(str(source)), tmp_path, "ours")
    ends = (("one", Drop.at(str(one))), ("two", Drop.at(str(two))))
    with running(route(tmp_path, Drop.at(str(source)), *ends, max_attempts=2)):
        wait_until(lambda: list(source.glob("E_*.reason.json")), "the error image")
    reason = next(source.glob("E_*.reason.json")).read_text()
    assert "one of 2 destinations have it" in reason
    assert "in use" in reason
    assert (two / f"{GROUP}0000000001.csv").read_text() == "another one's"


def test_a_plain_folder_gets_files_under_their_own_names(tmp_path: Path) -> None:
    source, folder_ = folder(tmp_path, "source"), folder(tmp_path, "folder")
    send(Drop.at(str(source)), tmp_path, "a", "b")
    with running(route(tmp_path, Drop.at(str(source)), ("folder", Drop.at(str(folder_))), original_names=True)):
        wait_until(lambda: len(after(source)) == 2, "after images")
    assert sorted(path.name for path in folder_.iterdir()) == ["file-0.csv", "file-1.csv"]


@pytest.mark.parametrize("kind", ["sftp", "smb"])
def test_a_plain_folder_whose_server_is_away_for_a_while(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    place: Place = make_place(request, kind)
    assert place.server is not None
    source = folder(tmp_path, "source")
    with Proxy("127.0.0.1", place.server.port) as proxy:
        far = Drop(place.through(proxy.port).endpoint, place.rules)
        with running(route(tmp_path, Drop.at(str(source)), ("far", far), original_names=True)) as run:
            send(Drop.at(str(source)), tmp_path, "a")
            wait_until(lambda: len(after(source)) == 1, "the first")
            proxy.refuse()
            send(Drop.at(str(source)), tmp_path, "b", "c")
            wait_until(lambda: run.count(What.REFUSED), "the failure")
            proxy.heal()
            wait_until(lambda: len(after(source)) == 3, "the others")
    # "file-0.csv" came twice, with another content each time: both are kept.
    assert sorted(path.name for path in place.seen.iterdir()) == ["file-0+1.csv", "file-0.csv", "file-1.csv"]


def test_only_what_the_filter_lets_pass_is_taken(tmp_path: Path) -> None:
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    send(Drop.at(str(source)), tmp_path, "bill", meta={"kind": "invoice"})
    send(Drop.at(str(source)), tmp_path, "letter", meta={"kind": "letter"})
    end = ("one", Drop.at(str(one)))
    with running(route(tmp_path, Drop.at(str(source)), end, meta={"kind": "invoice"})) as run:
        wait_until(lambda: after(source), "the after image")
        time.sleep(1.0)
        assert run.count(What.BEGUN) == 1
    assert (ready(source), ready(one)) == ([f"{GROUP}0000000002.csv"], [f"{GROUP}0000000001.csv"])
