"""How one drop is set up: the choices that PROTOCOL.md leaves to a drop, in one value that every procedure is given."""

import math
from dataclasses import dataclass, field
from enum import Enum

from protocol.errors import InvalidRules
from protocol.hashes import ALGORITHMS, DEFAULT_ALGORITHM
from protocol.layout import Layout, PrefixLayout
from protocol.names import CHECKSUM_SUFFIX, MANIFEST_SUFFIX, FileKind, Grammar
from protocol.shown import shown


class Signal(Enum):
    """What tells a consumer that an item is complete (section 3)."""

    MANIFEST = "manifest"
    CHECKSUM = "checksum"
    NONE = "none"


class Verify(Enum):
    """How a producer checks what the server stored before it publishes (section 5)."""

    SIZE = "size"
    READBACK = "readback"


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of one drop. `busy_patience` is in seconds: how long a file that somebody has open is waited for.

    With `receipts` whoever consumes here writes what became of each item beside its after or error image. `forwards` are
    the groups whose consumer is a route, and `awaits` those of them whose receipts are complete only once a drop further on
    has answered; of these a receipt is written in any case.

    Making them raises InvalidRules where they contradict each other.
    """

    layout: Layout = field(default_factory=PrefixLayout)
    signal: Signal = Signal.MANIFEST
    algorithm: str = DEFAULT_ALGORITHM
    verify: Verify = Verify.SIZE
    busy_patience: float = 30.0
    trusted_keys: frozenset[str] = frozenset()
    receipts: bool = False
    forwards: frozenset[str] = frozenset()
    awaits: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise InvalidRules(f"hash algorithm {shown(self.algorithm)} is not known here; known are {', '.join(ALGORITHMS)}")
        if self.signal is Signal.CHECKSUM and self.algorithm != "sha256":
            raise InvalidRules(f"signal = 'checksum' is the format of sha256sum, so its hash is sha256, not {self.algorithm}")
        if self.trusted_keys and self.signal is not Signal.MANIFEST:
            # Only a manifest can be signed: anything else would let every unsigned item through in silence.
            raise InvalidRules(f"trusted_keys need signal = 'manifest'; signal = {self.signal.value!r} carries no signature")
        if not 0 <= self.busy_patience < math.inf:
            raise InvalidRules(f"busy_patience is {self.busy_patience} seconds; give a number from 0 up")

    @property
    def grammar(self) -> Grammar:
        return self.layout.grammar

    def writes_receipt(self, group: str) -> bool:
        """Whether an item of this group gets a receipt from its consumer."""
        return self.receipts or group in self.awaits

    def is_token(self, kind: FileKind) -> bool:
        """Whether a file of this kind is the one whose rename is the transition."""
        return {
            Signal.MANIFEST: FileKind.MANIFEST,
            Signal.CHECKSUM: FileKind.CHECKSUM,
            Signal.NONE: FileKind.PAYLOAD,
        }[self.signal] is kind

    def token_suffix(self, first_payload: str) -> str:
        """The suffix of the token of an item whose first payload has this suffix."""
        return {
            Signal.MANIFEST: MANIFEST_SUFFIX,
            Signal.CHECKSUM: f"{first_payload}.{CHECKSUM_SUFFIX}",
            Signal.NONE: first_payload,
        }[self.signal]
