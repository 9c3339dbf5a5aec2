"""The manifest: what an item consists of, and the proof that it is complete (PROTOCOL section 3).

`parse` accepts exactly what is safe to believe and keeps unknown keys; `check_describes` holds a manifest against the item
whose token it is. A manifest is data from a stranger: no name in it is used before both were asked.
"""

import hashlib
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator
from pydantic_core import PydanticSerializationError

from protocol.errors import InvalidManifest
from protocol.hashes import parse_hash
from protocol.json_text import InvalidJson, faults, format_object, parse_object
from protocol.names import FileKind, Grammar, ItemId, Name
from protocol.shown import shown
from protocol.states import State

VERSION = 1
LARGEST = 1024 * 1024  # bytes
LONGEST_KEY = 1024  # characters
MOST_FILES = 4096  # of one item; far above any use, and far below what 1 MiB could hold by accident


class _Strict(BaseModel):
    # Unknown keys are kept for later versions; a wrong type is never bent into the right one.
    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class FileRecord(_Strict):
    """One payload: its name without a mark, its size in bytes, its hash as `algorithm:hex`, in the case it was given."""

    name: str
    size: Annotated[int, Field(ge=0, lt=2**63)]
    hash: str
    records: Annotated[int, Field(ge=0)] | None = None
    source_name: Annotated[str, Field(max_length=4096)] | None = None

    @field_validator("hash")
    @classmethod
    def _known_hash(cls, value: str) -> str:
        try:
            parse_hash(value)
        except InvalidManifest as error:
            raise ValueError(str(error)) from error
        return value  # as it was written: a signature covers it so


class Producer(_Strict):
    """Who made the item."""

    host: str = ""
    software: str = ""


class Signature(_Strict):
    """An Ed25519 signature over the canonical form; both values are base64."""

    algorithm: Literal["ed25519"]
    key: str
    value: str


class Manifest(_Strict):
    """A whole manifest. `sequence` is the number as the name writes it; `created` is an ISO 8601 time with its zone."""

    manifest: Literal[1] = 1
    group: str
    sequence: Annotated[str, Field(pattern=r"^[0-9]{1,18}$")]
    key: Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)]
    created: str
    producer: Producer = Producer()
    files: Annotated[list[FileRecord], Field(min_length=1, max_length=MOST_FILES)]
    meta: dict[str, JsonValue] = {}
    signature: Signature | None = None

    @field_validator("key")
    @classmethod
    def _one_line(cls, value: str) -> str:
        # It goes into logs, environment variables and data bases; a NUL or a newline there is an attack or an accident.
        if any(unicodedata.category(character) == "Cc" for character in value):
            raise ValueError("a control character in it")
        return value

    @field_validator("created")
    @classmethod
    def _a_time(cls, value: str) -> str:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("not an ISO 8601 time") from None
        if moment.tzinfo is None:
            raise ValueError("a time without its zone")
        return value


def to_object(manifest: Manifest) -> dict[str, Any]:
    """The manifest as a JSON object: exactly the keys that it was given or read with."""
    return {"manifest": VERSION} | manifest.model_dump(mode="json", exclude_unset=True)


def format_manifest(manifest: Manifest) -> bytes:
    """The file's content. Raises InvalidManifest for one that a reader would refuse, such as one that is too large."""
    try:
        data = format_object(to_object(manifest))
    except (InvalidJson, PydanticSerializationError) as error:
        raise InvalidManifest(f"the manifest cannot be written: {error}") from error
    if len(data) > LARGEST:
        raise InvalidManifest(f"the manifest would be {len(data)} bytes, {LARGEST} is the limit; put less into its meta")
    # Read back before anybody else does: an item that every consumer refuses is better never published.
    parse_manifest(data)
    return data


def parse_manifest(data: bytes) -> Manifest:
    """A manifest out of a file's content. Raises InvalidManifest with the faults that were found."""
    try:
        value = parse_object(data, limit=LARGEST)
    except InvalidJson as error:
        raise InvalidManifest(f"the manifest cannot be read: {error}") from error
    version = value.get("manifest")
    if type(version) is not int:  # neither `true` nor 1.0, which are both equal to 1 here
        raise InvalidManifest('the manifest has no version number; it should begin with "manifest": 1')
    if version != VERSION:
        raise InvalidManifest(f"the manifest is of version {version}; this reader knows version {VERSION}")
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        raise InvalidManifest(f"the manifest is wrong in {faults(error)}") from error


def derived_key(item: ItemId, grammar: Grammar, hashes: Iterable[str]) -> str:
    """The idempotency key of an item that was given none: its group, number and payload hashes (PROTOCOL section 3)."""
    key = " ".join((item.group + grammar.digits(item.number), *sorted(hashes)))
    return key if len(key) <= LONGEST_KEY else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def check_describes(manifest: Manifest, item: ItemId, grammar: Grammar) -> dict[str, Name]:
    """The manifest's file names, parsed, once it is known to speak of this item and of nothing else.

    Raises InvalidManifest for another group or number, a path, a marked or foreign name, another item's file, or a name
    that stands twice (also by case, which SMB folds).
    """
    if manifest.group != item.group or manifest.sequence != grammar.digits(item.number):
        raise InvalidManifest(
            f"the manifest speaks of {shown(manifest.group + manifest.sequence)}, "
            f"its name of {item.group}{grammar.digits(item.number)}"
        )
    names: dict[str, Name] = {}
    folded: set[str] = set()
    for record in manifest.files:
        name = grammar.parse(record.name)
        if not isinstance(name, Name) or name.state is not State.READY or name.item != item:
            raise InvalidManifest(f"the manifest names {shown(record.name)}, which is no file of this item")
        if name.kind is not FileKind.PAYLOAD:
            raise InvalidManifest(f"the manifest names {shown(record.name)}, which is not a payload")
        if record.name.lower() in folded:
            raise InvalidManifest(f"the manifest names {shown(record.name)} twice")
        folded.add(record.name.lower())
        names[record.name] = name
    return names
