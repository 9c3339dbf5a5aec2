"""What every command shares: how a drop is named, how failures end, and what goes to which stream.

Standard output carries results and nothing else; progress, logs and errors go to standard error.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from gateway.cli.options import LayoutName
from gateway.drop import Drop
from gateway.errors import ConfigurationError, GatewayError, UnfitDrop
from gateway.settings import find_file, load
from protocol.errors import InvalidName, InvalidRules, ProtocolError
from protocol.layout import FolderLayout, PrefixLayout
from protocol.names import DEFAULT_WIDTH, Grammar
from protocol.rules import Rules, Signal
from transports.endpoint import Endpoint
from transports.errors import TransportError, UnsafePath
from transports.urls import InvalidURL, parse_url

DONE, SOME_FAILED, USAGE, ENDPOINT, TIMED_OUT, INTERRUPTED = 0, 1, 2, 3, 4, 130

errors = Console(stderr=True, highlight=False, soft_wrap=True)

_HOST_KEY = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?", re.ASCII)


def readable(text: str) -> str:
    """A text in one line, whatever it holds: file names may have line breaks, escape codes and bytes that are not UTF-8."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def say(text: str) -> None:
    """One line of result."""
    sys.stdout.write(readable(text) + "\n")
    sys.stdout.flush()


def say_json(value: dict[str, Any]) -> None:
    """One object a line, in ASCII: every reader understands that, and every file name can be said in it."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def warn(text: str, *, style: str | None = None) -> None:
    """A text for the person at the terminal, of as many lines as it has."""
    errors.print("\n".join(map(readable, text.split("\n"))), style=style, markup=False)


def complain(error: BaseException, prefix: str = "") -> None:
    """An error, and what is known besides, for the person at the terminal."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, OSError) and error.filename and not prefix:
        text = f"{os.fsdecode(error.filename)}: {text}"
    warn(f"dropgate: {prefix}{text}", style="red")
    for note in getattr(error, "__notes__", ()):
        warn(f"  {note}")


def exit_code(error: BaseException) -> int:
    """Which exit code an error that ended a command means."""
    if isinstance(error, ConfigurationError | InvalidName | InvalidRules | InvalidURL | UnsafePath):
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
            warn(f"  {note}")
        warn("dropgate: interrupted", style="red")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read our results has gone, as `| head` does; there is nobody left to tell, and what Python still has to
        # write at its end must go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(SOME_FAILED) from None
    except (GatewayError, ProtocolError, TransportError, InvalidURL, OSError) as error:
        complain(error)
        raise typer.Exit(exit_code(error)) from None


def open_drop(
    name: str,
    config: Path | None,
    host_key: str | None = None,
    *,
    layout: LayoutName | None = None,
    signal: Signal | None = None,
    width: int | None = None,
) -> Drop:
    """The drop a command was given: a URL, a path, or a name of the configuration.

    Layout, signal and width of the command line belong to a URL or path: a drop with a name has its own. Raises
    ConfigurationError, InvalidURL.
    """
    if "://" in name or "/" in name or name.startswith((".", "~")):
        drop = Drop(Endpoint(parse_url(name)), _rules(layout, signal, width))
    else:
        drop = _named(name, config)
        given = {"--layout": layout, "--signal": signal, "--width": width}
        if chosen := [option for option, value in given.items() if value is not None]:
            raise ConfigurationError(f"{', '.join(chosen)}: [drop.{name}] of the configuration says that, not the command line")
    return drop if host_key is None else _pinned(drop, host_key)


def _named(name: str, config: Path | None) -> Drop:
    path = find_file(config)
    settings = load(path)
    if name in settings.drop:
        return settings.open_drop(name)
    if path is None and not settings.drop:
        known = "there is no configuration file (--config, DROPGATE_CONFIG, ./dropgate.toml)"
    else:
        known = f"{path or 'the environment'} has {', '.join(sorted(settings.drop)) or 'none'}"
    example = f"./{name}" if name else "./drop"
    raise ConfigurationError(f"{name!r} is no drop of the configuration: {known}. For a folder here, write {example}")


def _rules(layout: LayoutName | None, signal: Signal | None, width: int | None) -> Rules:
    grammar = Grammar(DEFAULT_WIDTH if width is None else width)
    return Rules(
        FolderLayout(grammar) if layout is LayoutName.FOLDERS else PrefixLayout(grammar),
        Signal.MANIFEST if signal is None else signal,
    )


def _pinned(drop: Drop, host_key: str) -> Drop:
    if drop.endpoint.location.scheme != "sftp":
        raise ConfigurationError(f"--host-key belongs to an sftp:// drop, and {drop} is none")
    if not _HOST_KEY.fullmatch(host_key):
        raise ConfigurationError("--host-key is not a fingerprint as `ssh-keygen -l` shows it: SHA256: and 43 characters")
    return replace(drop, endpoint=replace(drop.endpoint, host_key=host_key))


def item_text(grammar: Grammar, group: str, number: int) -> str:
    """An item as people call it: its name without mark and suffix."""
    return group + grammar.digits(number)
