"""The lines of a journal: what each says, and how it is told from one that was cut.

    6d1f0c2b {"v":3,"by":"4711.9f3a12c4.17","key":"...","state":"done","gen":2,"item":"orders_","no":42,"owner":"...",...}

Eight hex digits are the CRC-32 of what follows them and a space. A line is written in one piece, with a newline before it
and one behind it: a fragment that a writer left when it died is thus ended by whoever writes next, and its sum is wrong.

    head     {"journal":1,"number":7,"consumer":"..."}    the first line of a file
    kept     {"kept":3, ...an entry...}                   what the file before had come to, one line a key
    change   {"v":4,"by":"...", ...an entry...}           counts if the key's version is 3 then
    seal     {"sealed":"..."}                             the file ends here, whatever follows
"""

import json
import zlib
from dataclasses import dataclass
from typing import Any

from protocol.ledger import Ended, Entry, LedgerState
from protocol.names import ItemId

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Head:
    """What a file is: its format, its place in the row of files, whose it is."""

    format: int
    number: int
    consumer: str


@dataclass(frozen=True, slots=True)
class Record:
    """An entry that a key was given. `version` counts the key's changes; `by` is the line's own mark, "" where it is kept."""

    version: int
    by: str
    key: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class Seal:
    """The end of a file. What others append behind it does not count: they find it before their own line, and go on."""

    by: str


Line = Head | Record | Seal


def encoded(line: Line) -> bytes:
    """A line as it is to be written, in one piece."""
    text = json.dumps(_fields(line), separators=(",", ":")).encode("ascii")
    return b"\n%08x %b\n" % (zlib.crc32(text), text)


def _fields(line: Line) -> dict[str, Any]:
    match line:
        case Head(format_, number, consumer):
            return {"journal": format_, "number": number, "consumer": consumer}
        case Seal(by):
            return {"sealed": by}
        case Record(version, by, key, entry):
            fields = {"v": version, "by": by} if by else {"kept": version}
            return fields | {"key": key} | _entry_fields(entry)


def _entry_fields(entry: Entry) -> dict[str, Any]:
    fields = {
        "state": entry.state.value,
        "gen": entry.generation,
        "item": entry.item.group,
        "no": entry.item.number,
        "owner": entry.owner,
        "tries": entry.attempts,
        "at": entry.at,
    }
    rest = {"hash": entry.hash, "ended": entry.ended.value, "result": entry.result, "replayed": entry.replayed}
    return fields | {name: value for name, value in rest.items() if value}


def decoded(data: bytes) -> Line | None:
    """What a line says, its newline taken off. None: nothing (it is empty, or a fragment)."""
    if data[8:9] != b" " or not _is_sum(data[:8], data[9:]):
        return None
    fields = json.loads(data[9:])
    if "journal" in fields:
        return Head(fields["journal"], fields["number"], fields["consumer"])
    if "sealed" in fields:
        return Seal(fields["sealed"])
    version = fields.get("v") or fields["kept"]
    entry = Entry(
        LedgerState(fields["state"]),
        fields["gen"],
        ItemId(fields["item"], fields["no"]),
        fields["owner"],
        fields["tries"],
        fields["at"],
        fields.get("hash", ""),
        Ended(fields.get("ended", "")),
        fields.get("result", ""),
        fields.get("replayed", ""),
    )
    return Record(version, fields.get("by", ""), fields["key"], entry)


def is_kept(data: bytes) -> bool:
    """Whether a line is a kept one, at a glance: its sum is not looked at."""
    return data[8:17] == b' {"kept":'


def _is_sum(digits: bytes, text: bytes) -> bool:
    return digits == b"%08x" % zlib.crc32(text)
