"""Which ledger a consumer of a drop uses, and under which name."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from gateway.drop import Drop
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.open import LONGEST_CONSUMER, open_ledger
from gateway.sections import LedgerSettings


def state_folder() -> Path:
    """The folder of this user on this host in which the program keeps its state; made where it is missing."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dropgate"
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    return state


def default_ledger() -> str:
    """The ledger of this user on this host."""
    return f"sqlite://{quote(str(state_folder() / 'ledger.db'))}"


def consumer_of(drop: Drop, name: str | None, destination: str = "") -> str:
    """A consumer group's name: the one given, and always the drop, since one key may pass through several drops.

    With a `destination` it is the name under which a route records what that destination has.
    """
    location = replace(drop.endpoint.location, user="", domain="", password=None)
    text = f"{name}: {location}" if name else str(location)
    if destination:
        text = f"{text} > {destination}"
    if len(text) <= LONGEST_CONSUMER:
        return text
    return f"{text[:60]}...{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def open_configured(settings: LedgerSettings, drop: Drop, destination: str = "") -> Ledger:
    """The ledger that a configuration names, else this user's own. Raises as `open_ledger`."""
    url = settings.url.get_secret_value() if settings.url is not None else default_ledger()
    return open_ledger(url, consumer_of(drop, settings.consumer, destination), drop.clock)
