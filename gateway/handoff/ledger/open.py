"""Where a ledger is kept, told by one URL:

memory:                                     in this process, and gone with it
sqlite:///absolute/path/ledger.db           one file, for the workers of one host
journal:///absolute/path/folder             a folder with an append-only text file, for the workers of one host
postgresql://user:password@host/database    a server, for workers on any number of hosts
"""

from gateway.errors import ConfigurationError
from gateway.handoff.clock import Clock
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.ledger.memory import MemoryLedger

LONGEST_CONSUMER = 100  # characters


def open_ledger(url: str, consumer: str, clock: Clock | None = None) -> Ledger:
    """The ledger of one consumer group. What is missing of it is made: file, folder, tables.

    Raises ConfigurationError for a URL, a name or a place that cannot do, and LedgerUnavailable where it does not answer.
    Neither repeats the URL, which may hold a password.
    """
    del clock
    if not consumer or len(consumer) > LONGEST_CONSUMER or not consumer.isprintable():
        raise ConfigurationError(f"a consumer group's name has 1 to {LONGEST_CONSUMER} printable characters")
    scheme, colon, rest = url.partition(":")
    match scheme.lower():
        case "memory" if colon and rest in ("", "//"):
            return MemoryLedger()
    raise ConfigurationError("not a ledger's URL. Right ones: memory:")
