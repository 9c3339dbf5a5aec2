"""Owner ids: who holds a claim (PROTOCOL section 6)."""

import os
import platform
import re

from gateway.handoff.clock import Clock
from protocol.names import check_owner


def new_owner(clock: Clock) -> str:
    """A fresh id, `<host>-<pid>-<random>`: it tells a person where to look, and no other run has it."""
    host = re.sub(r"[^a-z0-9-]+", "-", platform.node().split(".", 1)[0].lower()).strip("-")[:16] or "host"
    return check_owner(f"{host}-{os.getpid()}-{clock.chance.getrandbits(24):06x}")
