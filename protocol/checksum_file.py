"""The checksum file: the ready signal that a shell script can write with `sha256sum` (PROTOCOL section 3).

`sha256sum orders_0000000042.csv > orders_0000000042.csv.sha256` makes one. The file is then the item's token.
"""

import re

from protocol.errors import InvalidChecksumFile
from protocol.names import FileKind, Grammar, ItemId, Name
from protocol.shown import shown
from protocol.states import State

LARGEST = 1024 * 1024  # bytes, as for a manifest

# GNU coreutils: hash, a space, " " or "*" for the mode, the name. A leading backslash marks an escaped name: such a name
# is outside the grammar anyway.
_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)", re.ASCII)


def format_checksums(hashes: dict[str, str]) -> bytes:
    """The file's content: file name to sha256 in hex, as `sha256sum` writes it."""
    return "".join(f"{digest}  {name}\n" for name, digest in hashes.items()).encode()


def parse_checksums(data: bytes, item: ItemId, grammar: Grammar) -> dict[Name, str]:
    """Payloads of this item and their sha256 in lower-case hex.

    Raises InvalidChecksumFile for anything that is not such a line, for a name of another item, and for a file whose last
    line has no newline: it may have been cut short.
    """
    if not data or len(data) > LARGEST:
        raise InvalidChecksumFile(f"the checksum file has {len(data)} bytes; it should have one line a file")
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise InvalidChecksumFile(f"the checksum file holds a byte outside ASCII at {error.start}") from error
    if not text.endswith("\n"):
        raise InvalidChecksumFile("the checksum file does not end with a newline; it seems to be cut short")
    found: dict[Name, str] = {}
    folded: set[str] = set()
    for number, line in enumerate(text[:-1].split("\n"), start=1):
        match = _LINE.fullmatch(line.removesuffix("\r"))
        if match is None:
            raise InvalidChecksumFile(f"line {number} of the checksum file is not '<sha256>  <name>' as sha256sum writes it")
        named = f"line {number} of the checksum file names {shown(match[2])}"
        name = grammar.parse(match[2])
        if not isinstance(name, Name) or name.state is not State.READY or name.item != item:
            raise InvalidChecksumFile(f"{named}, which is no file of this item")
        if name.kind is not FileKind.PAYLOAD:
            raise InvalidChecksumFile(f"{named}, which is not a payload")
        if name.suffix.lower() in folded:
            raise InvalidChecksumFile(f"{named} again")
        folded.add(name.suffix.lower())
        found[name] = match[1].lower()
    return found
