"""Which ledger a command uses, and under which name."""

from pathlib import Path
from typing import Annotated

import typer

from gateway.drop import Drop
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.open import open_ledger
from gateway.ledgers import consumer_of, default_ledger
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
