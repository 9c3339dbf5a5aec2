"""One way to tell of alarms: events wait in line, and each is tried until it is told or too old. In a thread of its own.

In the order in which they came, at least once. An event leaves the line when it has been told, so what was not yet told when
the process ends is in the line that is kept in the state file.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import structlog

from gateway.handoff.clock import Backoff, Clock
from gateway.service.alarms import words
from gateway.service.alarms.event import Event

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

MOST_WAITING = 1000  # events; the oldest make room
LONGEST_WAIT = 86400.0  # seconds: an event that could not be told for so long is given up
LONGEST_PAUSE = 3600.0  # seconds, whatever a receiver asks for


class NotTold(Exception):
    """An event could not be told; it says why, without a secret. `pause` is what the receiver asked for, in seconds."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


# Tells one event, or raises NotTold. Ends soon once the stop is set.
Tell = Callable[[Event, threading.Event], None]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a channel tells nothing just now: since when (ISO 8601 in UTC), after how many tries, and how many wait."""

    reason: str
    since: str
    tries: int
    waiting: int


@dataclass(slots=True)
class Channel:
    """A line of events and who tells them. `settled` is called, by this thread, whenever the line became shorter.

    `most_tries` of one event, or as many as a day allows. For any number of threads.
    """

    name: str
    tell: Tell
    clock: Clock
    settled: Callable[[], None]
    most_tries: int | None = None
    backoff: Backoff = field(default_factory=lambda: Backoff(base=2.0, largest=900.0))
    lock: threading.RLock = field(default_factory=threading.RLock)
    _line: deque[Event] = field(default_factory=deque)
    _tries: int = 0  # of the first event
    _due: float = 0.0  # monotonic seconds: not before this
    _trouble: Trouble | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _wake: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def add(self, events: Iterable[Event]) -> None:
        """Puts events at the end of the line. They are told once `lock` is free, so its holder can write them down first."""
        with self.lock:
            for event in events:
                self._line.append(event)
            while len(self._line) > MOST_WAITING:
                # Never the first: it may be on its way.
                lost = self._line[1]
                del self._line[1]
                log.error("alarm not told", by=self.name, alarm=lost.alarm.title, error=f"{MOST_WAITING} others wait")
        self._wake.set()

    def waiting(self) -> tuple[Event, ...]:
        """What has not been told yet."""
        with self.lock:
            return tuple(self._line)

    def trouble(self) -> Trouble | None:
        """Why nothing is told just now; None where all is well."""
        with self.lock:
            return None if self._trouble is None else replace(self._trouble, waiting=len(self._line))

    def tell_by(self, tell: Tell) -> None:
        """Tells by other means from now on, and tries at once what waits."""
        with self.lock:
            self.tell = tell
            self._tries, self._due = 0, 0.0
            if not self._line:
                self._trouble = None
        self._wake.set()

    def start(self) -> None:
        """Begins to tell."""
        self._thread = threading.Thread(target=self._run, name=f"alarms-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end. `join` waits for it."""
        self._stop.set()
        self._wake.set()

    def join(self, timeout: float) -> bool:
        """Whether the thread has ended within so many seconds. One that waits for a dead server ends with the process."""
        if self._thread is not None:
            self._thread.join(timeout)
            return not self._thread.is_alive()
        return True

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            with self.lock:
                event = self._line[0] if self._line else None
                pause = self._due - self.clock.monotonic()
                tell = self.tell
            if event is None or pause > 0:
                self._wake.wait(None if event is None else pause)
                continue
            self._try(event, tell)

    def _try(self, event: Event, tell: Tell) -> None:
        try:
            tell(event, self._stop)
        except NotTold as error:
            self._failed(event, tell, error)
        except Exception as error:  # noqa: BLE001 - told as any other failure: this thread has to live
            self._failed(event, tell, NotTold(f"{type(error).__name__} while telling"))
        else:
            with self.lock:
                self._leave(event)
                self._trouble = None
            self.settled()

    def _failed(self, event: Event, tell: Tell, error: NotTold) -> None:
        with self.lock:
            if self._stop.is_set() or self.tell is not tell:
                return
            self._tries += 1
            now = self.clock.utc()
            age = (words.moment(now) - words.moment(event.at)).total_seconds()
            given_up = age > LONGEST_WAIT or self._tries == self.most_tries
            since = now if self._trouble is None else self._trouble.since
            tries = 1 if self._trouble is None else self._trouble.tries + 1
            pause = min(max(self.backoff.delay(self._tries, self.clock), error.pause or 0.0), LONGEST_PAUSE)
            if given_up:
                self._leave(event)
            self._due = self.clock.monotonic() + pause
            self._trouble = Trouble(str(error), since, tries, len(self._line))
        log.warning("alarm not told", by=self.name, alarm=event.alarm.title, error=str(error), given_up=given_up)
        if given_up:
            self.settled()

    def _leave(self, event: Event) -> None:
        if self._line and self._line[0] is event:
            self._line.popleft()
        self._tries, self._due = 0, 0.0
