"""One alarm: something that a person should know of, for as long as it is so."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Severity = Literal["warning", "critical"]


@dataclass(frozen=True, slots=True)
class Alarm:
    """What is wrong. `id` is the same for the same trouble, also after a restart; `since` is ISO 8601 in UTC.

    `about` names the drop, group, route or endpoint. `title` is one line; `text` says what happened, what is known and what to
    do. `level` says how bad it is within its kind: a rise is told once, as a change of one and the same alarm.

    `drops` and `routes` are those whose views on the board say whether it is still so. While one of them is not known, nothing
    is known of the alarm either, and it stays.
    """

    id: str
    kind: str
    about: str
    title: str
    text: str
    since: str
    severity: Severity = "warning"
    level: int = 0
    drops: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()

    def as_record(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self) | {"drops": list(self.drops), "routes": list(self.routes)}


def alarm_from(record: Mapping[str, Any]) -> Alarm:
    """The alarm of a record. Raises ValueError for what none can have made."""
    texts = {name: record.get(name) for name in ("id", "kind", "about", "title", "text", "since", "severity")}
    level, drops, routes = record.get("level"), record.get("drops"), record.get("routes")
    if (
        not all(isinstance(text, str) for text in texts.values())
        or texts["severity"] not in get_args(Severity)
        or not isinstance(level, int)
        or not isinstance(drops, list)
        or not isinstance(routes, list)
    ):
        raise ValueError("this is no record of an alarm")
    return Alarm(**texts, level=level, drops=tuple(map(str, drops)), routes=tuple(map(str, routes)))  # type: ignore[arg-type]  # each was looked at above
