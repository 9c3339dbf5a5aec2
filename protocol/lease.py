"""The lease of a live worker, and when it has expired (PROTOCOL section 6).

The times in a lease are for people. Expiry never compares two hosts' clocks: a watcher measures with its own monotonic
clock how long a lease's `beat` has stood still, or compares two modification times that one server has stamped.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from protocol.errors import InvalidLease, InvalidName
from protocol.json_text import InvalidJson, faults, format_object, parse_object
from protocol.names import check_owner

LARGEST = 16 * 1024  # bytes
BEATS_PER_TTL = 3  # a lease is renewed every ttl/3, so two lost renewals are survived


class Lease(BaseModel):
    """What stands in `L_<owner>.lease.json`. `ttl` is in seconds; `beat` grows by one with every renewal.

    `machine` names one set of process numbers, `started` when the process of this `pid` began: together they prove on the
    same machine that a worker is dead. Empty where that cannot be told.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    owner: str
    host: str
    pid: Annotated[int, Field(ge=0)]
    acquired_at: str
    heartbeat_at: str
    expires_at: str
    ttl: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    beat: Annotated[int, Field(ge=0)]
    started: str = ""
    machine: str = ""

    @field_validator("owner")
    @classmethod
    def _an_owner(cls, value: str) -> str:
        try:
            return check_owner(value)
        except InvalidName as error:
            raise ValueError(str(error)) from error


def format_lease(lease: Lease) -> bytes:
    """The file's content."""
    return format_object(lease.model_dump(mode="json"))


def parse_lease(data: bytes) -> Lease:
    """A lease out of a file's content. Raises InvalidLease."""
    try:
        return Lease.model_validate(parse_object(data, limit=LARGEST))
    except InvalidJson as error:
        raise InvalidLease(f"the lease cannot be read: {error}") from error
    except ValidationError as error:
        raise InvalidLease(f"the lease is wrong in {faults(error)}") from error


def renewal_interval(ttl: float) -> float:
    """Seconds between two renewals of a lease."""
    return ttl / BEATS_PER_TTL


def expired_by_watching(*, beat_seen_at: float, now: float, ttl: float) -> bool:
    """Whether a beat that was first seen at `beat_seen_at` has stood still for longer than `ttl`.

    Both times are of one watcher's own monotonic clock, in seconds.
    """
    return now - beat_seen_at > ttl


def expired_by_server_clock(*, lease_modified: float, just_written: float, ttl: float, resolution: float) -> bool:
    """Whether a lease is older than `ttl`, by two modification times that the same server stamped.

    `just_written` is that of a file written a moment ago; `resolution` is how coarse the stamps are, in seconds.
    """
    return just_written - lease_modified > ttl + resolution
