"""What a service manager is told: ready, reloading, stopping, a status line, and that the process is alive (sd_notify(3)).

Without `NOTIFY_SOCKET` nothing is told and nothing happens. A message that does not arrive raises nothing: the manager acts on
what it does not hear, and the work must not stop because nobody listens.
"""

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

_PATIENCE = 1.0  # seconds: a manager whose queue is full must not stop the service


@dataclass(frozen=True, slots=True)
class Notifier:
    """Tells the service manager at `address`, a path or "@" and an abstract name; tells nobody where that is "".

    `interval` is in seconds: how often to call `watchdog`, before the manager kills the process. None: it does not watch.
    """

    address: str = ""
    interval: float | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Notifier":
        """As NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID say; what cannot be used there counts as not being there."""
        address = environ.get("NOTIFY_SOCKET", "")
        if not address.startswith(("/", "@")):
            return cls()
        limit, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
        watched = limit.isdecimal() and int(limit) > 0 and pid in ("", str(os.getpid()))
        # Half of the limit, as sd_watchdog_enabled(3) advises.
        return cls(address, int(limit) / 2e6 if watched else None)

    def ready(self) -> None:
        """The service works; also said when a reload has ended, whichever way."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """The configuration is being read again; `ready` ends that."""
        # The time tells the manager that this answers its own request, and not an earlier one.
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """The service has begun to end."""
        self._tell("STOPPING=1")

    def status(self, text: str) -> None:
        """A line for people, which `systemctl status` shows; a longer text is put into one line."""
        self._tell("STATUS=" + " ".join(text.split()))

    def watchdog(self) -> None:
        """The process is alive, and its work goes on."""
        self._tell("WATCHDOG=1")

    def _tell(self, message: str) -> None:
        if not self.address:
            return
        # A name in the abstract space begins with a NUL.
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_PATIENCE)
            sender.sendto(message.encode(errors="replace"), address)
