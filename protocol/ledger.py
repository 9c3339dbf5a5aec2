"""What the ledger remembers of a hand-off, and the rules by which it changes (PROTOCOL section 8).

    nothing ──started(1)──> started ──done──> done ──archived──> archived ──started(n+1)──> ... a replay
                              │  ^
                              └──┘ started(n+1): a run was cut, or failed and is tried again

Every change is a compare-and-set against the entry that was read, and every `started` takes the next generation. So of
two workers that hold one key, one gets to run its handler; the other finds that the entry has moved on.
"""

from dataclasses import dataclass
from enum import Enum

from protocol.names import ItemId


class LedgerState(Enum):
    """How far the processing of a key has come."""

    STARTED = "started"
    DONE = "done"
    ARCHIVED = "archived"


class Ended(Enum):
    """How a run of the handler ended that is still `started` in the ledger; OPEN: it runs, or was cut."""

    OPEN = ""
    RETURNED = "returned"  # failed, and back to ready
    ERROR = "error"  # failed for good, an error image
    CUT = "cut"  # given up since every run was cut short, an error image; the effect of a run may be there


@dataclass(frozen=True, slots=True)
class Entry:
    """One key's entry. `hash` is the first payload's, `at` when it was written, for people; `result` the handler's word.

    `replayed` is when the replay began to which this run belongs, "" where there was none: it tells one replay from another,
    and stays through all runs of it, however often they are cut or fail.
    """

    state: LedgerState
    generation: int
    item: ItemId
    owner: str
    attempts: int
    at: str
    hash: str = ""
    ended: Ended = Ended.OPEN
    result: str = ""
    replayed: str = ""

    @property
    def given_up(self) -> bool:
        """Whether the item has become, or is becoming, an error image."""
        return self.ended in (Ended.ERROR, Ended.CUT)
