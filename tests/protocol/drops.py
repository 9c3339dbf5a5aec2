"""Drops of every kind, items to be sent, and what must be true of a drop at any moment."""

import hashlib

from protocol.checksum_file import parse_checksums
from protocol.hashes import parse_hash
from protocol.layout import FolderLayout, PrefixLayout
from protocol.manifest import Producer, check_describes, parse_manifest
from protocol.names import ItemId, Name
from protocol.procedures.publish import Draft, DraftFile, Published, publish
from protocol.rules import Rules, Signal
from protocol.states import State
from tests.protocol.directory import Directory, Words
from tests.protocol.process import Process

KINDS = {
    f"{layout_name}-{signal.value}": Rules(layout=layout, signal=signal, busy_patience=3.0)
    for layout_name, layout in (("prefix", PrefixLayout()), ("folders", FolderLayout()))
    for signal in Signal
}
ITEM = ItemId("orders_", 42)
WHO = Producer(host="erp-1", software="erp 4")


def draft(rules: Rules, content: bytes = b"a;b\n1;2\n", *, key: str | None = "invoice 7", group: str = "orders_") -> Draft:
    """An item of two files where the drop can carry two, else of one."""
    files = [DraftFile("csv", Words((content[:3], content[3:])), source_name="Rechnung März.csv", records=1)]
    if rules.signal is not Signal.NONE:
        files.append(DraftFile("tar.gz", Words((b"archive of ", content))))
    return Draft(group, tuple(files), key, WHO, {"customer": 7})


def hashes(item: Draft) -> dict[str, str]:
    return {f.suffix: f"sha256:{hashlib.sha256(b''.join(f.content.chunks())).hexdigest()}" for f in item.files}


def found(directory: Directory) -> list[Name]:
    """The names of items that are there."""
    parsed = (directory.rules.layout.parse(path) for path in directory.ls())
    return [name for name in parsed if isinstance(name, Name)]


def tokens(directory: Directory) -> list[Name]:
    return [name for name in found(directory) if directory.rules.is_token(name.kind)]


def in_public(directory: Directory) -> list[Name]:
    """Tokens of published items, wherever they have come to."""
    return [name for name in tokens(directory) if name.state is not State.BEFORE]


def check_all_complete(directory: Directory, contents: dict[str, bytes]) -> None:
    """That every published item of the drop is there in whole, and is what its token says.

    `contents` is what was sent, by suffix; with `signal = "none"` nothing else can say what a payload should hold.
    """
    for token in in_public(directory):
        digests = _described(directory, token)
        assert set(digests) == set(contents)
        for suffix, digest in digests.items():
            there = [n for n in found(directory) if (n.item, n.suffix) == (token.item, suffix)]
            assert len(there) == 1, f"{token.item} .{suffix} is there as {there}"
            payload = directory[directory.rules.layout.path(there[0])]
            assert payload == contents[suffix]
            assert hashlib.sha256(payload).hexdigest() == digest


def _described(directory: Directory, token: Name) -> dict[str, str]:
    """The sha256 of each payload, by suffix, as the token says it or, where it is the payload, as it is."""
    rules = directory.rules
    data = directory[rules.layout.path(token)]
    if rules.signal is Signal.NONE:
        return {token.suffix: hashlib.sha256(data).hexdigest()}
    if rules.signal is Signal.CHECKSUM:
        return {name.suffix: digest for name, digest in parse_checksums(data, token.item, rules.grammar).items()}
    manifest = parse_manifest(data)
    names = check_describes(manifest, token.item, rules.grammar)
    return {names[record.name].suffix: parse_hash(record.hash)[1] for record in manifest.files}


def contents(item: Draft) -> dict[str, bytes]:
    return {file.suffix: b"".join(file.content.chunks()) for file in item.files}


def send(rules: Rules, *, given: bool = False, item: Draft | None = None) -> Process[Published]:
    return Process(Directory(rules), publish(rules, item or draft(rules), ITEM.number, given=given))
