"""What a claimed item consists of, once its token was read."""

from dataclasses import dataclass

from protocol.manifest import Manifest
from protocol.names import Name


@dataclass(frozen=True, slots=True)
class Payload:
    """One payload of a claimed item: its ready name, the path where it is now, its size in bytes, and what its hash must be.

    `digest` is "" where the drop's signal carries none. `source_name` is what its producer called it: a stranger's word.
    """

    name: Name
    path: str
    size: int | None
    algorithm: str
    digest: str
    source_name: str | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """What a claimed item consists of. `manifest` is None where the drop's signal is not a manifest."""

    payloads: tuple[Payload, ...]
    manifest: Manifest | None = None
