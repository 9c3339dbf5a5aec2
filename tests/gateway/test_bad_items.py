"""An item that cannot be trusted becomes an error image with its reason beside it, and nothing outside it is ever touched."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.drop import Drop
from gateway.handoff.producer import Outgoing
from protocol.layout import FolderLayout
from protocol.rules import Rules, Signal
from protocol.signature import public_text
from tests.gateway.tools import GROUP, Taken, consume, drop_at, hand_over, manifest, names, put, reason, sha256
from transports.endpoint import Endpoint

DATA = b"a;b\n1;2\n"
STEM = "orders_0000000001"
CSV = f"{STEM}.csv"
TOKEN = f"{STEM}.manifest.json"
GOOD = manifest(CSV, DATA)


def file_record(**changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = GOOD["files"][0]
    return record | changes


def text(**changes: Any) -> bytes:
    return json.dumps(GOOD | changes).encode()


# What the manifest's file holds, and what the reason says of it.
MANIFESTS: dict[str, tuple[bytes, str, str]] = {
    "empty": (b"", "InvalidManifest", "it seems to be cut short"),
    "truncated": (text()[:-30], "InvalidManifest", "it is not JSON: Unterminated string"),
    "truncated at a line": (b'{\n  "manifest": 1,\n', "InvalidManifest", "it seems to be cut short"),
    "oversized": (text(meta={"x": "y" * 2**20}), "InvalidManifest", "it is larger than 1048576 bytes"),
    "not UTF-8": (text().replace(b"elsewhere", b"\xff"), "InvalidManifest", "it is not UTF-8 at byte"),
    "not JSON": (b"name,size\na.csv,3\n", "InvalidManifest", "it is not JSON"),
    "no object": (b"[1, 2]", "InvalidManifest", "it is not an object"),
    "a second object": (text() + b"{}", "InvalidManifest", "it is not JSON: Extra data"),
    "an endless nest": (b'{"a":' * 5000 + b"1" + b"}" * 5000, "InvalidManifest", "nested"),
    "a key twice": (text().replace(b'"manifest": 1', b'"manifest": 1, "key": "x"'), "InvalidManifest", "'key' stands twice"),
    "a key twice inside": (text().replace(b'"size"', b'"name": "x", "size"'), "InvalidManifest", "'name' stands twice"),
    "no number": (text(meta={"x": float("nan")}), "InvalidManifest", "NaN is not JSON"),
    "no version": (b"{}", "InvalidManifest", "no version number"),
    "a later version": (text(manifest=2), "InvalidManifest", "of version 2; this reader knows version 1"),
    "a version in words": (text(manifest="1"), "InvalidManifest", "no version number"),
    "a version that is true": (text(manifest=True), "InvalidManifest", "no version number"),
    "no key": (text(key=""), "InvalidManifest", "key"),
    "a key of two lines": (text(key="a\nb"), "InvalidManifest", "a control character in it"),
    "no files": (text(files=[]), "InvalidManifest", "files"),
    "a size in words": (text(files=[file_record(size="8")]), "InvalidManifest", "files.0.size"),
    "a size below nothing": (text(files=[file_record(size=-1)]), "InvalidManifest", "files.0.size"),
    "a time without its zone": (text(created="2026-11-30T15:01:02"), "InvalidManifest", "a time without its zone"),
    "a hash that is not known": (text(files=[file_record(hash="md5:" + "0" * 32)]), "InvalidManifest", "'md5' is not known"),
    "half a hash": (text(files=[file_record(hash="sha256:abcd")]), "InvalidManifest", "has 4 hex digits; sha256 has 64"),
    "another group": (text(group="bills_"), "InvalidManifest", f"speaks of 'bills_0000000001', its name of {STEM}"),
    "another number": (text(sequence="0000000002"), "InvalidManifest", "speaks of 'orders_0000000002'"),
    "a number of another width": (text(sequence="1"), "InvalidManifest", "speaks of 'orders_1'"),
    "another item's file": (text(files=[file_record(name="orders_0000000002.csv")]), "InvalidManifest", "no file of this item"),
    "a path that leads out": (text(files=[file_record(name="../secret.csv")]), "InvalidManifest", "no file of this item"),
    "an absolute path": (text(files=[file_record(name="/etc/passwd")]), "InvalidManifest", "no file of this item"),
    "a path to its own file": (text(files=[file_record(name=f"./{CSV}")]), "InvalidManifest", "no file of this item"),
    "a Windows path": (text(files=[file_record(name="..\\secret.csv")]), "InvalidManifest", "no file of this item"),
    "a marked name": (text(files=[file_record(name=f"A_{CSV}")]), "InvalidManifest", "no file of this item"),
    "itself": (text(files=[file_record(name=TOKEN)]), "InvalidManifest", "which is not a payload"),
    "a file twice": (text(files=[file_record(), file_record()]), "InvalidManifest", "twice"),
    "a file twice by case": (
        text(files=[file_record(), file_record(name=f"{STEM}.CSV")]), "InvalidManifest", "twice"
    ),
    "a file that is not there": (
        text(files=[file_record(), file_record(name=f"{STEM}.pdf")]),
        "IntegrityError",
        f"{STEM}.pdf is missing: its manifest is there and the payload is not",
    ),
    "another hash": (
        text(files=[file_record(hash=f"sha256:{sha256(b'other')}")]),
        "IntegrityError",
        f"its sha256 is {sha256(DATA)}, and its manifest says {sha256(b'other')}",
    ),
    "another size": (
        text(files=[file_record(size=9)]), "IntegrityError", f"{CSV} has 8 bytes, and its manifest says 9"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "kind", "message"), MANIFESTS.values(), ids=MANIFESTS.keys())
def test_a_manifest_that_cannot_be_believed(folder: Path, content: bytes, kind: str, message: str) -> None:
    outside = put(folder.parent, "secret.csv", b"a secret")
    put(folder, CSV, DATA)
    put(folder, TOKEN, content)
    other = hand_over(folder, 2)
    taken = Taken()
    assert consume(drop_at(folder), taken) == 2
    assert sorted(taken.results) == ["failed", "processed"]
    assert [name for name, _ in taken.contents] == ["orders_0000000002.csv"], "the handler never saw the bad one's content"
    assert names(folder) == sorted(
        [f"E_{CSV}", f"E_{STEM}.reason.json", f"E_{TOKEN}", f"A_{other}.csv", f"A_{other}.manifest.json"]
    )
    assert outside.read_bytes() == b"a secret"
    assert (folder / f"E_{CSV}").read_bytes() == DATA
    assert (folder / f"E_{TOKEN}").read_bytes() == content, "whoever looks into it finds it as it came"
    why = reason(folder, STEM)
    assert (why["item"], why["kind"], why["attempts"]) == (TOKEN, kind, 1)
    assert message in why["error"]


def test_a_payload_that_is_not_there(folder: Path) -> None:
    put(folder, TOKEN, text())
    taken = Taken()
    consume(drop_at(folder), taken)
    assert taken.results == ["failed"]
    assert names(folder) == [f"E_{TOKEN}", f"E_{STEM}.reason.json"]
    assert "is missing" in reason(folder, STEM)["error"]


def test_a_payload_that_is_a_link(folder: Path) -> None:
    put(folder.parent, "secret.csv", DATA)
    (folder / CSV).symlink_to(folder.parent / "secret.csv")
    put(folder, TOKEN, text())
    taken = Taken()
    consume(drop_at(folder), taken)
    assert taken.results == ["failed"]
    assert taken.contents == []
    assert "is not a regular file, and is not followed" in reason(folder, STEM)["error"]
    assert (folder.parent / "secret.csv").read_bytes() == DATA


def test_a_token_that_is_a_link_or_a_folder_is_no_token(folder: Path) -> None:
    put(folder.parent, "elsewhere.json", text())
    put(folder, CSV, DATA)
    (folder / TOKEN).symlink_to(folder.parent / "elsewhere.json")
    (folder / "orders_0000000002.manifest.json").mkdir()
    taken = Taken()
    assert consume(drop_at(folder), taken) == 0
    assert sorted(os.listdir(folder)) == [CSV, TOKEN, "orders_0000000002.manifest.json"]


def test_names_of_strangers_are_never_touched(folder: Path) -> None:
    strange = [b"readme.txt", b"odd\xff.csv", b"orders_1.csv", b"line\nbreak.csv", b"Q_x.csv"]
    for name in strange:
        (folder / os.fsdecode(name)).write_bytes(b"not ours")
    stem = hand_over(folder, 1)
    taken = Taken()
    assert consume(drop_at(folder), taken) == 1
    left = {os.fsencode(name) for name in os.listdir(folder)}
    assert left == {*strange, f"A_{stem}.csv".encode(), f"A_{stem}.manifest.json".encode()}


def test_a_byte_order_mark_and_unknown_keys_are_tolerated(folder: Path) -> None:
    put(folder, CSV, DATA)
    put(folder, TOKEN, b"\xef\xbb\xbf" + text(later={"x": 1}, files=[file_record(colour="red")]))
    taken = Taken()
    consume(drop_at(folder), taken)
    assert taken.results == ["processed"]


def test_a_hash_in_capitals_is_the_same_hash(folder: Path) -> None:
    put(folder, CSV, DATA)
    put(folder, TOKEN, text(files=[file_record(hash=f"sha256:{sha256(DATA).upper()}")]))
    taken = Taken()
    consume(drop_at(folder), taken)
    assert taken.results == ["processed"]


@pytest.mark.parametrize("rules", [Rules(), Rules(FolderLayout())], ids=["prefix", "folders"])
def test_a_damaged_payload_anywhere(place: tuple[Endpoint, Path], rules: Rules) -> None:
    endpoint, folder = place
    drop = drop_at(endpoint, rules)
    with drop.producer():
        pass  # makes the folders
    ready = folder / "incoming" if rules.layout.folders else folder
    put(ready, CSV, DATA[:-1] + b"!")
    put(ready, TOKEN, text())
    taken = Taken()
    consume(drop, taken)
    assert taken.results == ["failed"]
    assert "the content was changed, or damaged on the way" in taken.events[0].error
    error = "error/" if rules.layout.folders else "E_"
    assert names(folder) == [f"{error}{name}" for name in (CSV, TOKEN, f"{STEM}.reason.json")]


class TestSignatures:
    @pytest.fixture
    def key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.generate()

    def trusting(self, folder: Path, *keys: Ed25519PrivateKey) -> Drop:
        return drop_at(folder, Rules(trusted_keys=frozenset(map(public_text, keys))))

    def send(self, folder: Path, key: Ed25519PrivateKey | None) -> None:
        source = put(folder.parent, "x.csv", DATA)
        with drop_at(folder, signing_key=key).producer() as producer:
            producer.send([Outgoing(source)], group=GROUP, meta={"amount": 10})

    def test_a_trusted_signature(self, folder: Path, key: Ed25519PrivateKey) -> None:
        self.send(folder, key)
        taken = Taken()
        consume(self.trusting(folder, Ed25519PrivateKey.generate(), key), taken)
        assert taken.results == ["processed"]

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda value: value.pop("signature"), "is not signed, and this drop has trusted_keys"),
            (lambda value: value["meta"].update(amount=1000), "does not fit its content"),
            (lambda value: value["files"][0].update(source_name="y"), "does not fit its content"),
            (lambda value: value.update(later=1), "does not fit its content"),
            (lambda value: value["signature"].update(value="AAAA"), "does not fit its content"),
        ],
    )
    def test_a_signature_that_is_not_right(
        self, folder: Path, key: Ed25519PrivateKey, spoil: Callable[[dict[str, Any]], object], message: str
    ) -> None:
        self.send(folder, key)
        value = json.loads((folder / TOKEN).read_bytes())
        spoil(value)
        (folder / TOKEN).write_text(json.dumps(value))
        taken = Taken()
        consume(self.trusting(folder, key), taken)
        assert taken.results == ["failed"]
        assert taken.contents == []
        why = reason(folder, STEM)
        assert why["kind"] == "SignatureRejected"
        assert message in why["error"]

    def test_a_signature_of_somebody_else(self, folder: Path, key: Ed25519PrivateKey) -> None:
        self.send(folder, Ed25519PrivateKey.generate())
        taken = Taken()
        consume(self.trusting(folder, key), taken)
        assert "which is not among the drop's trusted_keys" in reason(folder, STEM)["error"]


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (f"{sha256(b'other')}  {CSV}\n", "IntegrityError", "the content was changed, or damaged on the way"),
        (f"{sha256(DATA)}  {CSV}", "InvalidChecksumFile", "it seems to be cut short"),
        (f"{sha256(DATA)}  orders_0000000002.csv\n", "InvalidChecksumFile", "which is no file of this item"),
        (f"{sha256(DATA)}  ../secret.csv\n", "InvalidChecksumFile", "which is no file of this item"),
        (f"{sha256(DATA)}  {CSV}\n{sha256(DATA)} *{CSV}\n", "InvalidChecksumFile", "again"),
        ("", "InvalidChecksumFile", "has 0 bytes"),
        ("hello\n", "InvalidChecksumFile", "is not '<sha256>  <name>' as sha256sum writes it"),
        (f"{sha256(DATA)}  {STEM}.pdf\n", "IntegrityError", "is missing"),
    ],
)
def test_a_checksum_file_that_cannot_be_believed(folder: Path, content: str, kind: str, message: str) -> None:
    put(folder, CSV, DATA)
    put(folder, f"{CSV}.sha256", content.encode())
    taken = Taken()
    consume(drop_at(folder, Rules(signal=Signal.CHECKSUM)), taken)
    assert taken.results == ["failed"]
    assert taken.contents == []
    assert f"E_{CSV}.sha256" in names(folder)
    why = reason(folder, STEM)
    assert why["kind"] == kind
    assert message in why["error"]
