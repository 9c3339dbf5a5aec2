"""Hints that a folder changed, from the kernel's inotify."""

import ctypes
import os
import select
import struct
from contextlib import suppress

_IN_CLOSE_WRITE = 0x8
_IN_MOVED_FROM = 0x40
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100  # a publication by link and unlink is CREATE and DELETE, with no MOVED_TO
_IN_DELETE = 0x200
_IN_IGNORED = 0x8000
_IN_ONLYDIR = 0x01000000
_EVENTS = _IN_CLOSE_WRITE | _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_ONLYDIR

_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_EVENT_BUFFER = 64 * 1024


class Watch:
    """One folder under watch, from its making on: what happens between two waits is not missed."""

    def __init__(self, folder: int) -> None:
        """Raises OSError: no inotify here, or the user's limit of watches is reached."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._queue = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._queue < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if libc.inotify_add_watch(self._queue, f"/proc/self/fd/{folder}".encode(), _EVENTS) < 0:
            number = ctypes.get_errno()
            self.close()
            raise OSError(number, os.strerror(number))

    def wait(self, timeout: float) -> bool:
        """Returns at the first event, or after `timeout` seconds. False where the folder itself is gone."""
        poll = select.poll()
        poll.register(self._queue, select.POLLIN)
        if not poll.poll(max(0, round(timeout * 1000))):
            return True
        alive = True
        with suppress(BlockingIOError):
            while events := os.read(self._queue, _EVENT_BUFFER):
                alive = alive and not _ended(events)
        return alive

    def close(self) -> None:
        queue, self._queue = self._queue, -1
        if queue >= 0:
            os.close(queue)


def _ended(events: bytes) -> bool:
    """Whether the kernel says that the watched folder was removed or unmounted."""
    at = 0
    while at < len(events):
        _, mask, _, length = _EVENT.unpack_from(events, at)
        if mask & _IN_IGNORED:
            return True
        at += _EVENT.size + length
    return False
