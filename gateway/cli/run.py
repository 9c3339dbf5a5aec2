"""`dropgate run`: runs the routes of a configuration until it is told to stop."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.common import DONE, SOME_FAILED, failures_end_well
from gateway.cli.ledgers import open_ledger_of
from gateway.cli.logs import set_up_logs
from gateway.cli.signals import stop_on_signals
from gateway.errors import ConfigurationError
from gateway.handoff.ordering import Strictness
from gateway.sections import RouteSettings
from gateway.service.daemon import Daemon, Route
from gateway.settings import Settings, load


def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The configuration file.", show_default=False)],
    once: Annotated[bool, typer.Option("--once", help="End when every source is empty.")] = False,
) -> None:
    """Carry items along the routes of CONFIG.toml.

    SIGTERM and Ctrl-C finish the item at hand and leave no claim behind; a second Ctrl-C gives it back.
    """
    with failures_end_well():
        set_up_logs(sys.stderr)
        if not config.exists():
            raise ConfigurationError(f"there is no configuration file {config}")
        settings = load(config)
        if not settings.route:
            raise ConfigurationError(f"{config} has no [[route]]; nothing would be done")
        routes = [_route(settings, route, config) for route in settings.route]
        with stop_on_signals() as stop:
            daemon = Daemon(routes, stop)
            daemon.run(once=once)
        raise typer.Exit(SOME_FAILED if once and daemon.failed else DONE)


def _route(settings: Settings, route: RouteSettings, config: Path) -> Route:
    source = settings.open_drop(route.from_)
    return Route(
        route.title,
        source,
        settings.open_drop(route.to[0]),
        tuple(route.groups or settings.drop[route.from_].groups),
        route.ordering,
        route.workers,
        route.max_attempts,
        route.poll,
        route.lease_ttl,
        Strictness(route.gap_timeout, route.on_gap, route.on_error),
        open_ledger_of(source, None, None, config),
        settings.drop[route.from_].ages(),
    )
