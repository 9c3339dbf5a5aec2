"""What is wrong with one file, and must not stop the work on the others."""

from dataclasses import replace

from protocol.rules import Rules
from transports.errors import Busy, ChangedWhileReading, NoSpace, NotFound, ServerFailure, UnsafePath

# What the server says of one file, and not of itself or of this account; a full disk stops only what would be written.
OF_ONE_FILE = (Busy, ChangedWhileReading, NoSpace, NotFound, ServerFailure, UnsafePath)

_QUICK_PATIENCE = 0.5  # seconds: a scanner is mostly done by then


def quick(rules: Rules) -> Rules:
    """The rules with little patience: what is held open is tried again at the next round, and others go on meanwhile."""
    return replace(rules, busy_patience=min(rules.busy_patience, _QUICK_PATIENCE))
