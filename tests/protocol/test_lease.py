"""Leases: read back as written, strict like a manifest, and expired by one clock alone."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidLease
from protocol.lease import (
    LARGEST,
    Lease,
    expired_by_server_clock,
    expired_by_watching,
    format_lease,
    parse_lease,
    renewal_interval,
)
from tests.protocol.strategies import owners
from tests.protocol.test_json_text import values

WHOLE: dict[str, Any] = {
    "owner": "host-1-ab",
    "host": "host",
    "pid": 1,
    "acquired_at": "2026-11-30T15:00:00Z",
    "heartbeat_at": "2026-11-30T15:00:20Z",
    "expires_at": "2026-11-30T15:01:20Z",
    "ttl": 60.0,
    "beat": 2,
}


@given(
    owners,
    st.integers(0, 2**31),
    st.floats(min_value=0.1, max_value=1e6),
    st.integers(0, 10**9),
    st.dictionaries(st.text(min_size=1, max_size=6).filter(lambda key: key not in Lease.model_fields), values, max_size=2),
)
def test_a_lease_is_read_back_with_its_unknown_keys(owner: str, pid: int, ttl: float, beat: int, extra: dict[str, Any]) -> None:
    lease = Lease.model_validate(extra | WHOLE | {"owner": owner, "pid": pid, "ttl": ttl, "beat": beat})
    assert parse_lease(format_lease(lease)) == lease


@pytest.mark.parametrize("key", sorted(WHOLE))
def test_every_key_is_needed(key: str) -> None:
    with pytest.raises(InvalidLease, match=f"'{key}'"):
        parse_lease(json.dumps({k: v for k, v in WHOLE.items() if k != key}).encode())


@pytest.mark.parametrize(
    "changes",
    [
        {"owner": "A"},
        {"owner": "../x"},
        {"owner": 1},
        {"pid": -1},
        {"pid": True},
        {"pid": 1.0},
        {"pid": "1"},
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": "60"},
        {"ttl": True},
        {"beat": -1},
        {"beat": 1.5},
        {"beat": False},
        {"host": None},
        {"expires_at": 5},
    ],
)
def test_a_lease_with_a_wrong_value_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidLease):
        parse_lease(json.dumps(WHOLE | changes).encode())


def test_a_lease_without_an_end_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="ttl"):
        Lease.model_validate(WHOLE | {"ttl": float("inf")})


def test_a_lease_that_is_read_while_it_is_written_is_refused() -> None:
    data = json.dumps(WHOLE).encode()
    for end in range(len(data)):
        with pytest.raises(InvalidLease):
            parse_lease(data[:end])


def test_an_oversized_lease_is_refused() -> None:
    with pytest.raises(InvalidLease, match="larger"):
        parse_lease(json.dumps(WHOLE | {"x": "y" * LARGEST}).encode())


times = st.floats(min_value=0, max_value=1e9)
spans = st.floats(min_value=0.001, max_value=1e5)


def test_two_renewals_may_be_lost() -> None:
    assert renewal_interval(60) == 20
    # Seen at 0; renewals at 20 and 40 are lost; the one at 60 still comes in time.
    assert not expired_by_watching(beat_seen_at=0, now=60, ttl=60)
    assert expired_by_watching(beat_seen_at=0, now=60.001, ttl=60)


@given(times, spans, st.floats(min_value=-1e6, max_value=1e6))
def test_watching_depends_on_nothing_but_the_span(seen: float, ttl: float, shift: float) -> None:
    for span, expired in ((ttl * 0.9, False), (ttl * 1.1 + 0.01, True)):
        assert expired_by_watching(beat_seen_at=seen + shift, now=seen + shift + span, ttl=ttl) is expired


# None, NTFS, ext3, FAT.
@given(times, spans, st.sampled_from([0.0, 1e-7, 1.0, 2.0]))
def test_coarse_stamps_never_expire_a_lease_early(modified: float, ttl: float, resolution: float) -> None:
    def stamp(moment: float) -> float:
        return moment // resolution * resolution if resolution else moment

    # However the two stamps are rounded, a lease that is younger than its ttl is not expired.
    written = modified + ttl * 0.99
    seen = expired_by_server_clock(
        lease_modified=stamp(modified), just_written=stamp(written), ttl=ttl, resolution=resolution + 1e-5
    )
    assert not seen


def test_an_old_lease_is_expired_by_the_servers_clock() -> None:
    assert expired_by_server_clock(lease_modified=100, just_written=162.1, ttl=60, resolution=2)
    assert not expired_by_server_clock(lease_modified=100, just_written=162, ttl=60, resolution=2)
    # A lease from the future is a renewed one: nothing expires.
    assert not expired_by_server_clock(lease_modified=200, just_written=100, ttl=60, resolution=2)
