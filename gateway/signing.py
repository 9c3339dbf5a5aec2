"""The keys of a drop: the one that signs what it sends, and those it trusts."""

import base64
import binascii
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gateway.errors import ConfigurationError


def load_signing_key(path: Path) -> Ed25519PrivateKey:
    """An Ed25519 key in PEM, as `openssl genpkey -algorithm ed25519` makes one. Raises ConfigurationError."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise ConfigurationError(f"the signing key {path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"the signing key {path} is no unencrypted private key in PEM: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(f"the signing key {path} is not Ed25519; make one: openssl genpkey -algorithm ed25519")
    return key


def check_public_key(text: str) -> None:
    """That a text is an Ed25519 public key as `trusted_keys` lists it. Raises ValueError."""
    try:
        Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is no Ed25519 public key: its 32 bytes in base64 are wanted") from error
