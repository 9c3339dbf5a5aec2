"""Runs the routes of a configuration side by side until it is told to stop, and changes them while it runs."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from gateway.handoff.clock import Clock
from gateway.service.board import Board
from gateway.service.runner import Route, Runner
from gateway.service.transitions import Hub

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

_TURN = 0.2  # seconds: how late a signal or a changed file may be noticed
_GRACE = 10.0  # seconds that an item may take to be given back


@dataclass(frozen=True, slots=True)
class Changes:
    """What a reload has done, by the routes' titles."""

    kept: tuple[str, ...]
    begun: tuple[str, ...]
    ended: tuple[str, ...]


@dataclass(slots=True)
class Daemon:
    """All routes of one process. For one thread, the main one; `stop` may be set from anywhere.

    `stop_timeout` is how many seconds items at hand may take to their end; after it they are given back.
    """

    board: Board
    hub: Hub
    stop: threading.Event
    clock: Clock = field(default_factory=Clock)
    stop_timeout: float = 60.0
    _running: dict[str, Runner] = field(default_factory=dict)
    _ending: list[Runner] = field(default_factory=list)
    _to_begin: dict[str, Route] = field(default_factory=dict)  # once the route of the same title has ended

    @property
    def failed(self) -> bool:
        """Whether an item was not forwarded, and not just left to another worker."""
        return any(runner.item_failed for runner in self._running.values())

    def run_once(self, routes: Iterable[Route]) -> None:
        """Runs every route until its source is empty. Raises the first failure, after all of them have ended."""
        self._running = {route.title: self._runner(route, once=True) for route in routes}
        for runner in self._running.values():
            runner.start()
        log.info("started", routes=list(self._running))
        self._wait_for_the_end(lambda: None)
        log.info("stopped")
        for runner in self._running.values():
            if runner.failure is not None:
                raise runner.failure

    def apply(self, routes: Iterable[Route]) -> Changes:
        """From now on these routes run. One whose settings are as they were goes on undisturbed.

        One that has changed begins anew once the item at hand is at its end; so does one that has failed.
        """
        wanted = {route.title: route for route in routes}
        kept = tuple(
            title
            for title, runner in self._running.items()
            if title in wanted and wanted[title].settings == runner.route.settings and runner.failure is None
        )
        ended = tuple(title for title in self._running if title not in kept)
        for title in ended:
            runner = self._running.pop(title)
            runner.stop()
            self._ending.append(runner)
        begun = tuple(title for title in wanted if title not in kept)
        self._to_begin = {title: wanted[title] for title in begun}
        self._go_on()
        return Changes(kept, begun, tuple(title for title in ended if title not in wanted))

    def run(self, turn: Callable[[], None]) -> None:
        """Keeps the routes running until `stop`, calling `turn` in between. A KeyboardInterrupt gives the items at hand back.

        `turn` may raise to end the run: every route is ended then, too.
        """
        log.info("started", routes=list(self._running))
        try:
            while not self.stop.wait(_TURN):
                self._go_on()
                turn()
        except KeyboardInterrupt:
            self._interrupt()
            raise
        finally:
            self.stop.set()
            self._wait_for_the_end(turn)
            log.info("stopped")

    def failures(self) -> list[BaseException]:
        """What keeps each route from running, where none runs at all and each needs a person; empty otherwise."""
        found = [runner.failure for runner in self._running.values()]
        return [] if self._ending or self._to_begin or None in found else [error for error in found if error is not None]

    def _runner(self, route: Route, *, once: bool = False) -> Runner:
        return Runner(route, self.board, self.hub, self.clock, once=once)

    def _go_on(self) -> None:
        """Begins what was waiting for another one's end."""
        for runner in [runner for runner in self._ending if runner.ended]:
            self._ending.remove(runner)
            if runner.route.title not in self._to_begin:
                self.board.remove_route(runner.route.title)
        busy = {runner.route.title for runner in self._ending}
        for title in [title for title in self._to_begin if title not in busy]:
            runner = self._running[title] = self._runner(self._to_begin.pop(title))
            runner.start()

    def _all(self) -> list[Runner]:
        return [*self._running.values(), *self._ending]

    def _wait_for_the_end(self, turn: Callable[[], None]) -> None:
        interrupted_at: float | None = None
        stopped_at: float | None = None
        by_hand = False
        while any(not runner.ended for runner in self._all()):
            try:
                now = self.clock.monotonic()
                if self.stop.is_set() and stopped_at is None:
                    stopped_at = now
                    for runner in self._all():
                        runner.stop()
                if stopped_at is not None and interrupted_at is None and now - stopped_at > self.stop_timeout:
                    log.warning("giving back the items at hand", after=self.stop_timeout)
                    interrupted_at = now
                    self._interrupt()
                if interrupted_at is not None and now - interrupted_at > _GRACE:
                    # Their claims are taken over when their leases expire.
                    log.error("left behind", routes=[runner.route.title for runner in self._all() if not runner.ended])
                    return
                turn()
                for runner in self._all():
                    if not runner.ended:
                        runner.join(_TURN)
                        break
            except KeyboardInterrupt:
                if interrupted_at is not None:
                    raise
                interrupted_at, by_hand = self.clock.monotonic(), True
                self.stop.set()
                self._interrupt()
        if by_hand:
            raise KeyboardInterrupt

    def _interrupt(self) -> None:
        for runner in self._all():
            runner.interrupt()
