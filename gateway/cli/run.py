"""`dropgate run`: runs the routes of a configuration until it is told to stop."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.common import DONE, SOME_FAILED, failures_end_well
from gateway.cli.logs import set_up_logs
from gateway.cli.signals import set_on_sighup, stop_on_signals
from gateway.errors import ConfigurationError
from gateway.settings import load


def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The configuration file.", show_default=False)],
    once: Annotated[bool, typer.Option("--once", help="End when every source is empty.")] = False,
) -> None:
    """Carry items along the routes of CONFIG.toml.

    SIGTERM and Ctrl-C finish the item at hand and leave no claim behind; a second Ctrl-C gives it back. SIGHUP, or a
    change of the file, reloads it: routes that are as they were go on undisturbed.
    """
    with failures_end_well():
        set_up_logs(sys.stderr)
        if not config.exists():
            raise ConfigurationError(f"there is no configuration file {config}")
        settings = load(config)
        if not settings.route:
            raise ConfigurationError(f"{config} has no [[route]]; nothing would be done")
        # Only now: it takes longer to import than a short command to run.
        from gateway.service.service import Service

        with stop_on_signals() as stop:
            service = Service(config, settings, stop)
            if once:
                raise typer.Exit(DONE if service.run_once() else SOME_FAILED)
            with set_on_sighup(service.reload):
                service.run()
