"""Spans of time, amounts and moments, as alarms say them."""

from collections.abc import Iterable
from datetime import UTC, datetime


def long(seconds: float) -> str:
    """A span of time in its two largest units: "2 h 5 min"."""
    left = max(0, round(seconds))
    parts = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= size:
            parts.append(f"{left // size} {name}")
            left %= size
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def many(number: int, what: str) -> str:
    """A number of things: "1 item", "2 items"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def some(texts: Iterable[str], most: int = 3) -> str:
    """The first of many, and how many more there are."""
    listed = list(texts)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def storage(amount: int) -> str:
    """Bytes, as MiB or GiB."""
    return f"{amount / 2**30:.1f} GiB" if amount >= 2**30 else f"{amount / 2**20:.0f} MiB"


def moment(text: str) -> datetime:
    """A moment that was written as ISO 8601, in UTC unless it says otherwise. Raises ValueError."""
    made = datetime.fromisoformat(text)
    return made if made.tzinfo is not None else made.replace(tzinfo=UTC)


def written(when: datetime) -> str:
    """A moment as ISO 8601 in UTC, to the second."""
    return when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock_text(seconds: float) -> str:
    """A moment in seconds since the epoch, as ISO 8601 in UTC."""
    return written(datetime.fromtimestamp(seconds, UTC))
