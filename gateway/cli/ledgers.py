"""Which ledger a command uses, and under which name."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from gateway.drop import Drop
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.open import LONGEST_CONSUMER, open_ledger
from gateway.settings import find_file, load

LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        help="What was processed: sqlite:///, journal:///, postgresql://, memory:; a file of this user unless given.",
        show_default=False,
    ),
]
ConsumerOption = Annotated[
    str | None,
    typer.Option(
        "--consumer", metavar="NAME", help="Whose work it is: all workers that share it give the same name.", show_default=False
    ),
]


def default_ledger() -> str:
    """The ledger of this user on this host, in the place where programs keep their state."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dropgate"
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite://{quote(str(state / 'ledger.db'))}"


def consumer_of(drop: Drop, name: str | None) -> str:
    """A consumer group's name: the one given, and always the drop, since one key may pass through several drops."""
    location = replace(drop.endpoint.location, user="", domain="", password=None)
    text = f"{name}: {location}" if name else str(location)
    if len(text) <= LONGEST_CONSUMER:
        return text
    return f"{text[:60]}...{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def open_ledger_of(drop: Drop, url: str | None, name: str | None, config: Path | None) -> Ledger:
    """The ledger of a command: its option, else the configuration's, else this user's own. Raises as `open_ledger`."""
    path = find_file(config)
    settings = load(path).ledger if path is not None else None
    configured = settings.url.get_secret_value() if settings is not None and settings.url is not None else None
    return open_ledger(
        url or configured or default_ledger(),
        consumer_of(drop, name or (settings.consumer if settings is not None else None)),
        drop.clock,
    )
