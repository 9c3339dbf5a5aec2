"""Trying a connection again that was dropped before the server said a word: it had too many logins under way.

OpenSSH's MaxStartups hangs up at once, at random, and means "a little later". Nothing else is tried again here: a refused
login stays refused, and a server that is away is for the caller's own patience.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from transports.errors import Unreachable

T = TypeVar("T")

_ATTEMPTS: Final = 5
_PAUSE: Final = 0.25  # seconds before the second attempt, doubled before each further one


class DroppedEarly(Exception):
    """The server hung up before it had introduced itself; the message is what it said instead, if anything."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """How to wait between attempts: `sleep` takes seconds, `random` gives 0 to 1."""

    sleep: Callable[[float], None]
    random: Callable[[], float]


def persistently(attempt: Callable[[], T], pauses: Pauses, *, deadline: float) -> T:
    """The result of the first attempt that is not dropped early.

    Pauses grow and are spread, so that many clients that were dropped together do not come back together. Raises what the
    attempt raises, and Unreachable when the attempts or the time are used up.
    """
    number = 0
    while True:
        number += 1
        try:
            return attempt()
        except DroppedEarly as error:
            pause = _PAUSE * 2 ** (number - 1) * (0.5 + pauses.random())
            if number == _ATTEMPTS or time.monotonic() + pause >= deadline:
                said = f", after saying {str(error)[:200]!r}" if str(error) else ""
                detail = f"what answers there hangs up before it speaks SSH{said}: too many logins under way (MaxStartups)?"
                raise Unreachable("connect", "", f"{detail} Tried {number} times") from error
        pauses.sleep(pause)
