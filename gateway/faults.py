"""Every fault of a configuration at once, each with the path of its key, and none with the value: it may be a secret."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ModelWrapValidatorHandler, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from gateway.errors import ConfigurationError
from protocol.errors import ProtocolError

M = TypeVar("M")
KeyPath = tuple[str | int, ...]  # tables and the key's own name; the number of an entry of a [[table]], from 0
Faults = Iterator[tuple[str | KeyPath, str]]  # a key, "" for the whole table, and what is wrong with it

UNKNOWN = "extra_forbidden"  # the kind of a fault that is a key which is not known


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    `kind` is pydantic's, or "fault" for one of ours. `line` and `column` are from 1, and None where they are not known.
    """

    key: KeyPath
    text: str
    kind: str = "fault"
    line: int | None = None
    column: int | None = None
    shown: str | None = None  # the line itself, without secrets

    @property
    def name(self) -> str:
        """The key as it is told; "" for the whole file."""
        return ".".join(map(str, self.key))

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.key else self.text


class FaultyConfiguration(ConfigurationError):
    """A configuration that cannot be used, with every fault that was found in it."""

    def __init__(self, title: str, faults: Sequence[Fault]) -> None:
        super().__init__("\n  ".join([title, *map(str, faults)]))
        self.faults = tuple(faults)


def with_faults(
    title: str, given: Any, check: ModelWrapValidatorHandler[M], contradictions: Callable[[Mapping[str, Any]], Faults]
) -> M:
    """The checked model. Raises ValidationError with the faults of single keys *and* the contradictions between keys.

    Pydantic's own "after" validators do not run once a single key is wrong, and a person would mend a file fault by fault.
    """
    made: M | None = None
    details: list[InitErrorDetails] = []
    try:
        made = check(given)
    except ValidationError as error:
        details += [_detail(fault.key, fault.text, fault.kind) for fault in told(error)]
    if isinstance(given, Mapping):
        for key, text in contradictions(given):
            path = key if isinstance(key, tuple) else tuple(key.split(".")) if key else ()
            details.append(_detail(path, text, "fault"))
    if details or made is None:
        raise ValidationError.from_exception_data(title, details, hide_input=True)
    return made


def told(error: ValidationError) -> list[Fault]:
    """The faults, in the order of the file's tables."""
    found: list[Fault] = []
    for fault in error.errors(include_input=False, include_url=False):
        key, kind = fault["loc"], fault["type"]
        if len(key) > 1 and isinstance(key[-1], str) and key[-1] in _MEMBERS and kind.startswith(f"{key[-1]}_"):
            # One value was refused as each kind that it may have; together they are one fault.
            one = Fault(key[:-1], "a text in quotes, a number, true or false is wanted", "union")
        else:
            one = Fault(key, _text(fault), kind)
        if one not in found:
            found.append(one)
    return found


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Inside, what the protocol refuses is a fault of the key at hand."""
    try:
        yield
    except ProtocolError as error:
        raise ValueError(str(error)) from error


def _detail(location: KeyPath, text: str, kind: str) -> InitErrorDetails:
    # As a value and not as the template: braces in it are no placeholders.
    error = PydanticCustomError(kind, "{text}", {"text": text})
    return InitErrorDetails(type=error, loc=location, input=None)


_MEMBERS: tuple[str, ...] = ("str", "int", "float", "bool")

# What pydantic finds, in the words of somebody who writes TOML.
_WANTED = {
    UNKNOWN: "this key is not known",
    "missing": "this key is missing",
    "string_type": "a text in quotes is wanted",
    "int_type": "a whole number is wanted, without quotes",
    "int_parsing": "a whole number is wanted",
    "int_from_float": "a whole number is wanted",
    "float_type": "a number is wanted, without quotes",
    "float_parsing": "a number is wanted",
    "finite_number": "a number is wanted; inf and nan cannot be used",
    "bool_type": "true or false is wanted, without quotes",
    "bool_parsing": "true or false is wanted",
    "list_type": 'a list is wanted, such as ["..."]',
    "path_type": "a path in quotes is wanted",
    "dict_type": "a table is wanted",
    "model_type": "a table is wanted",
}
_LIMITS = {
    "greater_than": ("gt", "a number above {} is wanted"),
    "greater_than_equal": ("ge", "a number of at least {} is wanted"),
    "less_than": ("lt", "a number below {} is wanted"),
    "less_than_equal": ("le", "a number of at most {} is wanted"),
    "string_too_short": ("min_length", "a text of {} characters or more is wanted"),
    "string_too_long": ("max_length", "a text of at most {} characters is wanted"),
    "literal_error": ("expected", "{} is wanted"),
    "enum": ("expected", "{} is wanted"),
}
_PATTERNS = {
    "^SHA256:": "this is no fingerprint as `ssh-keygen -l` shows it: SHA256: and 43 characters",
    "^\\$argon2id": "this is no argon2id hash of a password; one begins with $argon2id$",
    "^https?://": "a URL is wanted that begins with https:// or http://",
}


def _text(fault: ErrorDetails) -> str:
    kind, facts = fault["type"], fault.get("ctx", {})
    if kind in _WANTED and "text" not in facts:
        return _WANTED[kind]
    if kind in _LIMITS and _LIMITS[kind][0] in facts:
        name, template = _LIMITS[kind]
        limit = facts[name]
        return template.format(f"{limit:g}" if isinstance(limit, float) else limit)
    if kind == "string_pattern_mismatch" and "pattern" in facts:
        told_as = (text for begin, text in _PATTERNS.items() if str(facts["pattern"]).startswith(begin))
        return next(told_as, "not of the form that is wanted")
    return fault["msg"].removeprefix("Value error, ")
