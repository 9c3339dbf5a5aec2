"""How the page says sizes, counts and times, and how it shows a text that a stranger wrote."""

from datetime import UTC, datetime

LONGEST_TEXT = 2000  # characters of a stranger's text; the whole of it is in its file


def visible(text: str) -> str:
    """A text whose control, bidirectional and unassigned characters are shown as such, so that no browser obeys them.

    A line break stays: a browser takes it for a space, but in preformatted text.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else f"[U+{ord(c):04X}]" for c in text)


def clipped(text: str, longest: int = LONGEST_TEXT) -> str:
    """The beginning of a long text."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def size(count: int | None) -> str:
    """Bytes for people."""
    if count is None:
        return ""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def counted(number: int, one: str, many: str = "") -> str:
    """ "1 item", "2 items"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def span(seconds: float) -> str:
    """A length of time, in its two largest units."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for small, large, unit, next_unit in ((60, 60, "min", "s"), (3600, 24, "h", "min"), (86400, 10**9, "d", "h")):
        if whole < small * large:
            rest = whole % small // {"s": 1, "min": 60, "h": 3600}[next_unit]
            return f"{whole // small} {unit}" + (f" {rest} {next_unit}" if rest else "")
    return f"{whole // 86400} d"


def epoch(iso: str) -> float | None:
    """Seconds since the epoch of an ISO 8601 time; None for "" and for what is none."""
    try:
        return datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return None


def utc(seconds: float) -> str:
    """ISO 8601 in UTC, to the second: no file's time means anything finer here."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""  # a server may say anything of a file


def exact(iso: str) -> str:
    """The same time as a person reads it, in UTC."""
    moment = epoch(iso)
    if moment is None:
        return iso
    text = datetime.fromtimestamp(moment, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "")
    return f"{text.removesuffix('.000')} UTC"
