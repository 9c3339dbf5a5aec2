"""One transport that is made when it is needed, and made again after it was lost."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from gateway.handoff.clock import Backoff, Clock
from gateway.handoff.slots import Slots
from transports.base import Transport
from transports.errors import Unreachable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a lost endpoint is tried again before the failure is reported, and how long between tries."""

    attempts: int = 6
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.25, largest=8.0))


@dataclass(slots=True)
class Attempts:
    """Tries in a row that got nowhere, of one piece of work."""

    _patience: Patience
    _clock: Clock
    _failed: int = 0

    def again(self) -> bool:
        """After a failure: waits, and says whether to try again. False, at once, where patience has ended."""
        self._failed += 1
        if self._failed >= self._patience.attempts:
            return False
        self._clock.sleep(self._patience.backoff.delay(self._failed, self._clock))
        return True

    def anew(self) -> None:
        """Something has come through: patience begins anew."""
        self._failed = 0


class Connection:
    """A transport for one thread. The first connection is tried once: a wrong address should be told at once.

    `retrying` carries a call over the loss of the connection. It is only for calls that may be repeated: looks, and
    changes whose failure is known to have changed nothing.
    """

    def __init__(
        self,
        open_transport: Callable[[], Transport],
        clock: Clock,
        patience: Patience | None = None,
        *,
        slots: Slots | None = None,
        short: bool = False,
    ) -> None:
        """`slots` are those of an endpoint that takes only so many connections, `short` is that of `Slots.take`."""
        self._open = open_transport
        self._slots = slots
        self._short = short
        self._clock = clock
        self._patience = patience or Patience()
        self._transport: Transport | None = None
        self._was_connected = False

    def use(self) -> Transport:
        """The transport, connected. Raises what connecting raises."""
        if self._transport is None:
            if self._slots is not None:
                self._slots.take(short=self._short)
            try:
                self._transport = self._open()
            except BaseException:
                self._let_others()
                raise
            self._was_connected = True
        return self._transport

    def lost(self) -> None:
        """Forgets a transport that has failed; the next use makes a new one."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None
            self._let_others()

    def rest(self) -> None:
        """Nothing is to be done for a while: closes a connection that somebody else waits for."""
        if self._slots is not None and self._slots.scarce:
            self.lost()

    def _let_others(self) -> None:
        if self._slots is not None:
            self._slots.give_back()

    def attempts(self) -> Attempts:
        """A count for work of several calls, for `retrying`: what has come through in between gives patience anew."""
        return Attempts(self._patience, self._clock)

    def retrying(self, call: Callable[[Transport], T], attempts: Attempts | None = None) -> T:
        """Makes a call, again after each reconnection, as long as patience lasts. Raises the last failure."""
        attempts = attempts or self.attempts()
        while True:
            try:
                return call(self.use())
            except Unreachable:
                self.lost()
                if not self._was_connected or not attempts.again():
                    raise

    def close(self) -> None:
        """Ends the connection, if there is one."""
        self.lost()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
