"""Publishing to storage that lies: what was stored wrong is found before anybody else can see it."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from protocol.errors import (
    IntegrityError,
)
from protocol.manifest import parse_manifest
from protocol.procedures.publish import Draft, publish
from protocol.rules import Rules, Verify
from tests.protocol.directory import Directory
from tests.protocol.drops import ITEM, KINDS, check_all_complete, contents, draft
from tests.protocol.process import run

kinds = pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
MANIFESTS = KINDS["prefix-manifest"]
NONE = KINDS["prefix-none"]


# What the server stored.


class Rotten(Directory):
    """Storage that gives back other bytes than it was given."""

    victim = ".csv"

    def _store(self, path: str, content: Any, algorithm: str) -> Any:
        stored = yield from super()._store(path, content, algorithm)
        if path.endswith(self.victim):
            self.files[path].data = self.rot(self.files[path].data)
        return stored

    def rot(self, data: bytes) -> bytes:
        return data[:-1] + b"?"


class Shortened(Rotten):
    """Storage that loses the end of a file."""

    def rot(self, data: bytes) -> bytes:
        return data[:-1]


@kinds
def test_a_file_that_was_stored_short_is_never_published(rules: Rules) -> None:
    there = Shortened(rules)
    with pytest.raises(IntegrityError, match=r"8 bytes were written and acknowledged, and the server has 7 bytes"):
        run(there, publish(rules, draft(rules), ITEM.number, given=False))
    assert there.ls() == []


@kinds
def test_readback_finds_what_a_size_cannot(rules: Rules) -> None:
    careful = replace(rules, verify=Verify.READBACK)
    there = Rotten(careful)
    with pytest.raises(IntegrityError, match="what the server stored is not what was written"):
        run(there, publish(careful, draft(careful), ITEM.number, given=False))
    assert there.ls() == []
    run(Rotten(rules), publish(rules, draft(rules), ITEM.number, given=False))  # a size alone does not notice


def test_readback_covers_the_token() -> None:
    careful = replace(MANIFESTS, verify=Verify.READBACK)
    there = Rotten(careful)
    there.victim = "json"
    with pytest.raises(IntegrityError):
        run(there, publish(careful, draft(careful), ITEM.number, given=False))
    assert there.ls() == []


@kinds
def test_readback_lets_a_whole_item_through(rules: Rules) -> None:
    careful = replace(rules, verify=Verify.READBACK)
    there = Directory(careful)
    run(there, publish(careful, draft(careful), ITEM.number, given=False))
    check_all_complete(there, contents(draft(careful)))


def expecting(rules: Rules, expected: str) -> Draft:
    item = draft(rules)
    return replace(item, files=(replace(item.files[0], expected=expected), *item.files[1:]))


@kinds
def test_a_content_that_is_not_what_was_expected_is_never_published(rules: Rules) -> None:
    there = Directory(rules)
    with pytest.raises(IntegrityError, match="not what its hash says"):
        run(there, publish(rules, expecting(rules, f"sha256:{'0' * 64}"), ITEM.number, given=False))
    assert there.ls() == []


def test_an_expected_hash_of_another_algorithm_is_kept() -> None:
    digest = hashlib.sha512(b"a;b\n1;2\n").hexdigest()
    item = expecting(MANIFESTS, f"sha512:{digest.upper()}")
    there = Directory(MANIFESTS)
    published = run(there, publish(MANIFESTS, item, ITEM.number, given=False))
    manifest = parse_manifest(there[published.names[-1]])
    assert [record.hash.partition(":")[0] for record in manifest.files] == ["sha512", "sha256"]
    assert manifest.files[0].hash == published.hashes[0] == f"sha512:{digest}"
