"""Whether the service works, and whether it does what it is for: two different questions of whoever keeps it running.

`healthz` fails where a restart would help: a thread that hangs. `readyz` fails where a restart would not: an endpoint that is
away, a login that is refused.
"""

from gateway.service.board import Board, RouteState

STALLED = 600.0  # seconds: longer than a route waits for a server that is away, through all of its tries
_LOCK_PATIENCE = 2.0  # seconds

Report = tuple[bool, dict[str, object]]

_READY = (RouteState.RUNNING, RouteState.PAUSED)


def healthz(board: Board, stalled: float = STALLED) -> Report:
    """Whether the process works: each route's threads have been heard of within `stalled` seconds, and none is deadlocked.

    With what is wrong, for JSON: {"status": "ok" or "failing", "reasons": [...]}.
    """
    if not board.answers(_LOCK_PATIENCE):
        return _report([f"the state of the service has been locked for {_LOCK_PATIENCE:g} s"])
    return _report([f"route {title!r} has not been heard of for {stalled:g} s" for title in board.stalled(stalled)])


def readyz(board: Board) -> Report:
    """Whether the service has started and every route carries items, or is outside its time windows.

    With what is wrong, for JSON, as `healthz`, and with the state of each route: {"routes": {...}}.
    """
    if not board.answers(_LOCK_PATIENCE):
        return _report([f"the state of the service has been locked for {_LOCK_PATIENCE:g} s"])
    picture = board.picture()
    reasons = [] if picture.started else ["it has not started"]
    reasons += [
        f"route {view.title!r} is {view.state.value}" + (f": {view.trouble}" if view.trouble else "")
        for view in picture.routes
        if view.state not in _READY
    ]
    ok, report = _report(reasons)
    return ok, report | {"routes": {view.title: view.state.value for view in picture.routes}}


def _report(reasons: list[str]) -> Report:
    return not reasons, {"status": "failing" if reasons else "ok", "reasons": reasons}
