"""The end of every schedule: all stop where they are, and what is left must heal and must be explained."""

from collections.abc import Callable

from protocol.procedures.sweep import Unwanted
from protocol.recovery import Ages
from protocol.states import State
from tests.simulation.actors import TTL, Host, sweeper
from tests.simulation.engine import Drop, Engine, shorten
from tests.simulation.world import Violation

_LONG = 36_000.0  # seconds, after which everything is old


def rest(engine: Engine, *, sweep_first: bool = True) -> None:
    """All stop where they are, for a long time. Then one sweeper, and a consumer of each drop, must heal everything."""
    engine.quiet = True
    for name in sorted({a.host.name for a in engine.actors if not a.over}):
        engine.kill(name)
    engine.end_orphans()
    engine.actors, engine.settings = [], []
    for drop in engine.drops:
        engine.carry_out_late(drop.world)
        drop.world.held.clear()
    for index, drop in enumerate(engine.drops):
        # The source of a route is healed before its destination is: a route that goes on needs both.
        _heal(engine, drop, index, sweep_first=sweep_first)
    if len(engine.drops) > 1:
        _sweep(engine, engine.drops[-1], "late")
    for drop in engine.drops:
        drop.promises.check_rest()
    _check_routes(engine)


def _heal(engine: Engine, drop: Drop, index: int, *, sweep_first: bool) -> None:
    host = Host(f"last{index}", 0.0)
    if sweep_first:
        _sweep(engine, drop, f"sweep{index}")
        for path in drop.world.files:
            drop.promises.check_swept(path, drop.world.name(path), set())
    to = engine.drops[1] if len(engine.drops) > 1 and index == 0 else None
    if to is not None:
        _sweep(engine, to, "ahead")
    _consume_all(engine, drop, host, to)
    if not sweep_first:
        _sweep(engine, drop, f"sweep{index}")
        _consume_all(engine, drop, host, to)  # what the sweeper has published


def _consume_all(engine: Engine, drop: Drop, host: Host, to: Drop | None) -> None:
    setting = engine.add_consumer(drop, host, forward=to)
    _until(engine, lambda: setting.idle >= 3 and not _is_waiting(drop), 4000)
    setting.draining = True
    _until(engine, lambda: False, 4000)


def _is_waiting(drop: Drop) -> bool:
    """Whether a watcher must still look on: a claim or lease of the dead is given its time."""
    return any(p.startswith(("C_", "processing/", "L_")) and "last" not in p for p in drop.world.files)


def _sweep(engine: Engine, drop: Drop, name: str) -> None:
    engine.tick(_LONG)
    host = Host(name, 0.0)
    setting = engine.setting(drop, host)
    setting.draining = True
    engine.add(name, host, drop, sweeper(setting, 6, Unwanted.DELETE, Ages(before=TTL)))
    _until(engine, lambda: False, 4000)


def _until(engine: Engine, enough: Callable[[], bool], steps: int) -> None:
    for _ in range(steps):
        if enough() or not engine.go_on():
            return
    living = ", ".join(f"{a.name} at {shorten(a.operation)}" for a in engine.actors if not a.over)
    raise Violation(f"ARRIVES: somebody is busy long after everything should be at rest: {living}")


def _check_routes(engine: Engine) -> None:
    """What was processed at the source of a route is at its destination, once."""
    if len(engine.drops) < 2:
        return
    source, to = engine.drops
    # A second delivery of a key is acknowledged at the source, by what is known of the first.
    for item in {entry.item for entry in source.promises.ledger.values()}:
        names = [source.world.name(path) for path in source.world.files]
        away = any(
            n is not None and n.item == item and n.state is State.AFTER and source.world.rules.is_token(n.kind) for n in names
        )
        if away and to.promises.tokens[item] != 1:
            raise Violation(f"ROUTED: item {item.number} was forwarded, and published {to.promises.tokens[item]} times")
