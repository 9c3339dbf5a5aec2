"""The receipt: what became of an item, written beside its after or error image by whoever consumed it (PROTOCOL section 2).

A receipt is a stranger's word, as a manifest is: it is parsed strictly, and nothing in it is a path. `run` is the generation
of the ledger's entry, so that of two receipts for one item the later run's is the higher one.
"""

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from protocol.errors import InvalidReceipt
from protocol.json_text import InvalidJson, faults, format_object, parse_object
from protocol.manifest import MOST_FILES

VERSION = 1
LARGEST = 1024 * 1024  # bytes
ASIDE = ".old"  # the end of the scratch names to which receipts are moved
LONGEST_TEXT = 4000  # characters of a result or an error; what a ledger keeps, and no log

Ending = Literal["processed", "failed", "forwarded", "published"]


class _Strict(BaseModel):
    # Unknown keys are kept for later versions; a wrong type is never bent into the right one.
    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class Answer(_Strict):
    """What one consumer says of an item: `outcome`, when, who, `result` of a success or `kind` and `error` of a failure.

    `hashes` are those of the payloads as they were verified, `algorithm:hex` by name. `destinations` are the answers of
    drops that the item was forwarded to. `published` is said of one that sends no receipts.
    """

    outcome: Ending
    item: str = ""
    hashes: Annotated[dict[str, str], Field(max_length=MOST_FILES)] = {}
    time: str = ""
    host: str = ""
    owner: str = ""
    run: Annotated[int, Field(ge=0)] = 0
    attempts: Annotated[int, Field(ge=0)] = 0
    replay: bool = False
    result: str = ""
    kind: str = ""
    error: str = ""
    destinations: dict[str, "Answer"] = {}


class Receipt(Answer):
    """A whole receipt. `complete` is False while the answer of a destination is still to come."""

    receipt: Literal[1] = 1
    item: str
    key: str = ""
    time: str
    complete: bool = True

    @property
    def answer(self) -> Answer:
        """The receipt as one entry of another's `destinations`."""
        return Answer.model_validate(self.model_dump(include=set(Answer.model_fields), exclude_defaults=True))


def format_receipt(receipt: Receipt) -> bytes:
    """The file's content: what is known, and nothing else. Texts of strangers are bounded, and made fit for UTF-8.

    Of an item of very many files the hashes are left out where they would not fit.
    """
    value: dict[str, Any] = {"receipt": VERSION, "item": receipt.item, "key": receipt.key, "outcome": receipt.outcome}
    value |= receipt.model_dump(mode="python", exclude_defaults=True)
    if receipt.destinations or not receipt.complete:
        value["complete"] = receipt.complete
    data = format_object(_fit(value))
    return data if len(data) <= LARGEST else format_receipt(receipt.model_copy(update={"hashes": {}, "destinations": {}}))


def parse_receipt(data: bytes) -> Receipt:
    """A receipt out of a file's content. Raises InvalidReceipt; `torn` on it says that it is not even whole."""
    try:
        value = parse_object(data, limit=LARGEST)
    except InvalidJson as error:
        raise InvalidReceipt(f"the receipt cannot be read: {error}", torn=len(data) <= LARGEST) from error
    version = value.get("receipt")
    if type(version) is not int or version != VERSION:
        raise InvalidReceipt(f"the receipt is of version {str(version)[:20]}; this reader knows version {VERSION}", torn=False)
    try:
        return Receipt.model_validate(value)
    except ValidationError as error:
        raise InvalidReceipt(f"the receipt is wrong in {faults(error)}", torn=False) from error


def aside_path(path: str, writer: str) -> str:
    """The scratch name to which a writer moves a receipt away, so that whoever finds it later knows which one it was."""
    return f"T_{writer}.{_trace(path)}{ASIDE}"


def set_aside(scratch: Iterable[str], path: str) -> bool:
    """Whether one of these scratch files was a receipt of this path: its writer was cut, or is at it just now."""
    return any(name.endswith(f".{_trace(path)}{ASIDE}") for name in scratch)


def _trace(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:16]


def _fit(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _fit(one) for key, one in value.items()}
    if not isinstance(value, str):
        return value
    # The text of an error may quote a local file name, and those are bytes that need not be UTF-8.
    text = value.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."
