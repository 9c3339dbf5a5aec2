"""Before files at a route's destination that nobody writes to any more: left by a forwarder that was killed.

Whoever forwards an item holds its claim at the source, and nobody else does. So a before file under its number that has stood
still for long while it was watched is that of a worker that lost the claim, and may go. Watched by our own clock, as leases
are; one that grows, or is written anew, begins the time again.
"""

from dataclasses import dataclass, field

from gateway.handoff.clock import Clock
from protocol.names import ItemId
from protocol.operations import Stat
from protocol.procedures.look import find_item
from protocol.procedures.rename import remove
from protocol.rules import Rules
from protocol.states import State

ABANDONED_AFTER = 60.0  # seconds without a change: an upload that has waited as long for its server was cut

_Stamps = tuple[tuple[str, int | None, float | None], ...]


@dataclass(slots=True)
class Abandoned:
    """What one forwarder has seen stand still so far. `remove_if` is a procedure."""

    rules: Rules
    clock: Clock
    _seen: dict[ItemId, tuple[_Stamps, float]] = field(default_factory=dict)

    async def remove_if(self, item: ItemId) -> bool:
        """Removes the before files of an item once they have stood still for long; False while they have not."""
        stamps = await self._look(item)
        seen, since = self._seen.get(item, ((), 0.0))
        if seen != stamps:
            self._seen[item] = (stamps, self.clock.monotonic())
            return not stamps
        if self.clock.monotonic() - since < ABANDONED_AFTER:
            return False
        del self._seen[item]
        return all([await remove(path) for path, _, _ in stamps])

    def forget(self, item: ItemId) -> None:
        """The item is through."""
        self._seen.pop(item, None)

    async def _look(self, item: ItemId) -> _Stamps:
        before = [name for name in await find_item(self.rules, item) if name.state is State.BEFORE]
        found = [await Stat(self.rules.layout.path(name)) for name in before]
        return tuple(sorted((listed.path, listed.size, listed.modified) for listed in found if listed is not None))
