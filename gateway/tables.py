"""The tables that a configuration file can have, found in the models: for what is said of one, and what is suggested."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType
from typing import get_args, get_origin

from pydantic import BaseModel

from gateway.faults import UNKNOWN, Fault, KeyPath

ANY = "*"  # in the path of a table: a name, or the number of an entry


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of table: how it is headed, such as `[drop.NAME]` or `[[route]]`, and where it stands."""

    heading: str
    path: tuple[str, ...]
    model: type[BaseModel]

    @property
    def keys(self) -> list[str]:
        """Its keys as the file writes them, less those that are tables of their own."""
        below = {table.path[len(self.path)] for table in tables(self.model, self.path)}
        names = (field.alias or name for name, field in self.model.model_fields.items())
        return [name for name in names if name not in below]

    def is_at(self, path: KeyPath) -> bool:
        """Whether a path leads to such a table."""
        return len(path) == len(self.path) and all(own in (ANY, part) for own, part in zip(self.path, path, strict=True))


def tables(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[Table]:
    """Every kind of table below a model, in the order of its fields, an outer one before the inner ones."""
    for name, field in model.model_fields.items():
        kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType] or [field.annotation]
        inner = kinds[-1]
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            continue
        at = (*path, field.alias or name)
        shown = ".".join("NAME" if part == ANY else part for part in at)
        match get_origin(field.annotation):
            case origin if origin is dict:
                table = Table(f"[{shown}.NAME]", (*at, ANY), inner)
            case origin if origin is list:
                table = Table(f"[[{shown}]]", (*at, ANY), inner)
            case _:
                table = Table(f"[{shown}]", at, inner)
        yield table
        yield from tables(inner, table.path)


def suggestion(fault: Fault, model: type[BaseModel], *, is_table: bool) -> str:
    """What is probably meant by a key or a table that is not known, or written in another way than it has to be; "" for others.

    `is_table`: what stands there in the file is a table, or a list of them.
    """
    known = list(tables(model))
    if is_written_wrong(fault):
        return next((f"; write {table.heading}" for table in known if table.path[0] == fault.key[0]), "")
    if fault.kind != UNKNOWN:
        return ""
    *place, last = fault.key
    here = next((table for table in known if table.is_at(tuple(place))), None)
    if is_table:
        return _meant_table(str(last), tuple(place), known, here)
    if here is not None and (like := difflib.get_close_matches(str(last), here.keys, 1)):
        return f"; is `{like[0]}` meant?"
    keys = {key: [table.heading for table in known if key in table.keys] for table in known for key in table.keys}
    if last in keys:
        return f"; it belongs to {' or '.join(keys[str(last)])}"
    # Of so many keys one is always a little alike.
    if not place and (like := difflib.get_close_matches(str(last), keys, 1, cutoff=0.75)):
        return f"; is `{like[0]}` of {' or '.join(keys[like[0]])} meant?"
    return "; it stands above the first table, and belongs into one" if not place else ""


def is_written_wrong(fault: Fault) -> bool:
    """Whether a known table is there in another form: `[route]` for `[[route]]`, `[drop]` for `[drop.NAME]`."""
    return fault.kind in ("dict_type", "model_type", "list_type") and len(fault.key) <= 2


def _meant_table(last: str, place: KeyPath, known: list[Table], here: Table | None) -> str:
    headings: dict[str, str] = {}
    for table in known:
        if _is_below(table, place):
            headings.setdefault(table.path[len(place)], table.heading)
    if like := difflib.get_close_matches(last, headings, 1):
        return f"; is {headings[like[0]]} meant?"
    if here is not None and here.path[-1] == ANY and place:
        name = f"{place[-1]}.{last}"
        return f"; a name with a dot in it needs quotes: {here.heading.replace('NAME', chr(34) + name + chr(34))}"
    return "" if place else f"; the tables are {', '.join(headings.values())}"


def _is_below(table: Table, place: KeyPath) -> bool:
    outer = table.path[: len(place)]
    return len(table.path) > len(place) and all(own in (ANY, part) for own, part in zip(outer, place, strict=True))
