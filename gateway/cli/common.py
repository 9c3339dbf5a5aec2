"""What every command shares: how a drop is named, how failures end, and what goes to which stream.

Standard output carries results and nothing else; progress, logs and errors go to standard error.
"""

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.console import Console

from gateway.drop import Drop
from gateway.errors import ConfigurationError, GatewayError, UnfitDrop
from gateway.settings import DropSettings, Settings, find_file, load
from protocol.errors import InvalidName, ProtocolError
from protocol.names import Grammar
from transports.endpoint import Endpoint
from transports.errors import TransportError, UnsafePath
from transports.urls import InvalidURL, parse_url

DONE, SOME_FAILED, USAGE, ENDPOINT = 0, 1, 2, 3

errors = Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """One line of result."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say_json(value: dict[str, Any]) -> None:
    """One object a line, UTF-8."""
    say(json.dumps(value, ensure_ascii=False))


def complain(error: BaseException, prefix: str = "") -> None:
    """An error, and what is known besides, for the person at the terminal."""
    errors.print(f"dropgate: {prefix}{error}", style="red", markup=False)
    for note in getattr(error, "__notes__", ()):
        errors.print(f"  {note}", markup=False)


def exit_code(error: BaseException) -> int:
    """Which exit code an error that ended a command means."""
    if isinstance(error, ConfigurationError | InvalidName | InvalidURL | UnsafePath):
        return USAGE
    if isinstance(error, TransportError | UnfitDrop):
        return ENDPOINT
    return SOME_FAILED


@contextlib.contextmanager
def failures_end_well() -> Iterator[None]:
    """Turns what a command can raise into a message and an exit code; a fault of our own ends with its trace."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt as error:
        for note in getattr(error, "__notes__", ()):
            errors.print(f"  {note}", markup=False)
        errors.print("dropgate: interrupted", style="red")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # Whoever read our results has gone, as `| head` does; there is nobody left to tell.
        sys.stderr.close()
        raise typer.Exit(SOME_FAILED) from None
    except (GatewayError, ProtocolError, TransportError, InvalidURL, OSError) as error:
        complain(error)
        raise typer.Exit(exit_code(error)) from None


def open_drop(name: str, config: Path | None, host_key: str | None = None, **rules: Any) -> Drop:
    """The drop a command was given: a URL, a path, or a name of the configuration, which comes first.

    `rules` are settings of the command line; they belong to a URL, since a drop with a name has its own.
    """
    path = find_file(config)
    settings = load(path) if path is not None else Settings()
    given = {key: value for key, value in rules.items() if value is not None}
    if name in settings.drop:
        if given:
            raise ConfigurationError(
                f"{name} is a drop of {path}: its {', '.join(given)} is set there, not on the command line"
            )
        drop = settings.open_drop(name)
    elif "://" in name or "/" in name or name.startswith((".", "~")):
        drop = Drop(Endpoint(parse_url(name)), DropSettings(url=name, **given).rules())
    else:
        known = f"; {path} has {', '.join(sorted(settings.drop))}" if path is not None and settings.drop else ""
        raise ConfigurationError(f"{name!r} is no drop of the configuration{known}. For a folder here, write ./{name}")
    if host_key is not None:
        return replace(drop, endpoint=replace(drop.endpoint, host_key=host_key))
    return drop


def item_text(grammar: Grammar, group: str, number: int) -> str:
    """An item as people call it: its name without mark and suffix."""
    return group + grammar.digits(number)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and the first Ctrl-C set, so that the item at hand is finished; a second Ctrl-C interrupts."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
