"""What is sent: one change of one alarm, as a CloudEvent of version 1.0 in JSON."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import quote

from gateway.service.alarms.alarm import Alarm, alarm_from
from gateway.service.alarms.book import Changes


class Change(Enum):
    """What became of an alarm. The value ends the type of its event."""

    FIRED = "fired"
    WORSE = "worse"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True)
class Event:
    """One change of an alarm. `id` stays the same in every try to deliver it; `at` is ISO 8601 in UTC."""

    id: str
    change: Change
    at: str
    alarm: Alarm

    def as_json(self, instance: str) -> bytes:
        """The event in CloudEvents' structured mode. `instance` tells this gateway from others."""
        # The names of types promise no domain: there is none that is ours.
        return json.dumps(
            {
                "specversion": "1.0",
                "id": self.id,
                "source": f"/dropgate/{quote(instance, safe='')}",
                "type": f"dropgate.alarm.{self.change.value}",
                "subject": self.alarm.id,
                "time": self.at,
                "datacontenttype": "application/json",
                "data": self.facts(),
            },
            ensure_ascii=False,
        ).encode("utf-8", "replace")

    def facts(self) -> dict[str, str]:
        """What its receivers are told of the alarm."""
        alarm = self.alarm
        return {
            "id": alarm.id,
            "kind": alarm.kind,
            "about": alarm.about,
            "title": alarm.title,
            "text": alarm.text,
            "since": alarm.since,
            "severity": alarm.severity,
        }

    def as_record(self) -> dict[str, object]:
        """For a file."""
        return {"id": self.id, "change": self.change.value, "at": self.at, "alarm": self.alarm.as_record()}


def event_from(record: Mapping[str, Any]) -> Event:
    """The event of a record. Raises ValueError for what none can have made."""
    name, at, alarm = record.get("id"), record.get("at"), record.get("alarm")
    if not isinstance(name, str) or not isinstance(at, str) or not isinstance(alarm, Mapping):
        raise ValueError("this is no record of an event")
    return Event(name, Change(record.get("change")), at, alarm_from(alarm))


def events_of(changes: Changes) -> Iterator[tuple[Change, Alarm]]:
    """The changes of a round, in the order in which they are told."""
    for change, alarms in ((Change.FIRED, changes.fired), (Change.WORSE, changes.worse), (Change.CLEARED, changes.cleared)):
        for alarm in alarms:
            yield change, alarm
