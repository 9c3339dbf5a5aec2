"""Publishing: nothing is ever ready that is not whole; a failure leaves nothing, or goes forward from the first rename on."""

import base64
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocol.checksum_file import parse_checksums
from protocol.errors import (
    InvalidManifest,
    InvalidName,
    ProtocolError,
    SequenceExhausted,
    SequenceTaken,
)
from protocol.manifest import Manifest, derived_key, parse_manifest
from protocol.names import Grammar
from protocol.operations import Operation, Publish, Store
from protocol.procedures.publish import Draft, DraftFile, check_draft, publish
from protocol.rules import Rules, Signal
from protocol.signature import check_signature, public_text, sign
from protocol.states import State
from tests.protocol.directory import Directory, Words
from tests.protocol.drops import ITEM, KINDS, WHO, check_all_complete, contents, draft, found, hashes, in_public, send
from tests.protocol.process import Process, run

kinds = pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
MANIFESTS = KINDS["prefix-manifest"]
NONE = KINDS["prefix-none"]


@kinds
@pytest.mark.parametrize("given", [False, True])
def test_an_item_is_handed_over_in_whole(rules: Rules, *, given: bool) -> None:
    sending = send(rules, given=given)
    published = sending.run()
    there = sending.directory
    assert published.item == ITEM
    assert sorted(published.names) == there.ls()
    assert [name.state for name in found(there)] == [State.READY] * len(published.names)
    assert rules.layout.path(in_public(there)[0]) == published.names[-1]
    assert published.hashes == tuple(hashes(draft(rules)).values())
    assert published.size == sum(map(len, contents(draft(rules)).values()))
    check_all_complete(there, contents(draft(rules)))


def test_ls_shows_the_item_of_the_protocol() -> None:
    sending = send(MANIFESTS)
    sending.run()
    assert sending.directory.ls() == [
        "orders_0000000042.csv",
        "orders_0000000042.manifest.json",
        "orders_0000000042.tar.gz",
    ]
    in_folders = send(KINDS["folders-checksum"])
    in_folders.run()
    assert in_folders.directory.ls() == [
        "incoming/orders_0000000042.csv",
        "incoming/orders_0000000042.csv.sha256",
        "incoming/orders_0000000042.tar.gz",
    ]


def test_the_manifest_says_what_is_known_and_nothing_else() -> None:
    sending = send(MANIFESTS)
    published = sending.run()
    manifest = parse_manifest(sending.directory[published.names[-1]])
    assert (manifest.group, manifest.sequence, manifest.key) == ("orders_", "0000000042", "invoice 7")
    assert manifest.created == "2026-11-30T15:01:02.123456Z"
    assert (manifest.producer, manifest.meta) == (WHO, {"customer": 7})
    first, second = manifest.files
    assert (first.name, first.source_name, first.records) == ("orders_0000000042.csv", "Rechnung März.csv", 1)
    assert second.model_fields_set == {"name", "size", "hash"}


def test_without_a_key_the_item_is_known_by_number_and_hashes() -> None:
    item = draft(MANIFESTS, key=None)
    sending = send(MANIFESTS, item=item)
    published = sending.run()
    assert published.key == derived_key(ITEM, Grammar(), hashes(item).values())
    assert parse_manifest(sending.directory[published.names[-1]]).key == published.key


def test_the_order_of_steps_is_that_of_the_protocol() -> None:
    seen: list[Operation[Any]] = []
    sending = send(MANIFESTS)
    sending.before = lambda _number, operation: seen.append(operation)
    sending.run()
    steps = [(type(o), o.path if isinstance(o, Store) else o.src) for o in seen if isinstance(o, Store | Publish)]
    csv, archive, manifest = (f"B_orders_0000000042.{suffix}" for suffix in ("csv", "tar.gz", "manifest.json"))
    assert steps == [
        (Store, csv),
        (Store, archive),
        (Store, manifest),
        (Publish, csv),
        (Publish, archive),
        (Publish, manifest),
    ]


# Signals.


def test_a_checksum_drop_gets_what_sha256sum_would_write() -> None:
    rules = KINDS["prefix-checksum"]
    sending = send(rules)
    published = sending.run()
    assert published.names[-1] == "orders_0000000042.csv.sha256"
    found_hashes = parse_checksums(sending.directory[published.names[-1]], ITEM, rules.grammar)
    assert {name.suffix: f"sha256:{digest}" for name, digest in found_hashes.items()} == hashes(draft(rules))


def test_without_a_signal_the_payload_is_all_there_is() -> None:
    sending = send(NONE)
    assert sending.run().names == ("orders_0000000042.csv",)
    assert sending.directory.ls() == ["orders_0000000042.csv"]


def test_a_signature_is_written_where_a_key_is_given() -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    there = Directory(MANIFESTS)
    published = run(
        there,
        publish(MANIFESTS, draft(MANIFESTS), ITEM.number, given=False, sign=lambda manifest: sign(manifest, key)),
    )
    manifest = parse_manifest(there[published.names[-1]])
    check_signature(manifest, {public_text(key)})
    assert manifest.signature is not None
    assert len(base64.b64decode(manifest.signature.value)) == 64


def test_a_failing_signer_leaves_nothing() -> None:
    def lost_key(_manifest: Manifest) -> Manifest:
        raise OSError("the token was pulled out")

    there = Directory(MANIFESTS)
    with pytest.raises(OSError, match="pulled out"):
        run(there, publish(MANIFESTS, draft(MANIFESTS), ITEM.number, given=False, sign=lost_key))
    assert there.ls() == []


# Refused before anything is written.


def with_files(*suffixes: str, **changes: Any) -> Draft:
    return Draft("orders_", tuple(DraftFile(suffix, Words((b"",)), **changes) for suffix in suffixes), "k", WHO, {})


@pytest.mark.parametrize(
    ("rules", "item", "error", "why"),
    [
        (MANIFESTS, replace(draft(MANIFESTS), group="A_"), InvalidName, "group prefix"),
        (MANIFESTS, replace(draft(MANIFESTS), group="../"), InvalidName, "group prefix"),
        (MANIFESTS, replace(draft(MANIFESTS), group="x" * 200), InvalidName, "255 is the limit"),
        (MANIFESTS, with_files(), InvalidName, "at least one file"),
        (MANIFESTS, with_files("csv", "csv"), InvalidName, "have the suffix 'csv'"),
        (MANIFESTS, with_files("csv", "CSV"), InvalidName, "have the suffix 'CSV'"),
        (MANIFESTS, with_files("manifest.json"), InvalidName, "reserved"),
        (MANIFESTS, with_files("a/b"), InvalidName, "suffix"),
        (NONE, with_files("csv", "xml"), InvalidName, "needs a manifest"),
        (MANIFESTS, with_files("csv", expected="sha256:0"), InvalidManifest, "hex digits"),
        (MANIFESTS, with_files("csv", expected=f"md5:{'0' * 32}"), InvalidManifest, "not known here"),
        (KINDS["prefix-checksum"], with_files("csv", expected=f"sha512:{'0' * 128}"), InvalidManifest, "sha256 only"),
        (MANIFESTS, replace(draft(MANIFESTS), meta={"x": float("nan")}), InvalidManifest, "cannot be written"),
        (MANIFESTS, replace(draft(MANIFESTS), meta={"x": object()}), InvalidManifest, "meta"),
        (MANIFESTS, replace(draft(MANIFESTS), meta={"x": "y" * 1024 * 1024}), InvalidManifest, "put less into its meta"),
        (MANIFESTS, replace(draft(MANIFESTS), key="a\0b"), InvalidManifest, "control character"),
        (MANIFESTS, replace(draft(MANIFESTS), key="k" * 1025), InvalidManifest, "key"),
        (MANIFESTS, with_files("csv", source_name="M\udce4rz.csv"), InvalidManifest, "source_name"),
        (MANIFESTS, with_files("csv", records=-1), InvalidManifest, "records"),
    ],
)
def test_an_item_that_does_not_fit_is_refused_before_anything_is_written(
    rules: Rules, item: Draft, error: type[ProtocolError], why: str
) -> None:
    with pytest.raises(error, match=why):
        check_draft(rules, item)
    sending = send(rules, item=item)
    with pytest.raises(error, match=why):
        sending.run()
    assert sending.number == 0


@pytest.mark.parametrize("number", [-1, 10_000_000_000])
@pytest.mark.parametrize("given", [False, True])
@kinds
def test_a_number_beyond_the_width_is_refused_before_anything_is_written(rules: Rules, number: int, *, given: bool) -> None:
    sending = Process(Directory(rules), publish(rules, draft(rules), number, given=given))
    with pytest.raises(SequenceExhausted):
        sending.run()
    assert sending.number == 0


def test_a_before_file_in_the_way_is_not_touched() -> None:
    there = Directory(MANIFESTS)
    there.put("B_orders_0000000042.tar.gz", b"half")
    with pytest.raises(SequenceTaken, match="remove it and send again"):
        run(there, publish(MANIFESTS, draft(MANIFESTS), ITEM.number, given=False))
    assert there.ls() == ["B_orders_0000000042.tar.gz"]


def test_a_signal_has_its_own_token() -> None:
    assert {rules.signal for rules in KINDS.values()} == set(Signal)
