"""The command `dropgate`."""

import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from gateway.cli.check import check
from gateway.cli.init import init
from gateway.cli.log import log
from gateway.cli.password import hash_password
from gateway.cli.receive import receive
from gateway.cli.replay import replay
from gateway.cli.run import run
from gateway.cli.schema import schema
from gateway.cli.send import send
from gateway.cli.status import status
from gateway.cli.sweep import sweep

app = typer.Typer(
    name="dropgate",
    help="Hand files from one host to another through a plain directory: local disk, SFTP and SMB.",
    epilog="Exit codes: 0 done, 1 some item failed, 2 usage or configuration, 3 endpoint unreachable or refused, "
    "4 the time of --wait was up.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a trace with local variables would show passwords
    rich_markup_mode=None,  # help and usage errors as plain lines, which also a pipe, a log and a screen reader take
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"dropgate {version('dropgate')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options before the command."""


for command in (send, receive, run, status, sweep, replay, log, check, init, schema, hash_password):
    app.command()(command)


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file name that the terminal's encoding lacks must not end a command whose work is done.
            stream.reconfigure(errors="backslashreplace")
    app()
