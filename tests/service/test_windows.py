"""Time windows and bandwidth of a route."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gateway.drop import Drop
from gateway.service.board import Moving, RouteState
from gateway.times import Window
from tests.service.test_fanout import after, folder, route, running, send, wait_until


def window_in(hours: int) -> Window:
    """An hour of the week that begins so many hours from now."""
    begin = datetime.now(UTC) + timedelta(hours=hours)
    return Window(frozenset({begin.weekday()}), begin.hour * 60 + begin.minute, (begin.hour * 60 + begin.minute + 60) % 1440)


def test_outside_its_windows_a_route_takes_nothing_and_says_so(tmp_path: Path) -> None:
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    send(Drop.at(str(source)), tmp_path, "a")
    closed = route(tmp_path, Drop.at(str(source)), ("one", Drop.at(str(one))), windows=(window_in(30),), timezone="UTC")
    with running(closed) as run:
        wait_until(lambda: run.board.picture().routes[0].state is RouteState.PAUSED, "the pause")
        time.sleep(1.0)
        assert (after(source), run.told) == ([], [])
    assert 28 * 3600 < closed.opens_in() < 31 * 3600


def test_inside_a_window_it_works(tmp_path: Path) -> None:
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    send(Drop.at(str(source)), tmp_path, "a")
    open_now = (window_in(30), window_in(0))
    with running(route(tmp_path, Drop.at(str(source)), ("one", Drop.at(str(one))), windows=open_now, timezone="UTC")):
        wait_until(lambda: after(source), "the after image")


def test_a_slow_transfer_is_seen_moving_and_given_back_when_it_takes_too_long_to_end(tmp_path: Path) -> None:
    """600 KB at 10 KB a second: nobody waits a minute for a stop that may take one."""
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    send(Drop.at(str(source)), tmp_path, "x" * 600_000)
    slow = route(tmp_path, Drop.at(str(source)), ("one", Drop.at(str(one))), bandwidth=10_000.0)
    moving: list[Moving] = []
    with running(slow) as run:
        run.daemon.stop_timeout = 1.0

        def seen() -> bool:
            moving[:] = run.board.picture().routes[0].moving
            return bool(moving and moving[0].done)

        wait_until(seen, "bytes moving")
        assert moving[0].total == 600_000
        begun = time.monotonic()
    assert time.monotonic() - begun < 30
    names = sorted(path.name for path in source.iterdir() if not path.name.startswith("S_"))
    assert names == ["orders_0000000001.csv", "orders_0000000001.manifest.json"], "ready again, and no lease"
    assert list(one.iterdir()) == [], "nothing unfinished is left"
