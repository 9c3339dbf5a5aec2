"""Every fault of a configuration at once, each with the path of its key, and none with the value: it may be a secret."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ModelWrapValidatorHandler, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from protocol.errors import ProtocolError

M = TypeVar("M")
Faults = Iterator[tuple[str, str]]  # a key, "" for the whole table, and what is wrong with it


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
        details += [
            _detail(fault["loc"], _text(fault["type"], fault["msg"]))
            for fault in error.errors(include_input=False, include_url=False, include_context=False)
        ]
    if isinstance(given, Mapping):
        details += [_detail(tuple(key.split(".")) if key else (), text) for key, text in contradictions(given)]
    if details or made is None:
        raise ValidationError.from_exception_data(title, details, hide_input=True)
    return made


def told(error: ValidationError) -> Iterable[str]:
    """One line a fault, in the order of the file's tables."""
    for fault in error.errors(include_input=False, include_url=False, include_context=False):
        key = ".".join(str(part) for part in fault["loc"])
        text = _text(fault["type"], fault["msg"])
        yield f"{key}: {text}" if key else text


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Inside, what the protocol refuses is a fault of the key at hand."""
    try:
        yield
    except ProtocolError as error:
        raise ValueError(str(error)) from error


def _detail(location: tuple[int | str, ...], text: str) -> InitErrorDetails:
    # As a value and not as the template: braces in it are no placeholders.
    return InitErrorDetails(type=PydanticCustomError("fault", "{text}", {"text": text}), loc=location, input=None)


def _text(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "this key is not known"
    if kind == "missing":
        return "this key is missing"
    return message.removeprefix("Value error, ")
