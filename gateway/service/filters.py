"""Which items of its groups a route takes: those with certain suffixes, or certain values in their manifest's meta."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.handoff.driver import Driver
from protocol.errors import ProtocolError
from protocol.manifest import LARGEST, Manifest, parse_manifest
from protocol.names import ItemId, Name
from protocol.operations import ReadSmall
from protocol.procedures.look import find_item
from protocol.rules import Rules, Signal

_MOST_REMEMBERED = 20_000  # items whose answer is kept, so that a manifest is read once


@dataclass(slots=True)
class Filter:
    """For one worker. An item without a readable manifest passes, so that it becomes an error image and is not left behind."""

    rules: Rules
    suffixes: frozenset[str] = frozenset()
    meta: Mapping[str, object] = field(default_factory=dict)
    _known: dict[ItemId, bool] = field(default_factory=dict)

    def __call__(self, driver: Driver, token: Name) -> bool:
        """Whether the item is this route's. Reads its manifest at first sight. Raises transport errors."""
        if token.item not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            wanted = driver.run(self._judge(token))
            if wanted is None:
                return False  # gone meanwhile
            self._known[token.item] = wanted
        return self._known[token.item]

    async def _judge(self, token: Name) -> bool | None:
        if self.rules.signal is not Signal.MANIFEST:
            names = await find_item(self.rules, token.item)
            return not self.suffixes or any(name.suffix in self.suffixes for name in names)
        data = await ReadSmall(self.rules.layout.path(token), LARGEST)
        if data is None:
            return None
        try:
            manifest = parse_manifest(data)
        except ProtocolError:
            return True
        return self._has_suffix(manifest) and all(manifest.meta.get(key) == value for key, value in self.meta.items())

    def _has_suffix(self, manifest: Manifest) -> bool:
        names = (self.rules.grammar.parse(record.name) for record in manifest.files)
        return not self.suffixes or any(isinstance(name, Name) and name.suffix in self.suffixes for name in names)
