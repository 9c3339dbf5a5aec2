"""A configuration that changes while it runs: what is as it was goes on, what is wrong is refused whole."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.drop import Drop
from gateway.service.service import Service
from gateway.settings import load
from tests.e2e import commands
from tests.service.test_fanout import after, folder, send, wait_until

DROP = '[drop.{0}]\nurl = "{0}"\ngroups = ["orders_"]\n'
ROUTE = '[[route]]\nname = "{0}"\nfrom = "{1}"\nto = "{2}"\npoll = 0.2\nlease_ttl = 3\n'


def text(*routes: tuple[str, str, str]) -> str:
    names = dict.fromkeys(name for _, *ends in routes for name in ends)
    return "".join([DROP.format(name) for name in names] + [ROUTE.format(*route) for route in routes])


def write(path: Path, content: str) -> None:
    """As editors do: a new file in the place of the old one."""
    fresh = path.with_suffix(".new")
    fresh.write_text(content)
    fresh.replace(path)


def leases(place: Path) -> list[str]:
    return sorted(path.name for path in place.glob("L_*"))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("a", "b", "c", "d"):
        folder(tmp_path, name)
    path = tmp_path / "dropgate.toml"
    write(path, text(("one", "a", "b")))
    return path


@pytest.fixture
def service(config: Path) -> Iterator[Callable[[], Service]]:
    stop = threading.Event()
    made = Service(config, load(config), stop)
    thread = threading.Thread(target=made.run)

    def begin() -> Service:
        thread.start()
        wait_until(lambda: leases(config.parent / "a"), "the route's lease")
        return made

    yield begin
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_route_that_is_added_begins_and_the_other_goes_on_undisturbed(
    config: Path, service: Callable[[], Service], tmp_path: Path
) -> None:
    service()
    owner = leases(tmp_path / "a")
    write(config, text(("one", "a", "b"), ("two", "c", "d")))
    wait_until(lambda: leases(tmp_path / "c"), "the new route's lease")
    for place in ("a", "c"):
        send(Drop.at(str(tmp_path / place)), tmp_path, "content")
    wait_until(lambda: after(tmp_path / "a") and after(tmp_path / "c"), "after images of both")
    assert leases(tmp_path / "a") == owner, "the same worker, all the time"


def test_a_route_that_is_gone_ends_and_leaves_nothing(config: Path, service: Callable[[], Service], tmp_path: Path) -> None:
    service()
    write(config, text(("two", "c", "d")))
    wait_until(lambda: leases(tmp_path / "c") and not leases(tmp_path / "a"), "one route for the other")


def test_a_route_that_has_changed_begins_anew(config: Path, service: Callable[[], Service], tmp_path: Path) -> None:
    service()
    owner = leases(tmp_path / "a")
    write(config, text(("one", "a", "c")))
    wait_until(lambda: leases(tmp_path / "a") not in ([], owner), "another worker")
    send(Drop.at(str(tmp_path / "a")), tmp_path, "content")
    wait_until(lambda: list((tmp_path / "c").glob("orders_*.csv")), "the item at the new destination")
    assert not list((tmp_path / "b").glob("orders_*.csv"))


def test_a_file_with_errors_is_refused_whole(config: Path, service: Callable[[], Service], tmp_path: Path) -> None:
    running = service()
    owner, before = leases(tmp_path / "a"), running.settings
    write(config, text(("one", "a", "b"), ("two", "c", "d")) + 'nonsense = "here"\n')
    time.sleep(2.5)
    send(Drop.at(str(tmp_path / "a")), tmp_path, "content")
    wait_until(lambda: after(tmp_path / "a"), "the old route's work")
    assert (leases(tmp_path / "a"), leases(tmp_path / "c"), running.settings) == (owner, [], before)
    write(config, text(("one", "a", "b"), ("two", "c", "d")))
    wait_until(lambda: leases(tmp_path / "c"), "the new route, once the file is mended")
    assert leases(tmp_path / "a") == owner


def test_sighup_reads_the_file_again_and_sigterm_ends_it(config: Path, tmp_path: Path) -> None:
    """A secret in a file beside it has changed, and not the configuration itself: only the signal tells."""
    with commands.service(config, XDG_STATE_HOME=str(tmp_path / "state")) as running:
        wait_until(lambda: leases(tmp_path / "a"), "the route's lease")
        os.kill(running.process.pid, signal.SIGHUP)
        wait_until(lambda: "configuration reloaded" in running.tail(), "the reload")
        assert running.stop() == 0
    assert leases(tmp_path / "a") == []
