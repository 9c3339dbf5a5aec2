"""Content hashes as manifests write them, `algorithm:hex`, and the registry of algorithms (PROTOCOL section 3)."""

import hashlib
import re
from collections.abc import Callable
from typing import Protocol

from protocol.errors import InvalidManifest
from protocol.shown import shown


class Hasher(Protocol):
    """What of hashlib's objects is used."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


# Every reader must know sha256. The others are worth their place: sha512 is faster on 64-bit machines without SHA
# instructions, blake2b faster still; sha1 and md5 collide and are left out on purpose.
ALGORITHMS: dict[str, Callable[[], Hasher]] = {
    "sha256": hashlib.sha256,
    "sha384": hashlib.sha384,
    "sha512": hashlib.sha512,
    "sha3-256": hashlib.sha3_256,
    "blake2b": hashlib.blake2b,
}
DEFAULT_ALGORITHM = "sha256"

_HEX = re.compile(r"[0-9a-fA-F]+", re.ASCII)


def new_hasher(algorithm: str) -> Hasher:
    """A fresh hash object. Raises InvalidManifest for an unknown algorithm."""
    try:
        return ALGORITHMS[algorithm]()
    except KeyError:
        raise InvalidManifest(
            f"hash algorithm {shown(algorithm)} is not known here; known are {', '.join(ALGORITHMS)}"
        ) from None


def parse_hash(text: str) -> tuple[str, str]:
    """Algorithm and lower-case hex digits of `algorithm:hex`. Raises InvalidManifest."""
    algorithm, colon, digest = text.partition(":")
    if not colon or not _HEX.fullmatch(digest):
        raise InvalidManifest(f"hash {shown(text)} is not 'algorithm:hex', such as 'sha256:9f86...'")
    expected = len(new_hasher(algorithm).hexdigest())
    if len(digest) != expected:
        raise InvalidManifest(f"hash {shown(text)} has {len(digest)} hex digits; {algorithm} has {expected}")
    return algorithm, digest.lower()
