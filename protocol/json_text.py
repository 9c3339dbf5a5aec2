"""JSON from strangers: one object of bounded size, no key twice, no value that a second reader would see otherwise."""

import json
import math
from typing import Any

from pydantic import ValidationError

from protocol.shown import shown

DEEPEST = 64  # levels; every reader has some limit, and differs from the next in how it fails beyond it
LONGEST_NUMBER = 40  # digits
_MOST_FAULTS = 8  # named in one message


class InvalidJson(ValueError):
    """Not one JSON object that can be trusted. The message says why."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            # Readers differ in which one they keep; that is how two of them come to disagree on what was sent.
            raise InvalidJson(f"the key {shown(key)} stands twice in one object")
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
    if len(text) > LONGEST_NUMBER:
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
    except json.JSONDecodeError as error:
        cut = "; it seems to be cut short" if error.pos >= len(text.rstrip()) else ""
        raise InvalidJson(f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}{cut}") from error
    except RecursionError as error:
        raise InvalidJson("it is nested too deeply") from error
    if not isinstance(value, dict):
        raise InvalidJson("it is not an object")
    _check_values(value)
    return value


def _check_values(value: object) -> None:
    """That there is nothing which another reader, or our own writer, would stumble over. Raises InvalidJson."""
    level = [value]
    for _ in range(DEEPEST):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.keys()
                inner += one.values()
            elif isinstance(one, list):
                inner += one
            elif isinstance(one, str) and not _is_text(one):
                raise InvalidJson("it holds half of a surrogate pair, which is no character")
        if not inner:
            return
        level = inner
    raise InvalidJson(f"it is nested more than {DEEPEST} levels deep")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def format_object(value: dict[str, Any]) -> bytes:
    """The same object as people read it: indented, UTF-8, no byte order mark, a newline at its end.

    Raises InvalidJson for what JSON has no form for, and for half a character.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise InvalidJson(f"it cannot be written as JSON: {error}") from error
    try:
        return (text + "\n").encode()
    except UnicodeEncodeError as error:
        raise InvalidJson("it holds half of a surrogate pair, which is no character") from error


def faults(error: ValidationError) -> str:
    """What a value of the wrong form has wrong, key by key, for people."""
    found = [
        f"{shown('.'.join(str(part) for part in fault['loc']))}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    more = f"; and {len(found) - _MOST_FAULTS} more" if len(found) > _MOST_FAULTS else ""
    return "; ".join(found[:_MOST_FAULTS]) + more
