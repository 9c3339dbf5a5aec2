"""Hashes as manifests write them: an algorithm that is known, and exactly as many digits as it has."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidManifest
from protocol.hashes import ALGORITHMS, new_hasher, parse_hash


@given(st.sampled_from(sorted(ALGORITHMS)), st.binary(max_size=32))
def test_what_a_hasher_gives_is_read_back_in_either_case(algorithm: str, data: bytes) -> None:
    hasher = new_hasher(algorithm)
    hasher.update(data)
    digest = hasher.hexdigest()
    assert parse_hash(f"{algorithm}:{digest}") == parse_hash(f"{algorithm}:{digest.upper()}") == (algorithm, digest)


def test_sha256_is_always_understood() -> None:
    hasher = new_hasher("sha256")
    hasher.update(b"abc")
    assert hasher.hexdigest() == hashlib.sha256(b"abc").hexdigest()


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "SHA256", "", "sha256 ", "shake_128", "x" * 1000])
def test_an_algorithm_that_is_weak_or_unknown_is_refused_and_the_known_ones_are_named(algorithm: str) -> None:
    with pytest.raises(InvalidManifest, match="known are sha256") as caught:
        new_hasher(algorithm)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "sha256",
        "sha256:",
        "sha256:0",
        "sha256:" + "0" * 63,
        "sha256:" + "0" * 65,
        "sha512:" + "0" * 64,
        "sha256:" + "0" * 63 + "g",
        "sha256:" + "0" * 63 + "\n",
        "sha256:" + "0" * 63 + "\uff10",
        "sha256: " + "0" * 63,
        "sha256:sha256:" + "0" * 64,
        "0" * 64,
    ],
)
def test_what_is_not_a_whole_hash_is_refused(text: str) -> None:
    with pytest.raises(InvalidManifest):
        parse_hash(text)
