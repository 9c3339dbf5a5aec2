"""What SIGTERM and Ctrl-C mean to a command."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and the first Ctrl-C set, so that the item at hand is finished; a second Ctrl-C interrupts."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    with _handled(ask, signal.SIGTERM, signal.SIGINT):
        yield stop


@contextlib.contextmanager
def set_on_sighup(event: threading.Event) -> Iterator[None]:
    """SIGHUP sets an event: something is to be read anew."""

    def note(number: int, frame: FrameType | None) -> None:
        event.set()

    with _handled(note, signal.SIGHUP):
        yield


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM interrupts as Ctrl-C does, so that unfinished files are taken away."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled(interrupt, signal.SIGTERM):
        yield


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
