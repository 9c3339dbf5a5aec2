"""The alarms of a running service: a round each few seconds looks at the board, and tells what began and what is over."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from gateway.handoff.clock import Clock
from gateway.service.alarms import contents, expect, places, words
from gateway.service.alarms.alarm import Alarm
from gateway.service.alarms.book import Book
from gateway.service.alarms.limits import Limits, Rule, limits_of
from gateway.service.alarms.memory import Memory, memory_from
from gateway.service.alarms.notify import Notifier, tellers
from gateway.service.alarms.state_file import Damaged, StateFile
from gateway.service.board import Board, DropView, Picture, RouteState
from gateway.service_sections import AlarmsSettings, ExpectSettings

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

RULES: tuple[Rule, ...] = (
    Rule(frozenset({"before"}), contents.before_files),
    Rule(frozenset({"ready"}), contents.ready_items),
    Rule(frozenset({"errors"}), contents.error_images),
    Rule(frozenset({"gap"}), contents.gaps),
    Rule(frozenset({"away"}), places.dead_endpoints),
    Rule(frozenset({"away", "failed"}), places.held_routes),
    Rule(frozenset({"clock"}), places.clock_offsets),
    Rule(frozenset({"space"}), places.little_space),
    Rule(frozenset({"service"}), places.parts_in_trouble),
    Rule(frozenset({"expect"}), expect.expectations),
)

_ROUND = 5.0  # seconds
_REST = 20  # a round is followed by a rest of so many times what it took, at least
_SAVED = 30.0  # seconds: how much of the memory a crash may cost
_GRACE = 120.0  # seconds after the start in which a drop or route that the board does not have yet is not taken for gone
# These are judged by what a failed look says, too.
_JUDGED_UNSEEN = frozenset({"away"})
# What these are about is measured now and then.
_MEASURES: dict[str, Callable[[DropView], object]] = {
    "clock": lambda view: view.clock_offset,
    "space": lambda view: view.free_space,
}


@dataclass(slots=True)
class Alarms:
    """Watches a board. `instance` tells this gateway from others; relative paths of the settings are relative to `folder`.

    Making one reads the state file: a damaged one is told, put aside and begun anew. Raises ConfigurationError for a secret
    that cannot be read, or a state file that may not be.
    """

    settings: AlarmsSettings
    expectations: Sequence[ExpectSettings]
    board: Board
    clock: Clock
    state_file: Path
    instance: str
    folder: Path = field(default_factory=Path.cwd)
    rules: tuple[Rule, ...] = RULES
    book: Book = field(init=False)
    _limits: Limits = field(init=False)
    _notifier: Notifier = field(init=False)
    _memory: Memory = field(init=False)
    _file: StateFile = field(init=False)
    _remembered: dict[str, object] = field(init=False)  # the memory as it was at the end of the last round
    _saved_at: float = field(init=False)
    _started_at: float = field(init=False)
    _rounds: int = 0
    _is_closed: bool = False
    _unkept: str = ""  # why the state file could not be written
    _broken: dict[str, str] = field(default_factory=dict)  # rules that raise, with what
    _round_lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.book = Book(self.clock)
        self._file = StateFile(self.state_file)
        self._limits = limits_of(self.settings, tuple(self.expectations))
        self._notifier = Notifier(self.clock, self._save)
        self._notifier.set_tellers(tellers(self.settings, self.folder, self.instance, self.clock))
        self._memory = Memory()
        self._restore()
        self._remembered = self._memory.as_record()
        self._saved_at = self._started_at = self.clock.monotonic()

    def start(self) -> None:
        """Begins to watch and to tell. What an earlier process could not tell is told first."""
        self._notifier.start()
        self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)
        self._thread.start()

    def current(self) -> tuple[Alarm, ...]:
        """What is wrong now: the critical first, then the oldest."""
        return self.book.current()

    def reconfigure(self, settings: AlarmsSettings, expectations: Sequence[ExpectSettings], folder: Path | None = None) -> None:
        """Goes on by other settings from the next round on. Raises ConfigurationError; then nothing has changed."""
        found = tellers(settings, folder or self.folder, self.instance, self.clock)
        limits = limits_of(settings, tuple(expectations))
        with self._round_lock:
            self.settings, self.expectations, self.folder = settings, expectations, folder or self.folder
            self._limits = limits
            with self._notifier.lock:
                self._notifier.set_tellers(found)

    def close(self, timeout: float = 5.0) -> None:
        """Ends within about three times so many seconds. What is on and what was not told is kept for the next start."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)
        self._notifier.close(timeout)
        self._save()
        # Whoever is still at it must not write over what the next process writes.
        self._is_closed = True

    def look(self) -> None:
        """One round. Raises nothing that a rule raises."""
        with self._round_lock:
            self._rounds += 1
            picture = self.board.picture()
            now = words.moment(self.clock.utc()).timestamp()
            self._memory.firing = frozenset(alarm.id for alarm in self.book.current())
            found = [*self._judge(picture, now), *self._about_itself(), *self._notifier.undelivered()]
            self._memory.forget(now, lambda name: _is_seen(picture.drop(name)))
            changes = self.book.update(found, lambda alarm: self._look_of(alarm, picture))
            for alarm in (*changes.fired, *changes.worse):
                log.warning("alarm", kind=alarm.kind, about=alarm.about, alarm=alarm.title, text=alarm.text)
            for alarm in changes.cleared:
                log.info("alarm cleared", kind=alarm.kind, about=alarm.about, alarm=alarm.title)
            with self._notifier.lock:
                self._remembered = self._memory.as_record()
            if changes:
                self._notifier.tell(changes, self._save)
            elif self.clock.monotonic() - self._saved_at >= _SAVED:
                self._save()

    def _run(self) -> None:
        while not self._stop.is_set():
            begun = time.monotonic()
            self.look()
            self._stop.wait(max(_ROUND, (time.monotonic() - begun) * _REST))

    def _judge(self, picture: Picture, now: float) -> list[Alarm]:
        found: list[Alarm] = []
        for rule in self.rules:
            name = rule.judge.__name__
            try:
                found += rule.judge(picture, self._memory, self._limits, now)
                self._broken.pop(name, None)
            except Exception as error:  # noqa: BLE001 - told, as an alarm too, and the other rules go on
                reason = f"{type(error).__name__}: {error}"
                if self._broken.get(name) != reason:
                    log.error("rule failed", rule=name, error=reason)
                self._broken[name] = reason
        return found

    def _about_itself(self) -> list[Alarm]:
        now = self.clock.utc()
        found = [
            Alarm(
                id=f"rule:{name}",
                kind="rule",
                about=name,
                title=f"the rule {name!r} fails, so its alarms are not judged",
                text=f"{reason}. This is a fault of dropgate: please report it. What is on stays on; other rules go on.",
                since=now,
            )
            for name, reason in self._broken.items()
        ]
        if self._unkept:
            found.append(
                Alarm(
                    id="state",
                    kind="state",
                    about=str(self.state_file),
                    title="the alarms' state cannot be kept",
                    text=f"{self._unkept}. Alarms are told all the same; after a restart some may be told again.",
                    since=now,
                )
            )
        return found

    def _look_of(self, alarm: Alarm, picture: Picture) -> str | None:
        """The look by which an alarm was not found; None where it could not be judged."""
        failed = [rule for rule in self.rules if alarm.kind in rule.kinds and rule.judge.__name__ in self._broken]
        if failed or self._notifier.is_unsure(alarm):
            return None
        is_young = self.clock.monotonic() - self._started_at < _GRACE
        if is_young and alarm.kind == "service":
            return None
        looks = [self._look_at_drop(alarm, picture.drop(name), is_young=is_young) for name in alarm.drops]
        for title in alarm.routes:
            route = next((route for route in picture.routes if route.title == title), None)
            if (route is None and is_young) or (route is not None and route.state is RouteState.STARTING):
                return None
        known = [look for look in looks if look is not None]
        return None if len(known) < len(looks) else " ".join(known) or str(self._rounds)

    def _look_at_drop(self, alarm: Alarm, view: DropView | None, *, is_young: bool) -> str | None:
        if view is None:
            return None if is_young else str(self._rounds)
        if alarm.kind in _JUDGED_UNSEEN and view.looked_at:
            return str(self._rounds)
        measure = _MEASURES.get(alarm.kind)
        if not _is_seen(view) or (measure is not None and measure(view) is None):
            return None
        return view.looked_at

    def _restore(self) -> None:
        now = words.moment(self.clock.utc()).timestamp()
        try:
            kept = self._file.load()
            if kept:
                self._take_up(kept, now)
        except Damaged as error:
            log.error("alarms begin anew", error=str(error))
        except OSError as error:
            self._unkept = f"{self.state_file} cannot be read: {error.strerror}"
            log.error("alarms begin anew", error=self._unkept)

    def _take_up(self, kept: Mapping[str, Any], now: float) -> None:
        try:
            memory = memory_from(kept["memory"], now)
            self.book.restore(kept["alarms"])
            self._notifier.restore(kept["waiting"])
        except (ValueError, TypeError, KeyError, AttributeError):
            self.book.restore(())
            raise Damaged(f"{self.state_file} is not what dropgate wrote; {self._file.put_aside()}") from None
        self._memory = memory

    def _save(self) -> None:
        """Writes everything down. A failure is an alarm of the next round."""
        with self._notifier.lock:
            if self._is_closed:
                return
            state = {"memory": self._remembered, "alarms": self.book.records(), "waiting": self._notifier.records()}
            try:
                self._file.save(state)
            except OSError as error:
                reason = f"{self.state_file} cannot be written: {error.strerror}"
                if reason != self._unkept:
                    log.error("alarms not kept", error=reason)
                self._unkept = reason
            else:
                self._unkept = ""
            self._saved_at = self.clock.monotonic()


def _is_seen(view: DropView | None) -> bool:
    return view is not None and view.snapshot is not None and not view.trouble
