"""What changes on an open page: a view is rendered into pieces with keys, and only pieces that differ are sent.

A page names the state it shows by a cursor. Its stream begins with what has changed since, also after a lost connection; of a
cursor that is no longer remembered everything is sent anew, which is one page and never the whole drop.
"""

import asyncio
import json
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from dataclasses import dataclass, field

import anyio.to_thread

from gateway.service.web.markup import Element, to_data

Sections = Mapping[str, Mapping[str, Element]]  # by section, then by key, in order
Shown = dict[str, dict[str, str]]  # the same, each piece as JSON
View = Callable[[], Sections]

INTERVAL = 0.5  # seconds between two looks at the board while somebody watches
_KEEP_ALIVE = 15.0  # seconds: proxies cut what is silent
_LONGEST = 900.0  # seconds; then the browser comes again, and its login is looked at again
_REMEMBERED = 64
_MOST_STREAMS = 64


def shown(sections: Sections) -> Shown:
    """A view's pieces as they are sent."""
    return {
        name: {key: json.dumps(to_data(node), separators=(",", ":")) for key, node in pieces.items()}
        for name, pieces in sections.items()
    }


def difference(before: Shown | None, after: Shown) -> str:
    """What to do with `before` to get `after`, as JSON; "" where they are equal.

    For each section `gone` are keys to take away, and `put` are pieces to set behind another key, in that order; a piece
    that has only moved is put without its content, as null.
    """
    parts = []
    for name, pieces in after.items():
        old = {} if before is None else before.get(name, {})
        gone = [key for key in old if key not in pieces]
        stayed = [key for key in old if key in pieces]
        in_order = stayed == [key for key in pieces if key in old]
        put = []
        behind = None
        for key, piece in pieces.items():
            if old.get(key) != piece:
                put.append(f"[{json.dumps(key)},{json.dumps(behind)},{piece}]")
            elif not in_order:
                put.append(f"[{json.dumps(key)},{json.dumps(behind)},null]")
            behind = key
        if gone or put:
            parts.append(f'{json.dumps(name)}:{{"gone":{json.dumps(gone)},"put":[{",".join(put)}]}}')
    return "{" + ",".join(parts) + "}" if parts else ""


class Remembered:
    """What the latest pages show, by cursor. Bounded: whoever is forgotten is sent everything."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Shown] = OrderedDict()

    def keep(self, state: Shown, cursor: str = "") -> str:
        """Remembers a page under its cursor, or under a new one, and returns that."""
        cursor = cursor or secrets.token_urlsafe(9)
        self._kept[cursor] = state
        self._kept.move_to_end(cursor)
        while len(self._kept) > _REMEMBERED:
            self._kept.popitem(last=False)
        return cursor

    def take(self, cursor: str) -> Shown | None:
        """What a page shows, if it is remembered still."""
        return self._kept.get(cursor)


@dataclass(slots=True)
class Pulse:
    """Tells streams that something may look different. `fingerprint` is asked now and then, while there are streams."""

    fingerprint: Callable[[], Hashable]
    remembered: Remembered = field(default_factory=Remembered)
    _version: int = 0
    _streams: int = 0
    _closed: bool = False
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self) -> None:
        """Looks until it is cancelled."""
        last: Hashable = None
        while True:
            await asyncio.sleep(INTERVAL)
            if not self._streams:
                continue
            now = self.fingerprint()
            if now != last:
                last = now
                async with self._changed:
                    self._version += 1
                    self._changed.notify_all()

    async def close(self) -> None:
        """Ends every stream."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def full(self) -> bool:
        """Whether as many streams are served as there may be."""
        return self._streams >= _MOST_STREAMS

    async def stream(self, view: View, cursor: str, utc: Callable[[], str]) -> AsyncGenerator[str, None]:
        """Server-sent events: what to do with the page that `cursor` names, now and whenever it changes."""
        self._streams += 1
        try:
            ends = asyncio.get_running_loop().time() + _LONGEST
            before = self.remembered.take(cursor)
            cursor = cursor if before is not None else secrets.token_urlsafe(9)
            yield "retry: 2000\n\n"
            reset = before is None
            while not self._over(ends):
                version = self._version
                after = await anyio.to_thread.run_sync(lambda: shown(view()))
                changes = difference(before, after)
                if changes or reset:
                    state = json.dumps(utc())
                    kind = "true" if reset else "false"
                    yield f'id: {cursor}\ndata: {{"now":{state},"reset":{kind},"sections":{changes or "{}"}}}\n\n'
                self.remembered.keep(after, cursor)
                before, reset = after, False
                while version == self._version and not self._over(ends):
                    if not await self._wait(version):
                        yield ": still here\n\n"
        finally:
            self._streams -= 1

    def _over(self, ends: float) -> bool:
        return self._closed or asyncio.get_running_loop().time() >= ends

    async def _wait(self, version: int) -> bool:
        try:
            async with asyncio.timeout(_KEEP_ALIVE), self._changed:
                await self._changed.wait_for(lambda: self._closed or self._version != version)
        except TimeoutError:
            return False
        return True
