"""Manifests: read back as they were written, whatever unknown keys they hold; and not one that two readers could read apart."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidManifest
from protocol.manifest import (
    LARGEST,
    LONGEST_KEY,
    MOST_FILES,
    Manifest,
    check_describes,
    derived_key,
    format_manifest,
    parse_manifest,
    to_object,
)
from protocol.names import Grammar, ItemId, Name
from tests.protocol.strategies import payload_suffixes
from tests.protocol.test_json_text import values

G = Grammar()
ITEM = ItemId("orders_", 42)
HASH = f"sha256:{'0f' * 32}"


def whole(**changes: Any) -> dict[str, Any]:
    """A manifest with every key of PROTOCOL section 3, some of them changed; a value of `...` takes the key away."""
    value: dict[str, Any] = {
        "manifest": 1,
        "group": "orders_",
        "sequence": "0000000042",
        "key": "invoice 7",
        "created": "2026-11-30T15:01:02.123456Z",
        "producer": {"host": "erp-1", "software": "erp 4"},
        "files": [
            {"name": "orders_0000000042.csv", "size": 1234, "hash": HASH, "records": 10, "source_name": "Rechnung März.csv"}
        ],
        "meta": {"customer": "7", "n": 1, "x": [None, True, 1.5]},
    }
    return {key: item for key, item in (value | changes).items() if item is not ...}


def encoded(**changes: Any) -> bytes:
    return json.dumps(whole(**changes)).encode()


def file(**changes: Any) -> list[dict[str, Any]]:
    return [{key: item for key, item in (whole()["files"][0] | changes).items() if item is not ...}]


def test_the_manifest_of_the_protocol_is_read() -> None:
    manifest = parse_manifest(encoded())
    assert (manifest.group, manifest.sequence, manifest.key) == ("orders_", "0000000042", "invoice 7")
    assert (manifest.files[0].size, manifest.files[0].records) == (1234, 10)
    assert manifest.files[0].source_name == "Rechnung März.csv"
    assert check_describes(manifest, ITEM, G) == {"orders_0000000042.csv": Name(ITEM, "csv")}


def test_a_manifest_needs_no_more_than_what_identifies_and_proves_the_item() -> None:
    data = encoded(producer=..., meta=..., files=file(records=..., source_name=...))
    assert to_object(parse_manifest(data)) == json.loads(data)


records = st.fixed_dictionaries(
    {
        "name": st.text(max_size=10),
        "size": st.integers(0, 2**63 - 1),
        "hash": st.sampled_from([HASH, HASH.upper().replace("SHA", "sha")]),
    },
    optional={"records": st.none() | st.integers(0, 10**12), "source_name": st.none() | st.text(max_size=8), "new": values},
)
unknown = st.text(min_size=1, max_size=8).filter(lambda key: key not in Manifest.model_fields)
manifests = st.fixed_dictionaries(
    {
        "manifest": st.just(1),
        "group": st.text(max_size=6),
        "sequence": st.from_regex(r"\A[0-9]{1,18}\Z"),
        "key": st.text(min_size=1, max_size=8).filter(lambda key: not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in key)),
        "created": st.sampled_from(["2026-11-30T15:01:02.123456Z", "2026-11-30T15:01:02+01:00", "20261130T150102Z"]),
        "files": st.lists(records, min_size=1, max_size=3),
    },
    optional={
        "producer": st.fixed_dictionaries(
            {}, optional={"host": st.text(max_size=4), "software": st.text(max_size=4), "pid": values}
        ),
        "meta": st.dictionaries(st.text(max_size=4), values, max_size=3),
        "signature": st.none() | st.just({"algorithm": "ed25519", "key": "k", "value": "v", "comment": "c"}),
    },
)


@given(manifests, st.dictionaries(unknown, values, max_size=2))
def test_a_manifest_is_read_back_with_its_unknown_keys_and_nulls(known: dict[str, Any], extra: dict[str, Any]) -> None:
    value = extra | known
    manifest = parse_manifest(json.dumps(value).encode())
    assert to_object(manifest) == value
    assert parse_manifest(format_manifest(manifest)) == manifest


def test_a_manifest_that_is_truncated_anywhere_is_refused() -> None:
    data = encoded()
    for end in range(len(data)):
        with pytest.raises(InvalidManifest):
            parse_manifest(data[:end])


def test_a_byte_order_mark_is_tolerated() -> None:
    assert parse_manifest(b"\xef\xbb\xbf" + encoded()) == parse_manifest(encoded())


REFUSED = [
    ({"manifest": ...}, "version number"),
    ({"manifest": "1"}, "version number"),
    ({"manifest": True}, "version number"),
    ({"manifest": 1.0}, "version number"),
    ({"manifest": None}, "version number"),
    ({"manifest": [1]}, "version number"),
    ({"manifest": 2}, "of version 2; this reader knows version 1"),
    ({"manifest": 0}, "of version 0"),
    ({"group": ...}, "group"),
    ({"group": 1}, "group"),
    ({"sequence": 42}, "sequence"),
    ({"sequence": ""}, "sequence"),
    ({"sequence": "42 "}, "sequence"),
    ({"sequence": "42\n"}, "sequence"),
    ({"sequence": "-1"}, "sequence"),
    ({"sequence": "\u0664\u0662"}, "sequence"),
    ({"sequence": "1" * 19}, "sequence"),
    ({"key": ...}, "key"),
    ({"key": ""}, "key"),
    ({"key": "k" * (LONGEST_KEY + 1)}, "key"),
    ({"key": "a\0b"}, "control character"),
    ({"key": "a\nb"}, "control character"),
    ({"key": 7}, "key"),
    ({"created": ...}, "created"),
    ({"created": "yesterday"}, "not an ISO 8601 time"),
    ({"created": "2026-11-30T15:01:02"}, "without its zone"),
    ({"created": 1796000000}, "created"),
    ({"producer": None}, "producer"),
    ({"producer": "erp"}, "producer"),
    ({"producer": {"host": 1}}, "producer.host"),
    ({"files": ...}, "files"),
    ({"files": []}, "files"),
    ({"files": {}}, "files"),
    ({"files": None}, "files"),
    ({"files": ["orders_0000000042.csv"]}, "files.0"),
    ({"files": file(name=...)}, "files.0.name"),
    ({"files": file(name=1)}, "files.0.name"),
    ({"files": file(size=...)}, "files.0.size"),
    ({"files": file(size=-1)}, "files.0.size"),
    ({"files": file(size=True)}, "files.0.size"),
    ({"files": file(size=1.0)}, "files.0.size"),
    ({"files": file(size="1")}, "files.0.size"),
    ({"files": file(size=2**63)}, "files.0.size"),
    ({"files": file(hash=...)}, "files.0.hash"),
    ({"files": file(hash="0f" * 32)}, "not 'algorithm:hex'"),
    ({"files": file(hash="sha256:" + "0f" * 31)}, "62 hex digits; sha256 has 64"),
    ({"files": file(hash="sha256:" + "0g" * 32)}, "not 'algorithm:hex'"),
    ({"files": file(hash="md5:" + "0f" * 16)}, "'md5' is not known here"),
    ({"files": file(records=True)}, "files.0.records"),
    ({"files": file(records=-1)}, "files.0.records"),
    ({"files": file(records=1.5)}, "files.0.records"),
    ({"files": file(source_name=1)}, "files.0.source_name"),
    ({"files": file(source_name="x" * 4097)}, "files.0.source_name"),
    ({"files": file() * (MOST_FILES + 1)}, "files"),
    ({"meta": None}, "meta"),
    ({"meta": []}, "meta"),
    ({"signature": "x"}, "signature"),
    ({"signature": {"algorithm": "rsa", "key": "k", "value": "v"}}, "signature.algorithm"),
    ({"signature": {"algorithm": "ed25519", "key": "k"}}, "signature.value"),
]


@pytest.mark.parametrize(("changes", "why"), REFUSED)
def test_a_manifest_with_a_wrong_value_is_refused_and_the_key_is_named(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidManifest, match=why.replace(".", r"\.")):
        parse_manifest(encoded(**changes))


def test_a_key_twice_is_refused_wherever_it_stands() -> None:
    for old, new in (
        ('"group"', '"group": "a_", "group"'),
        ('"size"', '"size": 1, "size"'),
        ('"customer"', '"n": 2, "customer"'),
    ):
        with pytest.raises(InvalidManifest, match="stands twice"):
            parse_manifest(encoded().decode().replace(old, new, 1).encode())


def test_an_oversized_manifest_is_refused_before_it_is_parsed() -> None:
    data = encoded(meta={"x": "y" * LARGEST})
    with pytest.raises(InvalidManifest, match="larger than 1048576 bytes"):
        parse_manifest(data)


@pytest.mark.parametrize("key", ["meta", "unknown"])
def test_a_deeply_nested_manifest_is_refused(key: str) -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"x": deep}
    with pytest.raises(InvalidManifest, match="nested"):
        parse_manifest(encoded(**{key: deep}))


def test_as_many_faults_as_a_person_can_use_are_named() -> None:
    with pytest.raises(InvalidManifest, match=r"'group'.*; 'sequence'.*; 'key'"):
        parse_manifest(encoded(group=1, sequence=1, key=1))
    with pytest.raises(InvalidManifest, match="and 2040 more") as caught:
        parse_manifest(encoded(files=[{"name": "x" * 300}] * 1024))
    assert len(str(caught.value)) < 1000


def parsed(**changes: Any) -> Manifest:
    return parse_manifest(encoded(**changes))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"group": "invoices_"}, "speaks of 'invoices_0000000042', its name of orders_0000000042"),
        ({"group": "Orders_"}, "speaks of"),
        ({"sequence": "0000000043"}, "speaks of"),
        ({"sequence": "42"}, "speaks of"),
        ({"group": "orders_0", "sequence": "000000042"}, "speaks of"),
        ({"files": file(name="orders_0000000043.csv")}, "no file of this item"),
        ({"files": file(name="invoices_0000000042.csv")}, "no file of this item"),
        ({"files": file(name="A_orders_0000000042.csv")}, "no file of this item"),
        ({"files": file(name="B_orders_0000000042.csv")}, "no file of this item"),
        ({"files": file(name="C_o_orders_0000000042.csv")}, "no file of this item"),
        ({"files": file(name="orders_0000000042+1.csv")}, "no file of this item"),
        ({"files": file(name="../orders_0000000042.csv")}, "no file of this item"),
        ({"files": file(name="incoming/orders_0000000042.csv")}, "no file of this item"),
        ({"files": file(name="/etc/passwd")}, "no file of this item"),
        ({"files": file(name="orders_0000000042.csv\0")}, "no file of this item"),
        ({"files": file(name="")}, "no file of this item"),
        ({"files": file(name="Orders_0000000042.csv")}, "no file of this item"),
        ({"files": file(name="S_orders_0000000042.next")}, "no file of this item"),
        ({"files": file(name="orders_0000000042.manifest.json")}, "not a payload"),
        ({"files": file(name="orders_0000000042.reason.json")}, "not a payload"),
        ({"files": file(name="orders_0000000042.csv.sha256")}, "not a payload"),
        ({"files": file() * 2}, "twice"),
        ({"files": file() + file(name="orders_0000000042.CSV")}, "twice"),
    ],
)
def test_a_manifest_that_speaks_of_anything_but_its_item_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidManifest, match=why.replace("+", r"\+")):
        check_describes(parsed(**changes), ITEM, G)


@given(st.lists(payload_suffixes, min_size=1, max_size=4, unique_by=str.lower))
def test_a_manifest_may_name_any_payloads_of_its_item(suffixes: list[str]) -> None:
    expected = {f"orders_0000000042.{suffix}": Name(ITEM, suffix) for suffix in suffixes}
    found = check_describes(parsed(files=[record for name in expected for record in file(name=name)]), ITEM, G)
    assert found == expected


def test_the_most_files_that_a_manifest_may_name_are_checked_at_once() -> None:
    files = [record for n in range(MOST_FILES) for record in file(name=f"orders_0000000042.x{n}", records=..., source_name=...)]
    assert len(check_describes(parsed(files=files), ITEM, G)) == MOST_FILES


@pytest.mark.parametrize(
    "changes",
    [
        {"meta": {"x": float("nan")}},
        {"meta": {"x": float("inf")}},
        {"meta": {"x": "\udce9"}},
        {"meta": {"x": 10**50}},
        {"meta": {"x": "y" * LARGEST}},
        {"unknown": "\ud800"},
    ],
)
def test_a_manifest_that_every_reader_would_refuse_is_not_written(changes: dict[str, Any]) -> None:
    manifest = Manifest.model_validate(whole(**changes))
    with pytest.raises(InvalidManifest):
        format_manifest(manifest)


def test_the_key_of_an_item_without_one_is_its_number_and_its_hashes_in_any_order() -> None:
    assert derived_key(ITEM, G, ["b", "a"]) == derived_key(ITEM, G, ["a", "b"]) == "orders_0000000042 a b"
    assert derived_key(ITEM, G, ["a"]) != derived_key(ItemId("orders_", 43), G, ["a"])
    many = derived_key(ITEM, G, [HASH] * 100)
    assert parsed(key=many).key == many  # however many files there are, the key fits a manifest
