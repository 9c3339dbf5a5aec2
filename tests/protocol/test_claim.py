"""Claiming: one winner whatever the order and whatever is lost; and an item is believed only as far as its token can be."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocol.contents import Contents
from protocol.errors import (
    Anomaly,
    ClaimLost,
    IntegrityError,
    InvalidChecksumFile,
    InvalidManifest,
    OutcomeUnresolved,
    SignatureRejected,
)
from protocol.manifest import LARGEST, Manifest
from protocol.names import ItemId, Name
from protocol.operations import Claim, Outcome
from protocol.procedures.claim import claim, prepare_owner, read_contents
from protocol.procedures.look import find_item, ready_tokens
from protocol.procedures.publish import publish
from protocol.rules import Rules, Signal
from protocol.signature import public_text, sign
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.drops import ITEM, KINDS, contents, draft, found, tokens
from tests.protocol.process import Disconnected, Fault, Process, run

kinds = pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
FOLDERS = KINDS["folders-manifest"]
MANIFESTS = KINDS["prefix-manifest"]


def ready(rules: Rules, *, sign_with: Ed25519PrivateKey | None = None, numbers: tuple[int, ...] = (42,)) -> Directory:
    """A drop with items that are ready, and folders for two owners."""
    there = Directory(rules)

    def signer(manifest: Manifest) -> Manifest:
        return manifest if sign_with is None else sign(manifest, sign_with)

    for number in numbers:
        run(there, publish(rules, draft(rules), number, given=False, sign=signer))
    for owner in ("o", "p", "q"):
        run(there, prepare_owner(rules, owner))
    there.renames.clear()
    return there


def token(there: Directory) -> Name:
    (name,) = tokens(there)
    return name


def claimed(there: Directory, owner: str = "o") -> Name:
    name = run(there, claim(there.rules, token(there), owner))
    assert isinstance(name, Name)
    return name


# One winner.


@kinds
def test_a_claim_is_one_rename_to_a_name_of_its_own(rules: Rules) -> None:
    there = ready(rules)
    process = Process(there, claim(rules, token(there), "o"))
    name = process.run()
    assert process.number == 1
    assert name == replace(Name(ITEM, rules.token_suffix("csv")), state=State.CLAIMED, owner="o")
    assert token(there) == name
    if rules.signal is not Signal.NONE:
        # Payload names do not change while the item is claimed.
        assert rules.layout.path(Name(ITEM, "csv")) in there.files


@kinds
def test_who_comes_second_takes_the_next_and_no_error(rules: Rules) -> None:
    there = ready(rules)
    name = token(there)
    claimed(there)
    assert run(there, claim(rules, name, "p")) is Outcome.GONE
    assert token(there).owner == "o"


@kinds
def test_a_busy_token_is_not_waited_for(rules: Rules) -> None:
    there = ready(rules)
    there.held[rules.layout.path(token(there))] = 1
    begun = there.clock
    assert run(there, claim(rules, token(there), "o")) is Outcome.BUSY
    assert there.clock - begun < 0.1
    assert token(there).state is State.READY


@kinds
@pytest.mark.parametrize("losses", [False, True])
def test_of_a_crowd_exactly_one_wins_each_item(rules: Rules, *, losses: bool) -> None:
    for seed in range(15):
        chance = Random(seed)  # noqa: S311 - a schedule, no secret
        there = ready(rules, numbers=(1, 2, 3))
        owners = ("o", "p", "q")
        items = [name for name in tokens(there) if name.state is State.READY]

        def lose(_number: int, operation: object, chance: Random = chance) -> Fault | None:
            if not losses or not isinstance(operation, Claim) or chance.random() > 0.4:
                return None
            return chance.choice((Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE))

        processes = {
            (owner, item): Process(there, claim(rules, item, owner), faults=lose) for owner in owners for item in items
        }
        while alive := [process for process in processes.values() if process.alive]:
            chance.choice(alive).step()
        for item in items:
            results = {owner: processes[owner, item].result for owner in owners}
            winners = [owner for owner, result in results.items() if isinstance(result, Name)]
            there_now = [name for name in tokens(there) if name.item == item.item]
            assert [name.owner for name in there_now] == winners
            assert len(winners) == 1
            assert all(results[owner] is Outcome.GONE for owner in owners if owner not in winners)


@kinds
@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE, Fault.CUT])
def test_a_lost_reply_is_resolved(rules: Rules, fault: Fault) -> None:
    there = ready(rules)
    name = run(there, claim(rules, token(there), "o"), {1: fault})
    there.carry_out_late()
    assert isinstance(name, Name)
    assert tokens(there) == [name]


@kinds
@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LATE])
@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_rival_who_comes_while_we_look_wins_or_loses_alone(rules: Rules, fault: Fault, number: int) -> None:
    there = ready(rules)
    name = token(there)
    rival: list[Name | Outcome] = []

    def come() -> None:
        rival.append(run(there, claim(rules, name, "p")))

    mine = run(there, claim(rules, name, "o"), {1: fault}, before={number: come})
    there.carry_out_late()
    winners = [result for result in (mine, *rival) if isinstance(result, Name)]
    assert tokens(there) == winners
    assert len(winners) == 1


class Linking(Directory):
    """A server whose rename is link and unlink, so that even a claim replaces nothing."""

    def _rename(self, src: str, dst: str, *, replace: bool) -> Outcome:
        return super()._rename(src, dst, replace=False)


def test_a_claims_name_that_another_file_has_is_told() -> None:
    there = Linking(MANIFESTS)
    there.put("orders_0000000042.manifest.json", b"new")
    there.put("C_o_orders_0000000042.manifest.json", b"old")
    with pytest.raises(Anomaly, match="is there already, and is another file"):
        run(there, claim(MANIFESTS, Name(ITEM, "manifest.json"), "o"))
    assert len(there.ls()) == 2


def test_a_claim_of_ours_that_was_cut_in_two_is_ours_when_asked_again() -> None:
    there = Linking(MANIFESTS)
    there.put("orders_0000000042.manifest.json")
    name = Name(ITEM, "manifest.json")
    with pytest.raises(OutcomeUnresolved):
        run(there, claim(MANIFESTS, name, "o"), {1: Fault.CUT, 2: Fault.DOWN})
    assert len(there.ls()) == 2
    assert run(there, claim(MANIFESTS, name, "o")) == replace(name, state=State.CLAIMED, owner="o")
    assert there.ls() == ["C_o_orders_0000000042.manifest.json"]


# An owner's folder.


def test_an_owner_gets_a_folder_where_the_layout_has_one() -> None:
    there = Directory(FOLDERS)
    for _ in range(2):
        run(there, prepare_owner(FOLDERS, "o"))
    assert "processing/o" in there.folders
    nowhere = Process(Directory(MANIFESTS), prepare_owner(MANIFESTS, "o"))
    nowhere.run()
    assert nowhere.number == 0


@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER])
def test_an_owners_folder_is_made_although_the_reply_is_lost(fault: Fault) -> None:
    there = Directory(FOLDERS)
    run(there, prepare_owner(FOLDERS, "o"), {1: fault})
    assert "processing/o" in there.folders


def test_without_its_folder_an_owner_is_told_instead_of_losing_every_race() -> None:
    there = Directory(FOLDERS)
    there.folders.discard("processing")
    with pytest.raises(Anomaly, match="processing/o could not be made"):
        run(there, prepare_owner(FOLDERS, "o"))


# What the item holds.


@kinds
def test_the_contents_are_where_and_what_the_token_says(rules: Rules) -> None:
    there = ready(rules)
    held = run(there, read_contents(rules, claimed(there)))
    expected = contents(draft(rules))
    assert [payload.name for payload in held.payloads] == [Name(ITEM, suffix) for suffix in expected]
    for payload in held.payloads:
        assert there[payload.path] == expected[payload.name.suffix]
        assert payload.size == len(expected[payload.name.suffix])
        assert (payload.digest != "") == (rules.signal is not Signal.NONE)
    assert (held.manifest is not None) == (rules.signal is Signal.MANIFEST)
    if rules.signal is Signal.MANIFEST:
        assert held.payloads[0].source_name == "Rechnung März.csv"


@kinds
def test_a_payload_that_stayed_an_after_image_is_read_where_it_is(rules: Rules) -> None:
    if rules.signal is Signal.NONE:
        return  # its payload is the token, and was brought back with it
    there = ready(rules)
    name = claimed(there)
    away = rules.layout.path(Name(ITEM, "csv", State.AFTER))
    there.files[away] = there.files.pop(rules.layout.path(Name(ITEM, "csv")))
    held = run(there, read_contents(rules, name))
    assert held.payloads[0].path == away
    assert away in there.files


@kinds
def test_a_lost_claim_is_told_as_such(rules: Rules) -> None:
    there = ready(rules)
    name = claimed(there)
    del there.files[rules.layout.path(name)]
    with pytest.raises(ClaimLost, match="no longer there"):
        run(there, read_contents(rules, name))


def spoil(there: Directory, name: Name, **changes: Any) -> None:
    path = there.rules.layout.path(name)
    there.put(path, json.dumps(json.loads(there[path]) | changes).encode())


def read_spoiled(rules: Rules, **changes: Any) -> Contents:
    there = ready(rules)
    name = claimed(there)
    spoil(there, name, **changes)
    return run(there, read_contents(rules, name))


RECORD = {"name": "orders_0000000042.csv", "size": 8, "hash": f"sha256:{'0' * 64}"}


@pytest.mark.parametrize("rules", [MANIFESTS, FOLDERS], ids=["prefix", "folders"])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"manifest": 2}, InvalidManifest),
        ({"group": "other_"}, InvalidManifest),
        ({"sequence": "0000000041"}, InvalidManifest),
        ({"files": [RECORD | {"name": "../../etc/passwd"}]}, InvalidManifest),
        ({"files": [RECORD | {"name": "orders_0000000041.csv"}]}, InvalidManifest),
        ({"files": [RECORD | {"name": "A_orders_0000000042.csv"}]}, InvalidManifest),
        ({"files": [RECORD | {"name": "C_o_orders_0000000042.manifest.json"}]}, InvalidManifest),
        ({"files": [RECORD | {"name": "orders_0000000042.xml"}]}, IntegrityError),
        ({"files": [RECORD | {"size": 9}]}, IntegrityError),
    ],
)
def test_an_item_that_must_not_be_processed_is_told_by_its_kind(
    rules: Rules, changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        read_spoiled(rules, **changes)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b" " * (LARGEST + 2)])
def test_a_token_that_is_no_manifest_is_refused(data: bytes) -> None:
    there = ready(MANIFESTS)
    name = claimed(there)
    there.put(MANIFESTS.layout.path(name), data)
    with pytest.raises(InvalidManifest):
        run(there, read_contents(MANIFESTS, name))


@pytest.mark.parametrize("data", [b"", b"0" * 64, b"x" * (LARGEST + 2)])
def test_a_token_that_is_no_checksum_file_is_refused(data: bytes) -> None:
    rules = KINDS["prefix-checksum"]
    there = ready(rules)
    name = claimed(there)
    there.put(rules.layout.path(name), data)
    with pytest.raises(InvalidChecksumFile):
        run(there, read_contents(rules, name))


@kinds
def test_a_link_in_the_place_of_a_payload_is_not_followed(rules: Rules) -> None:
    there = ready(rules)
    name = claimed(there)
    path = rules.layout.path(name if rules.signal is Signal.NONE else Name(ITEM, "csv"))
    there.put(path, there[path], regular=False)
    with pytest.raises(IntegrityError, match="is not followed"):
        run(there, read_contents(rules, name))


@kinds
def test_a_missing_payload_is_an_integrity_error_and_names_it(rules: Rules) -> None:
    if rules.signal is Signal.NONE:
        return  # without its payload there is no token
    there = ready(rules)
    name = claimed(there)
    path = rules.layout.path(Name(ITEM, "csv"))
    del there.files[path]
    with pytest.raises(IntegrityError, match=f"{path} is missing"):
        run(there, read_contents(rules, name))


KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TRUSTING = replace(MANIFESTS, trusted_keys=frozenset({public_text(KEY)}))


def test_a_drop_that_trusts_keys_takes_what_they_signed() -> None:
    there = ready(TRUSTING, sign_with=KEY)
    assert run(there, read_contents(TRUSTING, claimed(there))).manifest is not None


def test_a_drop_that_trusts_keys_refuses_the_unsigned_and_the_tampered() -> None:
    there = ready(TRUSTING)
    with pytest.raises(SignatureRejected, match="not signed"):
        run(there, read_contents(TRUSTING, claimed(there)))
    there = ready(TRUSTING, sign_with=KEY)
    name = claimed(there)
    spoil(there, name, key="another hand-off")
    with pytest.raises(SignatureRejected, match="does not fit"):
        run(there, read_contents(TRUSTING, name))


@kinds
def test_a_failure_while_reading_passes_and_changes_nothing(rules: Rules) -> None:
    there = ready(rules)
    name = claimed(there)
    before = there.ls()
    for number in (1, 2):
        if rules.signal is Signal.NONE and number == 2:
            break
        with pytest.raises(Disconnected):
            run(there, read_contents(rules, name), {number: Fault.DOWN})
    assert there.ls() == before


# Looking for work.


def test_ready_tokens_are_listed_by_value_and_nothing_else_is() -> None:
    there = Directory(MANIFESTS)
    for number in (10, 9, 100):
        there.put(f"orders_{number:010d}.manifest.json")
        there.put(f"orders_{number:010d}.csv")
    for stranger in (
        "orders_0000000001.csv",  # no token
        "A_orders_0000000002.manifest.json",
        "Orders_0000000003.manifest.json",
        "orders_x_0000000004.manifest.json",
        "orders_0000000005.Manifest.json",
        "orders_6.manifest.json",
        "orders_0000000007.manifest.json\n",
        "orders_\ud800.manifest.json",
        "orders_0000000008+1.manifest.json",
    ):
        there.put(stranger)
    there.put("orders_0000000001.manifest.json", regular=False)
    assert [name.item.number for name in run(there, ready_tokens(MANIFESTS, "orders_"))] == [9, 10, 100]


@kinds
def test_an_item_is_found_in_whatever_state_it_is(rules: Rules) -> None:
    there = Directory(rules)
    there.folders.add("processing/o")
    names = {Name(ITEM, "csv", state, "o" if state is State.CLAIMED else "") for state in State}
    names |= {Name(ITEM, "csv", State.AFTER, again=1), Name(ITEM, "reason.json", State.ERROR)}
    others = {Name(ItemId("orders_", 43), "csv"), Name(ItemId("x_orders_", 42), "csv"), Name(ItemId("", 42), "csv")}
    for name in names | others:
        there.put(rules.layout.path(name))
    there.put("readme.txt")
    assert set(run(there, find_item(rules, ITEM))) == names
    assert set(found(there)) == names | others
