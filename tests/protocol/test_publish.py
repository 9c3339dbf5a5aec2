"""Publishing: nothing is ever ready that is not whole; a failure leaves nothing, or goes forward from the first rename on."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocol.checksum_file import parse_checksums
from protocol.errors import (
    IntegrityError,
    InvalidManifest,
    InvalidName,
    OutcomeUnresolved,
    ProtocolError,
    PublishInterrupted,
    SequenceExhausted,
    SequenceTaken,
    StillBusy,
)
from protocol.manifest import Manifest, derived_key, parse_manifest
from protocol.names import Grammar, Name
from protocol.operations import Claim, Delete, Operation, Publish, Store
from protocol.procedures.claim import claim
from protocol.procedures.finish import complete, payload_names
from protocol.procedures.publish import Draft, DraftFile, Published, check_draft, publish
from protocol.rules import Rules, Signal, Verify
from protocol.signature import check_signature, public_text, sign
from protocol.states import State
from tests.protocol.directory import Directory, Words
from tests.protocol.drops import ITEM, KINDS, WHO, check_all_complete, contents, draft, found, hashes, in_public, tokens
from tests.protocol.process import Disconnected, Fault, Process, cut_everywhere, run

kinds = pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
MANIFESTS = KINDS["prefix-manifest"]
NONE = KINDS["prefix-none"]


def send(rules: Rules, *, given: bool = False, item: Draft | None = None) -> Process[Published]:
    return Process(Directory(rules), publish(rules, item or draft(rules), ITEM.number, given=given))


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


# Cut.


@kinds
@pytest.mark.parametrize("given", [False, True])
def test_cut_anywhere_nothing_is_ready_that_is_not_whole(rules: Rules, *, given: bool) -> None:
    def make() -> tuple[Directory, Any]:
        there = Directory(rules)
        return there, publish(rules, draft(rules), ITEM.number, given=given)

    cuts = list(cut_everywhere(make))
    for there in cuts:
        check_all_complete(there, contents(draft(rules)))
        if any(name.state is State.READY for name in found(there)):
            # From the first ready name on, what is there is enough to finish by renames alone.
            for name in sorted(found(there), key=lambda name: rules.is_token(name.kind)):
                if name.state is State.BEFORE:
                    there.change(Publish(rules.layout.path(name), rules.layout.path(replace(name, state=State.READY))))
            check_all_complete(there, contents(draft(rules)))
            assert [name.state for name in in_public(there)] == [State.READY]
    assert len(cuts) > 3


@kinds
def test_an_interrupt_anywhere_takes_the_before_files_away_or_goes_forward(rules: Rules) -> None:
    steps = 0
    while True:
        steps += 1
        sending = send(rules)
        if not all([sending.step() for _ in range(steps)]):
            break
        # The one file that is being stored just now is the driver's to remove.
        storing = {sending.operation.path} if isinstance(sending.operation, Store) else set()
        sending.interrupt()
        while sending.step():
            pass
        assert isinstance(sending.error, KeyboardInterrupt)
        there = sending.directory
        left = [name for name in found(there) if rules.layout.path(name) not in storing]
        assert {name.state for name in left} in (set(), {State.READY}, {State.READY, State.BEFORE})
        check_all_complete(there, contents(draft(rules)))
    assert steps > 3


# Failures.


def first_rename(rules: Rules, *, given: bool) -> tuple[int, int]:
    """The number of the operation that is the first rename, and of the last operation."""
    numbers: list[int] = []
    sending = send(rules, given=given)
    sending.before = lambda number, operation: numbers.append(number) if isinstance(operation, Publish) else None
    sending.run()
    return numbers[0], sending.number


@kinds
@pytest.mark.parametrize("given", [False, True])
def test_a_failure_up_to_the_first_rename_leaves_nothing(rules: Rules, *, given: bool) -> None:
    first, _ = first_rename(rules, given=given)
    for number in range(1, first + 1):
        there = Directory(rules)
        with pytest.raises(Disconnected):
            run(there, publish(rules, draft(rules), ITEM.number, given=given), {number: Fault.DOWN})
        assert there.ls() == []


@kinds
@pytest.mark.parametrize("given", [False, True])
def test_a_failure_after_the_first_rename_is_told_with_what_is_left(rules: Rules, *, given: bool) -> None:
    first, last = first_rename(rules, given=given)
    for number in range(first + 1, last + 1):
        there = Directory(rules)
        with pytest.raises(PublishInterrupted, match="Do not send it again") as caught:
            run(there, publish(rules, draft(rules), ITEM.number, given=given), {number: Fault.DOWN})
        before = [rules.layout.path(name) for name in found(there) if name.state is State.BEFORE]
        assert sorted(caught.value.left) == sorted(before)
        assert caught.value.left
        for path in caught.value.left:
            name = rules.layout.parse(path)
            assert isinstance(name, Name)
            there.change(Publish(path, rules.layout.path(replace(name, state=State.READY))))
        check_all_complete(there, contents(draft(rules)))
        assert len(in_public(there)) == 1


def _down_from(begin: int) -> Callable[[int, Operation[Any]], Fault | None]:
    return lambda number, _operation: Fault.DOWN if number >= begin else None


@kinds
def test_a_failure_for_good_leaves_before_files_and_a_note_about_each(rules: Rules) -> None:
    first, _ = first_rename(rules, given=False)
    for begin in range(1, first + 1):
        sending = send(rules)
        sending.faults = _down_from(begin)
        with pytest.raises(Disconnected) as caught:
            sending.run()
        notes = getattr(caught.value, "__notes__", [])
        left = sending.directory.ls()
        assert len(notes) == len(left)
        assert all(any(path in note for note in notes) for path in left)
        assert in_public(sending.directory) == []


@kinds
@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE, Fault.CUT])
def test_lost_replies_to_renames_do_not_hinder_a_publication(rules: Rules, fault: Fault) -> None:
    lost: set[Operation[Any]] = set()

    def once_each(_number: int, operation: Operation[Any]) -> Fault | None:
        if not isinstance(operation, Publish) or operation in lost:
            return None
        lost.add(operation)
        return fault

    sending = send(rules)
    sending.faults = once_each
    published = sending.run()
    sending.directory.carry_out_late()
    assert sending.directory.ls() == sorted(published.names)
    check_all_complete(sending.directory, contents(draft(rules)))


@kinds
@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.CUT])
def test_lost_replies_and_a_consumer_who_takes_the_item_at_once(rules: Rules, fault: Fault) -> None:
    def token(operation: Operation[Any]) -> bool:
        name = rules.layout.parse(operation.src) if isinstance(operation, Publish) else None
        return isinstance(name, Name) and rules.is_token(name.kind)

    lost = False

    def lose(_number: int, operation: Operation[Any]) -> Fault | None:
        nonlocal lost
        if lost or not token(operation):
            return None
        lost = True
        return fault

    sending = send(rules)
    there = sending.directory
    there.folders.add("processing/o")

    def consumer(_number: int, _operation: Operation[Any]) -> None:
        ready = [name for name in tokens(there) if name.state is State.READY]
        if lost and ready:
            claimed = run(there, claim(rules, ready[0], "o")) if fault is not Fault.CUT else _take(there, ready[0])
            assert isinstance(claimed, Name)

    sending.before, sending.faults = consumer, lose
    assert sending.run().item == ITEM
    assert [name.state for name in tokens(there)] in ([State.CLAIMED], [State.READY])
    if fault is not Fault.LOST_BEFORE:
        assert [name.state for name in tokens(there)] == [State.CLAIMED]


def _take(there: Directory, token: Name) -> Name:
    claimed = replace(token, state=State.CLAIMED, owner="o")
    there.change(Claim(there.rules.layout.path(token), there.rules.layout.path(claimed)))
    return claimed


@kinds
def test_a_busy_first_file_is_given_up_and_nothing_is_left(rules: Rules) -> None:
    sending = send(rules)
    sending.faults = lambda _number, operation: Fault.BUSY if isinstance(operation, Publish) else None
    with pytest.raises(StillBusy, match="held open by somebody"):
        sending.run()
    assert sending.directory.ls() == []


def test_a_busy_later_file_is_an_interruption() -> None:
    sending = send(MANIFESTS)
    sending.faults = lambda _number, operation: (
        Fault.BUSY if isinstance(operation, Publish) and operation.src.endswith("json") else None
    )
    with pytest.raises(PublishInterrupted, match="held open") as caught:
        sending.run()
    assert caught.value.left == ("B_orders_0000000042.manifest.json",)


def test_files_that_stay_open_are_named_in_a_note() -> None:
    sending = send(MANIFESTS)
    sending.faults = lambda _number, operation: Fault.BUSY if isinstance(operation, Publish | Delete) else None
    with pytest.raises(StillBusy) as caught:
        sending.run()
    assert sum("somebody has it open" in note for note in caught.value.__notes__) == 3


def test_published_and_cut_with_its_source_held_open_is_published() -> None:
    # The server died between link and unlink, and a scanner has the before name open: it is public all the same.
    sending = send(NONE)
    there = sending.directory

    def hold(_number: int, operation: Operation[Any]) -> Fault | None:
        if isinstance(operation, Publish):
            there.held["B_orders_0000000042.csv"] = -1
            return Fault.CUT
        return None

    sending.faults = hold
    assert sending.run().item == ITEM
    assert there.ls() == ["B_orders_0000000042.csv", "orders_0000000042.csv"]


def test_a_before_file_that_vanishes_is_not_published_by_assumption() -> None:
    sending = send(NONE)
    there = sending.directory
    sending.before = lambda _number, operation: there.files.clear() if isinstance(operation, Publish) else None
    with pytest.raises(PublishInterrupted, match="has vanished") as caught:
        sending.run()
    assert isinstance(caught.value.__cause__, OutcomeUnresolved)


# Rivals for one given number.


def rival_publishes(there: Directory) -> None:
    try:
        run(there, publish(there.rules, draft(there.rules, b"rival's", key="rival"), ITEM.number, given=True))
    except SequenceTaken:
        return  # ours was there first


def rival_is_claimed(there: Directory) -> None:
    rival_publishes(there)
    there.folders.add("processing/o")
    for token in [name for name in tokens(there) if name.state is State.READY]:
        run(there, claim(there.rules, token, "o"))


def rival_is_done(there: Directory) -> None:
    rival_is_claimed(there)
    for token in [name for name in tokens(there) if name.state is State.CLAIMED]:
        run(there, complete(there.rules, token, payload_names(found(there))))


def _once(number: int, deed: Callable[[], None]) -> Callable[[int, Operation[Any]], None]:
    return lambda n, _operation: deed() if n == number else None


@kinds
@pytest.mark.parametrize("rival", [rival_publishes, rival_is_claimed, rival_is_done])
def test_of_rivals_for_a_given_number_exactly_one_wins(rules: Rules, rival: Callable[[Directory], None]) -> None:
    won = lost = 0
    for number in range(1, 60):
        there = Directory(rules)
        sending = Process(there, publish(rules, draft(rules), ITEM.number, given=True))
        sending.before = _once(number, partial(rival, there))
        try:
            sending.run()
            won += 1
            expected = contents(draft(rules))
        except SequenceTaken:
            lost += 1
            expected = contents(draft(rules, b"rival's"))
        if sending.number < number:
            break  # every operation has had its rival
        assert len(in_public(there)) == 1
        assert State.BEFORE not in {name.state for name in found(there)}
        if not any(name.state is State.CLAIMED for name in found(there)):
            check_all_complete(there, expected)
        assert {there[rules.layout.path(name)] for name in found(there) if name.suffix == "csv"} == {expected["csv"]}
    assert won
    assert lost


@kinds
def test_of_many_rivals_for_a_given_number_one_at_most_wins_whatever_the_order(rules: Rules) -> None:
    winners = 0
    for seed in range(25):
        chance = Random(seed)  # noqa: S311 - a schedule, no secret
        there = Directory(rules)
        rivals = [Process(there, publish(rules, draft(rules, f"of {n}".encode()), ITEM.number, given=True)) for n in range(3)]
        while alive := [rival for rival in rivals if rival.alive]:
            chance.choice(alive).step()
        won = [rival for rival in rivals if rival.done]
        assert len(won) <= 1
        assert len(in_public(there)) == len(won)
        assert all(isinstance(rival.error, SequenceTaken) for rival in rivals if rival not in won)
        assert State.BEFORE not in {name.state for name in found(there)}
        winners += len(won)
    assert winners > 15


@pytest.mark.parametrize("state", State)
@kinds
def test_a_given_number_that_exists_in_any_state_is_refused(rules: Rules, state: State) -> None:
    there = Directory(rules)
    owner = "o" if state is State.CLAIMED else ""
    there.folders.add("processing/o")
    path = rules.layout.path(Name(ITEM, rules.token_suffix("csv"), state, owner))
    there.put(path, b"whatever its content")
    with pytest.raises(SequenceTaken, match=r"number 0000000042 of group 'orders_' is in use"):
        run(there, publish(rules, draft(rules), ITEM.number, given=True))
    assert there.ls() == [path]


def test_a_double_of_an_after_image_is_that_number_too() -> None:
    there = Directory(MANIFESTS)
    there.put("A_orders_0000000042+1.csv")
    with pytest.raises(SequenceTaken):
        run(there, publish(MANIFESTS, draft(MANIFESTS), ITEM.number, given=True))


@kinds
def test_a_number_from_the_counter_that_is_in_use_all_the_same_replaces_nothing(rules: Rules) -> None:
    there = Directory(rules)
    path = rules.layout.path(Name(ITEM, "csv"))
    there.put(path, b"somebody else's")
    with pytest.raises(SequenceTaken):
        run(there, publish(rules, draft(rules), ITEM.number, given=False))
    assert there.ls() == [path]
    assert there[path] == b"somebody else's"


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
