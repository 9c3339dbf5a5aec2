"""Manifest signatures: Ed25519 over the canonical form, less `signature` (PROTOCOL section 3, RFC 8032).

The canonical form is the JSON object with its keys sorted by code point, no white space, UTF-8: what two implementations
agree on without sharing a line. Keys are the 32 raw bytes in base64, as `trusted_keys` lists them.
"""

import base64
import binascii
import json
from collections.abc import Collection

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from protocol.errors import SignatureRejected
from protocol.manifest import Manifest, Signature, to_object


def canonical(manifest: Manifest) -> bytes:
    """The bytes that are signed."""
    value = to_object(manifest)
    value.pop("signature", None)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def public_text(key: Ed25519PrivateKey) -> str:
    """The public half of a key, as `trusted_keys` lists it."""
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def sign(manifest: Manifest, key: Ed25519PrivateKey) -> Manifest:
    """The manifest with its signature; one that was there is replaced."""
    value = base64.b64encode(key.sign(canonical(manifest))).decode()
    return manifest.model_copy(update={"signature": Signature(algorithm="ed25519", key=public_text(key), value=value)})


def check_signature(manifest: Manifest, trusted: Collection[str]) -> None:
    """Returns where one of the trusted keys signed this manifest. Raises SignatureRejected."""
    signature = manifest.signature
    if signature is None:
        raise SignatureRejected("the manifest is not signed, and this drop has trusted_keys")
    if signature.key not in trusted:
        raise SignatureRejected(f"the manifest is signed by {signature.key}, which is not among the drop's trusted_keys")
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(signature.key, validate=True))
        key.verify(base64.b64decode(signature.value, validate=True), canonical(manifest))
    except (InvalidSignature, binascii.Error, ValueError) as error:
        raise SignatureRejected(f"the manifest's signature by {signature.key} does not fit its content") from error
