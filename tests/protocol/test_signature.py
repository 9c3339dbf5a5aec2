"""Signatures: a trusted key's signature covers every field, also those that this version does not know."""

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidManifest, SignatureRejected
from protocol.manifest import format_manifest, parse_manifest, to_object
from protocol.signature import canonical, check_signature, public_text, sign
from tests.protocol.test_json_text import values
from tests.protocol.test_manifest import encoded, whole

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
TRUSTED = frozenset({public_text(KEY)})
EXTRA = {"future": {"route": ["a", 1], "off": None}}


def signed(**changes: Any) -> dict[str, Any]:
    return to_object(sign(parse_manifest(encoded(**(EXTRA | changes))), KEY))


def check(value: dict[str, Any], trusted: frozenset[str] = TRUSTED) -> None:
    check_signature(parse_manifest(json.dumps(value).encode()), trusted)


def test_a_signed_manifest_is_accepted_after_its_way_over_a_file() -> None:
    manifest = sign(parse_manifest(encoded(**EXTRA)), KEY)
    check_signature(parse_manifest(format_manifest(manifest)), TRUSTED)


def test_the_signature_is_ed25519_over_sorted_compact_utf8_json_less_itself() -> None:
    value = signed()
    signature = base64.b64decode(value["signature"]["value"])
    by_hand = {key: item for key, item in value.items() if key != "signature"}
    message = json.dumps(by_hand, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    Ed25519PublicKey.from_public_bytes(base64.b64decode(public_text(KEY))).verify(signature, message)
    assert canonical(parse_manifest(json.dumps(value).encode())) == message


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for key, item in inner for p in _paths(item, (*path, key)))]


def _changed(value: Any) -> Any:
    match value:
        case None:
            return 0
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value + 0.5
        case str():
            return value + "x"
        case list():
            return [*value, "x"]
        case _:
            return value | {"x": 1}


FIELDS = [path for path in _paths({k: v for k, v in signed().items() if k != "signature"}) if path]


@pytest.mark.parametrize("path", FIELDS, ids=lambda path: ".".join(map(str, path)))
def test_a_manifest_with_any_field_changed_is_refused(path: tuple[Any, ...]) -> None:
    value = signed()
    place = value
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = _changed(place[path[-1]])
    _refused_however(value)


@pytest.mark.parametrize("path", FIELDS, ids=lambda path: ".".join(map(str, path)))
def test_a_manifest_with_any_field_taken_away_is_refused(path: tuple[Any, ...]) -> None:
    value = signed()
    place = value
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    _refused_however(value)


def _refused_however(value: dict[str, Any]) -> None:
    """Refused: by the signature, or because it is no manifest any more."""
    with pytest.raises((SignatureRejected, InvalidManifest)):
        check(value)


@given(st.text(min_size=1, max_size=6).filter(lambda key: key not in signed()), values)
def test_a_manifest_with_a_field_added_is_refused(key: str, item: object) -> None:
    with pytest.raises(SignatureRejected, match="does not fit its content"):
        check(signed() | {key: item})


def test_the_order_of_keys_and_white_space_are_free() -> None:
    value = signed()
    check_signature(parse_manifest(json.dumps(dict(reversed(value.items())), indent=7).encode()), TRUSTED)


def test_an_unsigned_manifest_is_refused() -> None:
    with pytest.raises(SignatureRejected, match="not signed"):
        check(whole())
    with pytest.raises(SignatureRejected, match="not signed"):
        check(whole(signature=None))


def test_a_strangers_signature_is_refused_although_it_fits() -> None:
    value = to_object(sign(parse_manifest(encoded()), OTHER))
    check(value, frozenset({public_text(OTHER)}))
    with pytest.raises(SignatureRejected, match="not among the drop's trusted_keys"):
        check(value)


def test_a_trusted_key_on_a_strangers_signature_is_refused() -> None:
    value = to_object(sign(parse_manifest(encoded()), OTHER))
    value["signature"]["key"] = public_text(KEY)
    with pytest.raises(SignatureRejected, match="does not fit its content"):
        check(value)


@pytest.mark.parametrize("bad", ["", "x", "AAAA", "!" * 88, "\u00e9" * 88, base64.b64encode(bytes(64)).decode()])
def test_a_signature_that_is_none_is_refused(bad: str) -> None:
    value = signed()
    value["signature"]["value"] = bad
    with pytest.raises(SignatureRejected, match="does not fit its content"):
        check(value)


@pytest.mark.parametrize("bad", ["", "x", "AAAA", "!" * 44])
def test_a_trusted_key_that_is_none_lets_nothing_through(bad: str) -> None:
    value = signed()
    value["signature"]["key"] = bad
    with pytest.raises(SignatureRejected):
        check(value, frozenset({bad}))


def test_signing_again_replaces_the_signature() -> None:
    again = sign(sign(parse_manifest(encoded()), OTHER), KEY)
    check_signature(again, TRUSTED)
