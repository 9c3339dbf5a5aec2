"""Observers keep the board's view of every drop fresh, at little cost, and a dead endpoint holds up nobody but itself."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from gateway.drop import Drop
from gateway.handoff.circuit import Circuit
from gateway.handoff.clock import Clock
from gateway.handoff.slots import Slots
from gateway.service.board import Board, DropView
from gateway.service.observer import SHARE, Observers
from protocol.names import ItemId
from protocol.rules import Rules
from protocol.snapshot import Snapshot
from testenv.proxy import Proxy
from testenv.servers import SftpServer, SmbServer
from tests.crash.conftest import make_place
from tests.gateway.tools import hand_over, names
from transports.endpoint import Endpoint, Timeouts

PATIENCE = 60.0  # seconds
QUICK = 0.01  # seconds between two looks
FIRST = ItemId("orders_", 1)

T = TypeVar("T")

Begin = Callable[[float], Observers]


@pytest.fixture
def board() -> Board:
    return Board(utc=Clock().utc)


@pytest.fixture
def begin(board: Board) -> Iterator[Begin]:
    """Makes observers of the board, and ends them."""
    made: list[Observers] = []

    def make(interval: float) -> Observers:
        made.append(Observers(board, Clock(), interval))
        return made[-1]

    yield make
    for observers in made:
        observers.close()


def until(board: Board, name: str, true: Callable[[DropView], object]) -> DropView:
    """The first view of a drop of which this is true."""
    deadline = time.monotonic() + PATIENCE
    while True:
        view = board.picture().drop(name)
        if view is not None and true(view):
            return view
        assert time.monotonic() < deadline, f"waited in vain; the last view is {view}"
        time.sleep(0.01)


def seen(view: DropView) -> Snapshot:
    assert view.snapshot is not None
    return view.snapshot


def items(view: DropView) -> set[ItemId]:
    return set() if view.snapshot is None else set(view.snapshot.items)


@pytest.mark.parametrize("kind", ["local", "sftp", "smb"])
def test_what_a_drop_holds_is_on_the_board(request: pytest.FixtureRequest, kind: str, board: Board, begin: Begin) -> None:
    place = make_place(request, kind)
    hand_over(place.seen, 1)
    before = names(place.seen)
    began = time.time()
    begin(QUICK).watch({"out": place.drop()})
    view = until(board, "out", lambda view: view.looked_at)
    assert items(view) == {FIRST}
    assert view.place == str(place.drop())
    assert "secret" not in view.place
    assert view.took > 0
    assert (view.trouble, view.away_since) == ("", "")
    # Both clocks are this host's: far less than the minute that an alarm would ask about.
    assert view.clock_offset is not None
    assert abs(view.clock_offset) < 10
    assert view.server_time is not None
    assert view.server_time == pytest.approx(datetime.fromisoformat(view.looked_at).timestamp() + view.clock_offset)
    assert view.server_time > began - 10
    assert view.free_space is not None
    assert view.free_space > 0
    hand_over(place.seen, 2)
    until(board, "out", lambda view: ItemId("orders_", 2) in items(view))
    left = [name for name in names(place.seen) if "0000000002" not in name]
    assert [name for name in left if not name.startswith("T_")] == before, "nothing is changed"


def connections(port: int) -> int:
    """How many connections of this process to a port are open."""
    found = [one for one in psutil.Process().net_connections("tcp4") if one.raddr[1:] == (port,)]
    return len([one for one in found if one.status == psutil.CONN_ESTABLISHED])


def wait_for_connection(port: int) -> None:
    """Until this process has one to a port."""
    deadline = time.monotonic() + PATIENCE
    while not connections(port):
        assert time.monotonic() < deadline, "no connection was made"
        time.sleep(0.01)


def test_before_the_first_look_a_drop_is_known_and_nothing_of_it(board: Board, begin: Begin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and says nothing
        begin(QUICK).watch({"far": Drop.at(f"sftp://me@127.0.0.1:{silent.getsockname()[1]}/x")})
        view = board.picture().drop("far")
    assert view is not None
    assert (view.snapshot, view.looked_at, view.trouble) == (None, "", "")


def test_a_dead_endpoint_holds_up_only_itself(
    tmp_path: Path, board: Board, begin: Begin, sftp_server: SftpServer, proxy_factory: Callable[[str, int], Proxy]
) -> None:
    proxy = proxy_factory(sftp_server.host, sftp_server.port)
    proxy.black_hole()  # takes connections, and says nothing for as long as one waits
    observers = begin(QUICK)
    far = Drop(replace(sftp_server.endpoint(port=proxy.port), timeouts=Timeouts(connect=600.0)))
    observers.watch({"far": far, "near": Drop.at(str(tmp_path))})
    wait_for_connection(proxy.port)
    for number in (1, 2, 3):
        hand_over(tmp_path, number)
        until(board, "near", lambda view, number=number: ItemId("orders_", number) in items(view))  # type: ignore[misc]
    far_view = board.picture().drop("far")
    assert far_view is not None
    assert far_view.looked_at == ""
    observers.close(timeout=0.1)  # does not wait for the far one either


class Hangs(Circuit):
    """A mount whose server says nothing any more."""

    def __init__(self, let_go: threading.Event) -> None:
        super().__init__(Clock())
        self.let_go = let_go

    def connect(self, open_connection: Callable[[], T]) -> T:
        self.let_go.wait()
        return open_connection()


def test_a_local_folder_that_hangs_holds_up_only_itself(tmp_path: Path, board: Board, begin: Begin) -> None:
    let_go = threading.Event()
    drops = {}
    for name in ("hanging", "working"):
        (tmp_path / name).mkdir()
        drops[name] = Drop.at(str(tmp_path / name))
    drops["hanging"] = replace(drops["hanging"], circuit=Hangs(let_go))
    begin(QUICK).watch(drops)
    try:
        first = until(board, "working", lambda view: view.looked_at)
        until(board, "working", lambda view: view.looked_at > first.looked_at)
        until(board, "hanging", lambda view: not view.looked_at)
    finally:
        let_go.set()
    until(board, "hanging", lambda view: view.looked_at)


def test_a_drop_that_goes_away_is_told_with_what_was_known_and_comes_back(tmp_path: Path, board: Board, begin: Begin) -> None:
    folder, elsewhere = tmp_path / "drop", tmp_path / "elsewhere"
    folder.mkdir()
    hand_over(folder, 1)
    begin(QUICK).watch({"out": Drop.at(str(folder))})
    until(board, "out", lambda view: view.looked_at)
    folder.rename(elsewhere)
    first = until(board, "out", lambda view: view.trouble)
    assert items(first) == {FIRST}, "what was last seen"
    assert first.looked_at < first.away_since
    later = until(board, "out", lambda view: view.trouble and view is not first)
    assert later.away_since == first.away_since
    assert later.looked_at == first.looked_at
    elsewhere.rename(folder)
    back = until(board, "out", lambda view: not view.trouble)
    assert back.away_since == ""
    assert back.looked_at > first.away_since


def test_an_endpoint_that_refuses_is_told(board: Board, begin: Begin, sftp_server: SftpServer) -> None:
    proxy = Proxy(sftp_server.host, sftp_server.port)
    endpoint = sftp_server.endpoint(port=proxy.port)
    proxy.close()
    begin(QUICK).watch({"far": Drop(endpoint)})
    view = until(board, "far", lambda view: view.trouble)
    assert "refused" in view.trouble
    assert view.away_since


@pytest.mark.parametrize("kind", ["sftp", "smb"])
def test_where_nothing_may_be_written_the_drop_is_seen_and_its_clock_is_not_known(
    request: pytest.FixtureRequest, kind: str, board: Board, begin: Begin
) -> None:
    endpoint: Endpoint
    if kind == "sftp":
        sftp: SftpServer = request.getfixturevalue("sftp_server")
        endpoint = sftp.endpoint(sftp.readonly)
    else:
        smb: SmbServer = request.getfixturevalue("smb_server")
        endpoint = smb.endpoint(smb.readonly)
    begin(QUICK).watch({"out": Drop(endpoint)})
    view = until(board, "out", lambda view: view.looked_at or view.trouble)
    assert view.trouble == ""
    assert [listed.path for listed in seen(view).foreign] == ["present.txt"]
    assert (view.clock_offset, view.server_time) == (None, None)


def test_no_more_than_a_twentieth_of_the_time_is_spent_looking(
    board: Board,
    begin: Begin,
    sftp_server: SftpServer,
    sftp_dir: str,
    proxy_factory: Callable[[str, int], Proxy],
) -> None:
    proxy = proxy_factory(sftp_server.host, sftp_server.port)
    endpoint = sftp_server.endpoint(sftp_server.path(sftp_dir), port=proxy.port)
    begin(QUICK).watch({"far": Drop(endpoint)})
    first = until(board, "far", lambda view: view.looked_at)
    proxy.delay(0.02)  # a slow line: several round trips, of which each takes this and more
    slow = until(board, "far", lambda view: view.looked_at > first.looked_at and view.took > 0.04)
    after = until(board, "far", lambda view: view.looked_at > slow.looked_at)
    between = datetime.fromisoformat(after.looked_at) - datetime.fromisoformat(slow.looked_at)
    assert between.total_seconds() >= SHARE * slow.took


@pytest.mark.parametrize("limited", [True, False])
def test_where_connections_are_limited_none_is_kept_between_two_looks(
    board: Board,
    begin: Begin,
    sftp_server: SftpServer,
    sftp_dir: str,
    proxy_factory: Callable[[str, int], Proxy],
    limited: bool,
) -> None:
    proxy = proxy_factory(sftp_server.host, sftp_server.port)
    endpoint = sftp_server.endpoint(sftp_server.path(sftp_dir), port=proxy.port)
    slots = Slots(2, patience=0.0) if limited else None
    if slots is not None:
        slots.take()  # by a worker with a transfer of many hours
    begin(600.0).watch({"far": Drop(endpoint, slots=slots)})
    view = until(board, "far", lambda view: view.looked_at or view.trouble)
    assert view.trouble == ""
    assert connections(proxy.port) == (0 if limited else 1)


def test_watching_anew_keeps_what_is_unchanged_adds_and_removes(tmp_path: Path, board: Board, begin: Begin) -> None:
    drops = {}
    for name in ("kept", "changed", "removed", "added"):
        (tmp_path / name).mkdir()
        hand_over(tmp_path / name, 1)
        drops[name] = Drop.at(str(tmp_path / name))
    observers = begin(600.0)
    observers.watch({name: drops[name] for name in ("kept", "changed", "removed")})
    for name in ("kept", "changed", "removed"):
        until(board, name, lambda view: view.looked_at)
    kept = board.picture().drop("kept")
    again = Drop.at(str(tmp_path / "changed"), rules=Rules(busy_patience=1.0))
    observers.watch({"kept": Drop.at(str(tmp_path / "kept")), "changed": again, "added": drops["added"]})
    assert board.picture().drop("kept") is kept, "it goes on undisturbed"
    assert board.picture().drop("removed") is None
    for name in ("changed", "added"):
        until(board, name, lambda view: view.looked_at)
    assert board.picture().drop("kept") is kept
    observers.watch({})
    assert board.picture().drops == ()


def test_a_drop_that_moves_to_another_endpoint_is_watched_there(
    tmp_path: Path, board: Board, begin: Begin, sftp_server: SftpServer, sftp_dir: str
) -> None:
    observers = begin(QUICK)
    hand_over(tmp_path, 1)
    observers.watch({"out": Drop.at(str(tmp_path)), "other": Drop.at(str(tmp_path))})
    until(board, "out", lambda view: FIRST in items(view))
    far = Drop(sftp_server.endpoint(sftp_server.path(sftp_dir)))
    observers.watch({"out": far, "other": Drop.at(str(tmp_path))})
    view = until(board, "out", lambda view: view.looked_at)
    assert view.place == str(far)
    assert items(view) == set()


def test_after_the_end_nothing_is_written_and_nothing_stays_open(
    board: Board, begin: Begin, sftp_server: SftpServer, sftp_dir: str, proxy_factory: Callable[[str, int], Proxy]
) -> None:
    proxy = proxy_factory(sftp_server.host, sftp_server.port)
    endpoint = sftp_server.endpoint(sftp_server.path(sftp_dir), port=proxy.port)
    observers = begin(QUICK)
    observers.watch({"far": Drop(endpoint)})
    until(board, "far", lambda view: view.looked_at)
    observers.close(PATIENCE)
    assert connections(proxy.port) == 0
    last = board.picture()
    time.sleep(0.2)
    assert board.picture() == last
