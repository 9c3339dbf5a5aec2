"""Boards made up: a route from `out` to `bank`, and drops that hold what their names say."""

from collections.abc import Iterable

from gateway.service.board import Board, DropView, RouteState, RouteView
from protocol.rules import Rules
from protocol.snapshot import Listed, Snapshot, take_snapshot

NOW = 1_796_000_000.0  # by the server's clock
ROUTE = "out -> bank"


def board_with(state: RouteState = RouteState.RUNNING, *views: DropView) -> Board:
    """A board of a started service with one route."""
    board = Board(utc=lambda: "2026-11-30T10:00:00.000000Z", started="2026-11-30T10:00:00.000000Z")
    board.add_route(RouteView(ROUTE, "out", ("bank",), ("orders_",), state))
    for view in views:
        board.set_drop(view)
    return board


def snapshot_of(names: Iterable[str], age: float = 0.0) -> Snapshot:
    """A drop with these names in it, last written so many seconds ago."""
    return take_snapshot([Listed(name, size=8, modified=NOW - age) for name in names], Rules())


def drop_view(name: str, names: Iterable[str] = (), age: float = 0.0) -> DropView:
    """A drop as it was seen just now."""
    return DropView(
        name,
        f"file:///srv/{name}",
        snapshot_of(names, age),
        "2026-11-30T10:00:00.000000Z",
        NOW,
        took=0.25,
        clock_offset=-1.5,
        free_space=10**12,
    )
