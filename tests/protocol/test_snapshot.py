"""A listing becomes what a person sees with `ls -1`: states, owners, doubles, strangers, and what does not fit together."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.layout import FolderLayout, Layout
from protocol.names import ItemId, Name
from protocol.rules import Rules, Signal
from protocol.snapshot import ItemView, Listed, Snapshot, take_snapshot
from protocol.states import State
from tests.protocol.drops import KINDS
from tests.protocol.strategies import layouts_with_names

PREFIX = Rules()
FOLDERS = Rules(layout=FolderLayout())
CHECKSUM = Rules(signal=Signal.CHECKSUM)
NONE = Rules(signal=Signal.NONE)
ITEM = ItemId("orders_", 42)


def snapshot(*paths: str, rules: Rules = PREFIX) -> Snapshot:
    return take_snapshot([Listed(path, size=10) for path in paths], rules)


def item(*paths: str, rules: Rules = PREFIX) -> ItemView:
    found = snapshot(*paths, rules=rules)
    assert list(found.items) == [ITEM]
    return found.items[ITEM]


def image(mark: str, *suffixes: str) -> list[str]:
    return [f"{mark}orders_0000000042.{suffix}" for suffix in (suffixes or ("csv", "manifest.json"))]


CSV, MANIFEST = "orders_0000000042.csv", "orders_0000000042.manifest.json"


@pytest.mark.parametrize(
    ("paths", "state", "owner"),
    [
        (image("B_"), State.BEFORE, ""),
        (image("B_", "csv"), State.BEFORE, ""),  # its token is still to be written
        ([CSV, f"B_{MANIFEST}"], State.BEFORE, ""),  # cut between the renames, or at it just now
        (image(""), State.READY, ""),
        ([CSV, f"C_host-1_{MANIFEST}"], State.CLAIMED, "host-1"),
        ([CSV, f"D_{MANIFEST}"], State.DONE, ""),
        ([f"A_{CSV}", f"D_{MANIFEST}"], State.DONE, ""),
        (image("A_"), State.AFTER, ""),
        ([f"A_{MANIFEST}"], State.AFTER, ""),  # its payload was cleared away
        (image("E_", "csv", "manifest.json", "reason.json"), State.ERROR, ""),
        ([f"A_{CSV}", MANIFEST], State.READY, ""),  # replayed by its token alone
        ([f"A_{CSV}", f"C_o_{MANIFEST}"], State.CLAIMED, "o"),
    ],
)
def test_the_state_is_the_name_of_the_token_and_nothing_else(paths: list[str], state: State, owner: str) -> None:
    view = item(*paths)
    assert (view.state, view.owner, view.problems) == (state, owner, [])


def test_both_layouts_show_the_same() -> None:
    in_folders = {
        "": "incoming/",
        "B_": "temp/",
        "C_o_": "processing/o/",
        "D_": "archive/D_",
        "A_": "archive/",
        "E_": "error/",
    }
    for mark, folder in in_folders.items():
        one = item(*image(mark), rules=PREFIX)
        other = item(*image(folder), rules=FOLDERS)
        assert (one.state, one.owner) == (other.state, other.owner)


@pytest.mark.parametrize(
    ("rules", "token"),
    [(PREFIX, "manifest.json"), (CHECKSUM, "csv.sha256"), (NONE, "csv")],
    ids=["manifest", "checksum", "none"],
)
def test_the_token_is_that_of_the_drops_signal(rules: Rules, token: str) -> None:
    view = item(CSV, f"C_o_orders_0000000042.{token}", rules=rules)
    if rules is NONE:
        assert any("more than one state" in problem for problem in view.problems)
    else:
        assert (view.state, view.owner, view.problems) == (State.CLAIMED, "o", [])


@pytest.mark.parametrize(
    ("paths", "state", "problem"),
    [
        ([MANIFEST, f"A_{MANIFEST}", CSV], State.AFTER, "more than one state: ready, after"),
        ([f"C_o_{MANIFEST}", f"C_p_{MANIFEST}", CSV], State.CLAIMED, "claimed by o, claimed by p"),
        ([f"B_{MANIFEST}", MANIFEST, CSV], State.READY, "before, ready"),
        ([CSV], None, "payload without its token"),
        ([f"A_{CSV}"], None, "payload without its token"),
        ([CSV, f"B_{CSV}"], None, "its payload .csv stands in more than one state: before, ready"),
        ([MANIFEST], State.READY, "its token is there and its payload is not"),
        ([f"C_o_{MANIFEST}"], State.CLAIMED, "its token is there and its payload is not"),
        ([MANIFEST, f"B_{CSV}"], State.READY, "its payload .csv is not ready"),
        ([MANIFEST, f"E_{CSV}"], State.READY, "its payload .csv is not ready"),
        (["E_orders_0000000042.reason.json"], None, "neither token nor payload"),
    ],
)
def test_what_does_not_fit_together_is_told(paths: list[str], state: State | None, problem: str) -> None:
    view = item(*paths)
    assert view.state is state
    assert any(problem in one for one in view.problems), view.problems


def test_several_tokens_of_one_item_are_told() -> None:
    view = item(CSV, f"{CSV}.sha256", "orders_0000000042.xml", "orders_0000000042.xml.sha256", rules=CHECKSUM)
    assert view.problems == ["it has more than one token, so it is handed over in parts: csv.sha256, xml.sha256"]
    assert item(CSV, "orders_0000000042.xml", rules=NONE).problems


def test_doubles_are_images_and_never_the_state_of_the_number() -> None:
    doubles = ["A_orders_0000000042+1.csv", "A_orders_0000000042+1.manifest.json"]
    assert item(*doubles, *image("A_")).problems == []
    assert item(*doubles, *image("")).state is State.READY
    assert item(*doubles).state is State.AFTER  # where nothing else is left


def test_the_size_is_that_of_the_payloads() -> None:
    entries = [Listed(CSV, size=100), Listed("orders_0000000042.xml", size=None), Listed(MANIFEST, size=7)]
    assert take_snapshot(entries, PREFIX).items[ITEM].size == 100


def test_items_are_ordered_by_group_and_value() -> None:
    found = snapshot("b_0000000001.csv", "a_0000000010.csv", "a_0000000009.csv", "a_0000000100.csv")
    assert [(i.group, i.number) for i in found.items] == [("a_", 9), ("a_", 10), ("a_", 100), ("b_", 1)]
    assert found.groups() == ["a_", "b_"]
    assert (found.highest("a_"), found.highest("b_"), found.highest("c_")) == (100, 1, None)


def test_items_of_a_state_are_found() -> None:
    found = snapshot(*image(""), "A_x_0000000001.manifest.json", "x_0000000002.manifest.json", "x_0000000002.csv")
    assert [view.item for view in found.in_state(State.READY)] == [ITEM, ItemId("x_", 2)]
    assert [view.item for view in found.in_state(State.READY, "x_")] == [ItemId("x_", 2)]
    assert found.in_state(State.ERROR) == []


def test_helpers_are_sorted_out() -> None:
    found = snapshot(
        "S_orders_0000000043.next",
        "S_orders_origin",
        "S_orders_seed+o+1",
        "L_host-1.lease.json",
        "T_1f",
        "S_empty_0000000001.next",
    )
    assert found.items == {}
    assert found.counters == {"orders_": [43], "empty_": [1]}
    assert found.groups() == ["empty_", "orders_"]
    assert list(found.leases) == ["host-1"]
    assert [listed.path for listed in found.scratch] == ["T_1f"]
    assert found.foreign == []
    assert found.problems == []


def test_two_counters_are_told() -> None:
    assert "2 counters" in snapshot("S_orders_0000000043.next", "S_orders_0000000044.next").problems[0]


STRANGERS = [
    "readme.txt",
    "orders_42.csv",
    "Thumbs.db",
    "F_orders_0000000042.csv",
    "A_orders_0000000042+01.csv",
    "orders_0000000042.csv~",
    "orders_0000000042.Manifest.json",
    "con.0000000042.csv",
    "a\0b",
    "..",
    "orders_\udce9",
    "CSHOFG~F.TXT",
]


def test_strangers_are_counted_and_do_no_more() -> None:
    found = snapshot(*STRANGERS, *image(""))
    assert [listed.path for listed in found.foreign] == STRANGERS
    assert found.items[ITEM].state is State.READY
    assert found.problems == []


def test_links_and_folders_are_strangers_whatever_their_name() -> None:
    entries = [Listed(CSV, regular=False), Listed("orders_0000000043.csv", regular=False, folder=True)]
    found = take_snapshot(entries, PREFIX)
    assert found.items == {}
    assert len(found.foreign) == 2


@pytest.mark.parametrize(
    "groups",
    [("orders_", "Orders_"), ("a.b_", "A.b_"), ("orders_", "b_orders_"), ("orders_", "c_host-1_orders_"), ("", "a_")],
)
def test_groups_that_smb_takes_for_one_are_told(groups: tuple[str, str]) -> None:
    found = snapshot(*(f"{group}0000000001.csv" for group in groups))
    (problem,) = found.problems
    assert all(repr(group) in problem for group in groups)
    assert "differ only by case" in problem
    # A counter alone makes a group as well.
    assert snapshot(f"S_{groups[0]}0000000001.next", f"{groups[1]}0000000001.csv").problems


def test_groups_that_are_only_alike_are_fine() -> None:
    assert snapshot("orders_0000000001.csv", "order_0000000001.csv", "a_orders.x_0000000001.csv").problems == []


@given(layouts_with_names(), st.lists(st.text(max_size=10), max_size=5))
def test_any_listing_is_sorted_out_whatever_strangers_are_in_it(drawn: tuple[Layout, Name], strangers: list[str]) -> None:
    layout, name = drawn
    rules = Rules(layout=layout)
    paths = {layout.path(name), *strangers}
    found = take_snapshot([Listed(path) for path in paths], rules)
    assert name.item in found.items
    files = [listed.path for view in found.items.values() for _, listed in view.files]
    sorted_out = (
        len(files) + len(found.foreign) + len(found.scratch) + len(found.leases) + sum(map(len, found.counters.values()))
    )
    assert sorted_out <= len(paths)
    assert layout.path(name) in files


@pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
def test_an_empty_drop_is_an_empty_snapshot(rules: Rules) -> None:
    assert take_snapshot([], rules) == Snapshot()


def test_a_hostile_listing_is_judged_in_time() -> None:
    # Every name its own group, all of them alike but for case.
    paths = [f"{'aA'[n & 1]}{'bB'[n >> 1 & 1]}x{'y' * (n % 50)}.{n:x}_0000000001.csv" for n in range(5_000)]
    begun = time.process_time()
    snapshot(*paths)
    assert time.process_time() - begun < 3
