"""Faults as a person is told them: with what was probably meant, and with the line of the file, where it is the file's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from gateway.faults import UNKNOWN, Fault, KeyPath
from gateway.tables import is_written_wrong, suggestion
from gateway.toml_text import TomlText, line_of


def explained(
    faults: Sequence[Fault], file: TomlText, over: Sequence[Mapping[str, Any]], model: type[BaseModel]
) -> list[Fault]:
    """The faults that `model` found. `over` are the values that stand over the file; a fault of theirs has no line."""
    lines = file.lines()
    told = []
    for fault in faults:
        value = _value_at(file.values, fault.key)
        tables = isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(one, Mapping) for one in value))
        text = "this table is not known" if tables and fault.kind == UNKNOWN else fault.text
        meant = suggestion(fault, model, is_table=tables)
        text = f"this is not how it is written{meant}" if meant and is_written_wrong(fault) else text + meant
        if len(fault.key) > 1 and any(_value_at(values, fault.key) is not None for values in over):
            told.append(replace(fault, text=f"{text} (the environment sets it)"))
        else:
            told.append(replace(fault, text=text, line=line_of(fault.key, lines)))
    return told


def _value_at(values: object, key: KeyPath) -> object:
    """What stands at a key; None where nothing does."""
    for part in key:
        if isinstance(values, Mapping):
            values = values.get(part)
        else:
            values = values[part] if isinstance(values, list) and isinstance(part, int) and part < len(values) else None
    return values
