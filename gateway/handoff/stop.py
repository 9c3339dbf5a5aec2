"""When to end, handed in."""

from typing import Protocol


class Stop(Protocol):
    """Says when to take no further item, as an event does; `Pause` of a route also outside its time windows."""

    def is_set(self) -> bool: ...
