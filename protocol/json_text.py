"""JSON from strangers: one object of bounded size, no key twice, no value that a second reader would see otherwise."""

import json
import math
from typing import Any


class InvalidJson(ValueError):
    """Not one JSON object that can be trusted. The message says why."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            # Readers differ in which one they keep; that is how two of them come to disagree on what was sent.
            raise InvalidJson(f"the key {key!r} stands twice in one object")
        found[key] = value
    return found


def _constant(text: str) -> None:
    raise InvalidJson(f"{text} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidJson(f"the number {text[:20]}... is too large")
    return value


def _int(text: str) -> int:
    if len(text) > 40:
        raise InvalidJson(f"the number {text[:20]}... is too large")
    return int(text)


def parse_object(data: bytes, *, limit: int) -> dict[str, Any]:
    """One JSON object out of UTF-8 bytes; a byte order mark is tolerated. Raises InvalidJson."""
    if len(data) > limit:
        raise InvalidJson(f"it is larger than {limit} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidJson(f"it is not UTF-8 at byte {error.start}") from error
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float, parse_int=_int)
        text_again = json.dumps(value, ensure_ascii=False)
    except json.JSONDecodeError as error:
        cut = "; it seems to be cut short" if error.pos >= len(text.rstrip()) else ""
        raise InvalidJson(f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}{cut}") from error
    except RecursionError as error:
        raise InvalidJson("it is nested too deeply") from error
    try:
        text_again.encode()
    except UnicodeEncodeError as error:
        raise InvalidJson("it holds half of a surrogate pair, which is no character") from error
    if not isinstance(value, dict):
        raise InvalidJson("it is not an object")
    return value


def format_object(value: dict[str, Any]) -> bytes:
    """The same object as people read it: indented, UTF-8, no byte order mark, a newline at its end."""
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
