"""The sweeper's table (PROTOCOL section 11): what is decided from one look at a drop, and what is left alone."""

import pytest

from protocol.layout import FolderLayout
from protocol.names import ItemId, Name
from protocol.recovery import (
    Action,
    Ages,
    Archive,
    DeleteCounter,
    DeleteLease,
    DeleteScratch,
    DropTwin,
    Facts,
    FinishDone,
    FinishError,
    FinishPublish,
    MissingPayload,
    Replay,
    TakeOver,
    Tell,
    Unfinished,
    plan,
)
from protocol.rules import Rules, Signal
from protocol.snapshot import Listed, take_snapshot
from protocol.states import State

RULES = Rules()
ITEM = ItemId("orders_", 42)
CSV, TOKEN = "orders_0000000042.csv", "orders_0000000042.manifest.json"
NOW = 1_000_000.0
OLD, YOUNG = NOW - 100_000, NOW - 10


def found(*paths: str, dead: frozenset[str] = frozenset(), ages: Ages | None = None, modified: float = YOUNG) -> list[Action]:
    listing = [Listed(path, size=10, modified=modified) for path in paths]
    return plan(take_snapshot(listing, RULES), RULES, Facts(dead, NOW), ages or Ages())


def name(state: State, suffix: str = "manifest.json", owner: str = "") -> Name:
    return Name(ITEM, suffix, state, owner)


def test_a_quiet_drop_needs_nothing() -> None:
    assert found(f"A_{CSV}", f"A_{TOKEN}", "S_orders_0000000043.next", "S_orders_origin", "notes.txt") == []
    assert found(CSV, TOKEN, "L_host-1.lease.json") == []


def test_a_claim_is_taken_over_once_its_worker_is_dead_and_not_before() -> None:
    assert found(CSV, f"C_host-1_{TOKEN}", "L_host-1.lease.json") == []
    assert found(CSV, f"C_host-1_{TOKEN}", dead=frozenset({"host-1"})) == [TakeOver(name(State.CLAIMED, owner="host-1"))]


def test_the_lease_of_a_dead_worker_goes_when_it_holds_nothing_more() -> None:
    dead = frozenset({"host-1"})
    assert DeleteLease("host-1") not in found(CSV, f"C_host-1_{TOKEN}", "L_host-1.lease.json", dead=dead)
    assert found("L_host-1.lease.json", dead=dead) == [DeleteLease("host-1")]
    # Also a claim that is only the second name of an item counts: its owner must stay known as dead.
    both = found(CSV, f"C_host-1_{TOKEN}", f"D_{TOKEN}", "L_host-1.lease.json", dead=dead)
    assert DeleteLease("host-1") not in both


def test_what_is_done_is_put_away_by_anyone() -> None:
    assert found(CSV, f"D_{TOKEN}") == [FinishDone(name(State.DONE))]
    assert found(f"A_{CSV}", f"D_{TOKEN}") == [FinishDone(name(State.DONE))]


def test_an_error_image_without_its_reason_is_finished_and_one_with_it_is_left() -> None:
    assert found(CSV, f"E_{TOKEN}") == [FinishError(name(State.ERROR))]
    assert found(f"E_{CSV}", f"E_{TOKEN}", "E_orders_0000000042.reason.json") == []


def test_a_payload_that_was_brought_back_is_a_replay_also_of_an_error_image() -> None:
    assert found(CSV, f"A_{TOKEN}") == [Replay(name(State.AFTER))]
    assert found(CSV, f"E_{TOKEN}", "E_orders_0000000042.reason.json") == [Replay(name(State.ERROR))]


def test_a_publication_that_was_cut_is_finished_only_when_its_writer_is_long_silent() -> None:
    assert found(CSV, f"B_{TOKEN}") == []
    assert found(CSV, f"B_{TOKEN}", modified=OLD) == [FinishPublish(name(State.BEFORE))]


def test_unfinished_files_are_told_of_when_they_are_old_and_never_where_a_payload_is_ready() -> None:
    assert found(f"B_{CSV}") == []
    assert found(f"B_{CSV}", modified=OLD) == [Unfinished(ITEM, (name(State.BEFORE, "csv"),))]
    assert not any(isinstance(action, Unfinished) for action in found(CSV, f"B_{TOKEN}", modified=OLD))


def test_nothing_is_old_without_the_servers_own_clock() -> None:
    listing = [Listed(f"B_{CSV}", size=10, modified=OLD)]
    assert plan(take_snapshot(listing, RULES), RULES, Facts(frozenset(), None), Ages()) == []


def test_a_ready_token_without_its_payload_becomes_an_error_image() -> None:
    assert found(TOKEN) == [MissingPayload(name(State.READY))]
    assert found(f"A_{CSV}", TOKEN) == []  # a replay by the token alone


def test_a_payload_without_a_token_is_reported_when_it_is_old() -> None:
    assert found(CSV) == []
    (told,) = found(CSV, modified=OLD)
    assert isinstance(told, Tell)
    assert "unsignalled" in told.text


def test_a_ready_item_that_nobody_takes_is_an_alarm() -> None:
    assert found(CSV, TOKEN, modified=OLD) == []
    (told,) = found(CSV, TOKEN, modified=OLD, ages=Ages(ready=3600))
    assert isinstance(told, Tell)
    assert told.alarm


TWINS = [
    (f"B_{TOKEN}", TOKEN, State.BEFORE),
    (f"C_dead_{TOKEN}", f"D_{TOKEN}", State.CLAIMED),
    (f"C_dead_{TOKEN}", f"E_{TOKEN}", State.CLAIMED),
    (f"C_dead_{TOKEN}", TOKEN, State.CLAIMED),
    (f"D_{TOKEN}", f"A_{TOKEN}", State.DONE),
    (TOKEN, f"A_{TOKEN}", State.AFTER),
    (TOKEN, f"E_{TOKEN}", State.ERROR),
]


@pytest.mark.parametrize(("one", "other", "source"), TWINS)
def test_of_two_names_of_a_token_the_source_of_the_cut_rename_is_dropped(one: str, other: str, source: State) -> None:
    (action,) = found(CSV, one, other, dead=frozenset({"dead"}))
    assert isinstance(action, DropTwin)
    assert action.drop.state is source


def test_a_second_name_that_a_live_worker_holds_is_left_to_him() -> None:
    assert found(CSV, f"C_live_{TOKEN}", TOKEN) == []
    assert found(CSV, f"C_live_{TOKEN}", f"C_other_{TOKEN}", dead=frozenset({"other"})) == []


def test_a_before_name_of_a_payload_whose_item_is_public_is_a_rename_that_was_cut() -> None:
    assert found(f"B_{CSV}", f"A_{CSV}", f"A_{TOKEN}") == [DropTwin(name(State.BEFORE, "csv"), name(State.AFTER, "csv"))]
    assert found(f"B_{CSV}", CSV, f"B_{TOKEN}") == []  # its producer is at it just now


def test_of_two_counters_the_higher_stays() -> None:
    deleted, told = found("S_orders_0000000043.next", "S_orders_0000000041.next")
    assert deleted == DeleteCounter("orders_", 41)
    assert isinstance(told, Tell)


def test_old_scratch_is_deleted_and_young_scratch_is_somebodys() -> None:
    assert found("T_host-1.probe") == []
    assert found("T_host-1.probe", modified=OLD) == [DeleteScratch("T_host-1.probe")]


def test_after_images_are_archived_by_age_or_by_count_and_never_while_they_are_replayed() -> None:
    names = [f"A_{CSV}", f"A_{TOKEN}", "A_orders_0000000043.csv", "A_orders_0000000043.manifest.json"]
    assert found(*names, modified=OLD) == []
    both = found(*names, modified=OLD, ages=Ages(after=3600))
    assert [a.item.number for a in both if isinstance(a, Archive)] == [42, 43]
    kept = found(*names, ages=Ages(keep_after=1))
    assert [a.item.number for a in kept if isinstance(a, Archive)] == [42]
    replayed = found(CSV, f"A_{TOKEN}", modified=OLD, ages=Ages(after=3600))
    assert not any(isinstance(action, Archive) for action in replayed)


def test_without_a_manifest_a_payload_is_its_own_token() -> None:
    rules = Rules(signal=Signal.NONE)
    seen = take_snapshot([Listed(f"C_dead_{CSV}", size=1), Listed("orders_0000000043.csv", size=1, modified=OLD)], rules)
    actions = plan(seen, rules, Facts(frozenset({"dead"}), NOW), Ages())
    assert actions == [TakeOver(Name(ITEM, "csv", State.CLAIMED, "dead"))]


def test_the_folder_layout_is_swept_by_the_same_rules() -> None:
    rules = Rules(layout=FolderLayout())
    paths = [f"incoming/{CSV}", f"processing/dead/{TOKEN}", f"archive/D_{TOKEN.replace('42', '43')}"]
    actions = plan(take_snapshot([Listed(p, size=1) for p in paths], rules), rules, Facts(frozenset({"dead"}), NOW), Ages())
    assert actions == [
        TakeOver(name(State.CLAIMED, owner="dead")),
        FinishDone(Name(ItemId("orders_", 43), "manifest.json", State.DONE)),
    ]
