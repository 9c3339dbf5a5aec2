"""Small files of drops that a page shows - manifests, reasons, receipts - read in the background and kept for a while.

A page never waits for a server: what is not here yet is asked for, and the page is told when it has come. A file is known by
its path, time and size, so one that changed is read again.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.errors import GatewayError
from gateway.service.web.places import Places, TooBusy
from protocol.errors import ProtocolError
from protocol.operations import ReadSmall
from protocol.snapshot import Listed
from transports.errors import TransportError

LARGEST = 1024 * 1024  # bytes of one file; no manifest is larger
_MOST_BYTES = 8 * 1024 * 1024  # of all that are kept
_OVERHEAD = 500  # bytes, about, of an entry that holds none
_MOST_WAITING = 500
_AGAIN = 20.0  # seconds after which what could not be read is tried again
_BATCH = 50  # files that are read over one connection before others have their turn

Key = tuple[str, str, float | None, int | None]


@dataclass(frozen=True, slots=True)
class SmallFile:
    """What was found: its bytes, or why there are none. `until` is when that is not believed any longer, by our clock."""

    data: bytes = b""
    trouble: str = ""
    until: float = math.inf


@dataclass(slots=True)
class SmallFiles:
    """`arrived` is called, by a thread of ours, after something came. For any number of threads."""

    places: Places
    arrived: Callable[[], None]
    monotonic: Callable[[], float]
    _kept: OrderedDict[Key, SmallFile] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _waiting: OrderedDict[Key, None] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _idle: threading.Condition = field(init=False)
    _working: bool = False
    _closed: bool = False

    def __post_init__(self) -> None:
        self._idle = threading.Condition(self._lock)

    def get(self, drop: str, listed: Listed) -> SmallFile | None:
        """A file, if it has been read; else None, and it will be."""
        key = (drop, listed.path, listed.modified, listed.size)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            if (found is None or found.until < self.monotonic()) and not self._closed and len(self._waiting) < _MOST_WAITING:
                self._waiting[key] = None
                if not self._working:
                    self._working = True
                    threading.Thread(target=self._work, name="dropgate-web-files", daemon=True).start()
            return found

    def wait(self, seconds: float) -> None:
        """Returns when everything that was asked for has come, or after some time."""
        with self._idle:
            self._idle.wait_for(lambda: not self._working, seconds)

    def close(self) -> None:
        """Nothing more is read."""
        with self._idle:
            self._closed = True
            self._waiting.clear()

    def _work(self) -> None:
        while True:
            with self._idle:
                if not self._waiting:
                    self._working = False
                    self._idle.notify_all()
                    return
                keys = [key for key in self._waiting if key[0] == next(iter(self._waiting))[0]][:_BATCH]
            found = self._read(keys[0][0], keys)
            with self._lock:
                for key in keys:
                    self._waiting.pop(key, None)
                    self._keep(key, found[key])
            self.arrived()

    def _read(self, drop: str, keys: list[Key]) -> dict[Key, SmallFile]:
        found: dict[Key, SmallFile] = {}
        try:
            with self.places.driver(drop) as driver:
                for key in keys:
                    data = driver.run(_read_file(key[1]))
                    gone = "it is not there any more: the item has moved on"
                    found[key] = SmallFile(trouble=gone) if data is None else SmallFile(data[: LARGEST + 1])
        except (TransportError, ProtocolError, GatewayError, TooBusy) as error:
            trouble = SmallFile(trouble=f"it could not be read: {error}", until=self.monotonic() + _AGAIN)
            return {key: found.get(key, trouble) for key in keys}
        return found

    def _keep(self, key: Key, file: SmallFile) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self._bytes -= len(old.data) + _OVERHEAD
        self._kept[key] = file
        self._bytes += len(file.data) + _OVERHEAD
        while self._bytes > _MOST_BYTES and len(self._kept) > 1:
            _, old = self._kept.popitem(last=False)
            self._bytes -= len(old.data) + _OVERHEAD


async def _read_file(path: str) -> bytes | None:
    return await ReadSmall(path, LARGEST)
