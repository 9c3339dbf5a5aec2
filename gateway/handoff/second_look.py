"""What a sweep acts on only when it has seen it twice: half of a rename that a live worker is in the middle of looks the same.

Nothing would be wrong with acting at once as long as every step is one; but some servers rename by link and unlink, and OpenSSH
takes its new name away again where the old one is gone by then. So whoever is at it gets the time to end it.
"""

from protocol.recovery import Action, DropTwin, FinishDone, FinishError, FinishReceipt

SECOND_LOOK = 2.0  # seconds at the least between the two looks; putting an item away takes a few round trips

_PATIENT = (FinishDone, FinishError, FinishReceipt, DropTwin)


def seen_twice(planned: list[Action], looked_at: frozenset[Action]) -> tuple[list[Action], frozenset[Action]]:
    """Of a plan, what may be carried out now, and what to look at again; `looked_at` is the latter of the plan before."""
    now = [action for action in planned if not isinstance(action, _PATIENT) or action in looked_at]
    return now, frozenset(action for action in planned if isinstance(action, _PATIENT) and action not in looked_at)
