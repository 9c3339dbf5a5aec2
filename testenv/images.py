"""The images of the test servers: named by a hash of what they are built from, so that each is built once."""

import hashlib

from testenv import engine
from testenv.spec import COMPOSE, SERVICES, Service

_PREFIX = "dropgate-testenv"
BASE = "debian:bookworm-slim"


def tag(service: Service) -> str:
    """The name of the image that the present files of compose/ make."""
    digest = hashlib.sha256()
    for path in sorted([COMPOSE / "accounts.sh", *(COMPOSE / service.folder).iterdir()]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{_PREFIX}-{service.folder}:{digest.hexdigest()[:16]}"


def missing() -> list[Service]:
    """The services whose image the engine does not have yet."""
    return [service for service in SERVICES.values() if not engine.has_image(tag(service))]
