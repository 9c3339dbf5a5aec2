"""The key that signs what a drop sends."""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
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
