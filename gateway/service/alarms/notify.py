"""Who is told of alarms: the webhook and the command of the configuration, each with a line and a thread of its own."""

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.errors import ConfigurationError
from gateway.handoff.clock import Clock
from gateway.service.alarms import words
from gateway.service.alarms.alarm import Alarm
from gateway.service.alarms.book import Changes
from gateway.service.alarms.channel import Channel, Tell
from gateway.service.alarms.command import Command
from gateway.service.alarms.event import Event, event_from, events_of
from gateway.service.alarms.webhook import Webhook, check_url, key_of
from gateway.service_sections import AlarmsSettings
from transports.secret import Secret

UNDELIVERED = "undelivered"
_TRIES = 3  # that failed, before it is an alarm
_COMMAND_TRIES = 5


def tellers(settings: AlarmsSettings, folder: Path, instance: str, clock: Clock) -> dict[str, Tell]:
    """Who is to be told, by the name of the channel. Relative paths are relative to `folder`. Raises ConfigurationError."""
    found: dict[str, Tell] = {}
    if settings.webhook is not None:
        check_url(settings.webhook)
        secret = _secret(settings, folder)
        found["webhook"] = Webhook(settings.webhook, instance, clock.utc, None if secret is None else key_of(secret))
    if settings.command:
        if not settings.command[0]:
            raise ConfigurationError("alarms.command: its first word is the program, and it is empty")
        found["command"] = Command(tuple(settings.command), instance)
    return found


def _secret(settings: AlarmsSettings, folder: Path) -> Secret | None:
    if settings.webhook_secret is not None:
        return Secret(settings.webhook_secret.get_secret_value())
    if settings.webhook_secret_file is None:
        return None
    path = folder / settings.webhook_secret_file.expanduser()
    try:
        return Secret(path.read_bytes().decode().removesuffix("\n").removesuffix("\r"))
    except OSError as error:
        raise ConfigurationError(f"alarms.webhook_secret_file: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        # Without its cause, which holds the bytes.
        raise ConfigurationError(f"alarms.webhook_secret_file: {path} is not UTF-8 text") from None


@dataclass(slots=True)
class Notifier:
    """The channels. `settled` is called when a line became shorter, by the thread that told. For one thread to change."""

    clock: Clock
    settled: Callable[[], None]
    channels: dict[str, Channel] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)  # of every line, so that all are written down together
    _is_started: bool = False

    def set_tellers(self, found: Mapping[str, Tell]) -> None:
        """Takes up who is to be told. A channel that stays keeps its line, and tries it at once; one that goes loses it."""
        for name in [name for name in self.channels if name not in found]:
            self.channels.pop(name).stop()
        for name, tell in found.items():
            if (known := self.channels.get(name)) is not None:
                known.tell_by(tell)
                continue
            made = Channel(name, tell, self.clock, self.settled, _COMMAND_TRIES if name == "command" else None, lock=self.lock)
            self.channels[name] = made
            if self._is_started:
                made.start()

    def start(self) -> None:
        """Begins to tell what waits."""
        self._is_started = True
        for channel in self.channels.values():
            channel.start()

    def tell(self, changes: Changes, write_down: Callable[[], None]) -> None:
        """Puts the changes into every line. Nobody is told before `write_down` has returned: a crash repeats nothing."""
        now = self.clock.utc()
        events = [Event(uuid.uuid4().hex, change, now, alarm) for change, alarm in events_of(changes)]
        with self.lock:
            for name, channel in self.channels.items():
                # That it tells nothing is nothing it could tell.
                channel.add(event for event in events if event.alarm.id != f"{UNDELIVERED}:{name}")
            write_down()

    def undelivered(self) -> list[Alarm]:
        """Alarms about channels that cannot tell."""
        found = []
        for name, channel in self.channels.items():
            trouble = channel.trouble()
            if trouble is None or trouble.tries < _TRIES:
                continue
            found.append(
                Alarm(
                    id=f"{UNDELIVERED}:{name}",
                    kind=UNDELIVERED,
                    about=name,
                    title=f"alarms do not get through by the {name}",
                    text=f"{trouble.reason}. Tried {trouble.tries} times; waiting: {words.many(trouble.waiting, 'event')}. "
                    f"Look at [alarms] in the configuration, and at whoever should receive them.",
                    since=trouble.since,
                    severity="critical",
                )
            )
        return found

    def is_unsure(self, alarm: Alarm) -> bool:
        """Whether it cannot be said yet if a channel that could not tell can do so now."""
        channel = self.channels.get(alarm.about) if alarm.kind == UNDELIVERED else None
        return channel is not None and bool(channel.waiting())

    def records(self) -> dict[str, list[dict[str, object]]]:
        """What has not been told yet, for a file."""
        with self.lock:
            return {name: [event.as_record() for event in channel.waiting()] for name, channel in self.channels.items()}

    def restore(self, records: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
        """Puts what an earlier process could not tell first into the lines. Raises ValueError."""
        for name, waiting in records.items():
            events = [event_from(record) for record in waiting]
            if name in self.channels:
                self.channels[name].add(events)

    def close(self, timeout: float) -> None:
        """Ends the threads, waiting so many seconds for each. What was not told stays in the lines."""
        for channel in self.channels.values():
            channel.stop()
        for channel in self.channels.values():
            channel.join(timeout)
