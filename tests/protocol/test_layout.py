"""Both layouts: every name has one path, every path one meaning, and nothing else has any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidName
from protocol.layout import DEFAULT_FOLDERS, FolderLayout, Layout, PrefixLayout
from protocol.names import CounterName, Grammar, ItemId, LeaseName, Name, OriginName, ScratchName, SeedName
from protocol.states import State
from tests.protocol.strategies import layouts, layouts_with_names, mutated, names, owners, prefixes, suffixes

ITEM = ItemId("orders_", 42)
FOLDERS = FolderLayout()

EXAMPLES = [
    ("temp/orders_0000000042.csv", Name(ITEM, "csv", State.BEFORE)),
    ("incoming/orders_0000000042.csv", Name(ITEM, "csv")),
    ("processing/host-1-ab/orders_0000000042.manifest.json", Name(ITEM, "manifest.json", State.CLAIMED, "host-1-ab")),
    ("archive/D_orders_0000000042.manifest.json", Name(ITEM, "manifest.json", State.DONE)),
    ("archive/orders_0000000042.csv", Name(ITEM, "csv", State.AFTER)),
    ("archive/orders_0000000042+1.csv", Name(ITEM, "csv", State.AFTER, again=1)),
    ("error/orders_0000000042.reason.json", Name(ITEM, "reason.json", State.ERROR)),
]


@pytest.mark.parametrize(("path", "name"), EXAMPLES)
def test_the_folder_layout_reads_as_it_should(path: str, name: Name) -> None:
    assert FOLDERS.parse(path) == name
    assert FOLDERS.path(name) == path


@given(layouts_with_names())
def test_a_name_is_read_back_from_its_path(pair: tuple[Layout, Name]) -> None:
    layout, name = pair
    assert layout.parse(layout.path(name)) == name


@given(layouts.flatmap(lambda layout: st.tuples(st.just(layout), names(layout.grammar), names(layout.grammar))))
def test_no_two_names_share_a_path(triple: tuple[Layout, Name, Name]) -> None:
    layout, one, other = triple
    assert (layout.path(one) == layout.path(other)) == (one == other)


@given(layouts.flatmap(lambda layout: st.tuples(st.just(layout), prefixes(layout.grammar), suffixes, owners)))
def test_no_two_states_of_an_item_share_a_path_not_even_where_case_is_folded(drawn: tuple[Layout, str, str, str]) -> None:
    layout, prefix, suffix, owner = drawn
    item = ItemId(prefix if prefix.lower() not in ("com", "lpt") else "", 1)
    forms = [Name(item, suffix, state, owner if state is State.CLAIMED else "") for state in State]
    forms += [Name(item, suffix, state, again=1) for state in (State.AFTER, State.ERROR)]
    assert len({layout.path(form).lower() for form in forms}) == len(forms)


@given(
    layouts_with_names().flatmap(lambda pair: st.tuples(st.just(pair[0]), mutated(pair[0].path(pair[1])))),
)
def test_a_changed_path_means_another_name_or_nothing(pair: tuple[Layout, str]) -> None:
    layout, path = pair
    parsed = layout.parse(path)
    if isinstance(parsed, Name):
        assert layout.path(parsed) == path


@pytest.mark.parametrize(
    "path",
    [
        "orders_0000000042.csv",  # an item's file has no place at the top
        "B_orders_0000000042.csv",
        "incoming/A_orders_0000000042.csv",  # nor has a mark a place in a folder
        "incoming/D_orders_0000000042.manifest.json",
        "incoming/orders_0000000042+1.csv",
        "archive/D_orders_0000000042+1.manifest.json",
        "archive/sub/orders_0000000042.csv",
        "processing/orders_0000000042.manifest.json",
        "processing/Owner/orders_0000000042.manifest.json",
        "processing/con/orders_0000000042.manifest.json",
        "processing/../orders_0000000042.manifest.json",
        "processing/o/../orders_0000000042.manifest.json",
        "processing/o/sub/orders_0000000042.manifest.json",
        "Incoming/orders_0000000042.csv",
        "other/orders_0000000042.csv",
        "/orders_0000000042.csv",
        "incoming//orders_0000000042.csv",
        "incoming/",
        "incoming",
        "other/T_x",
        "incoming/T_a/b",
        "incoming/S_orders_0000000043.next",
        "incoming/L_o.lease.json",
        "",
    ],
)
def test_a_path_outside_the_folder_layout_is_foreign(path: str) -> None:
    assert FOLDERS.parse(path) is None


@pytest.mark.parametrize("layout", [PrefixLayout(), FOLDERS])
def test_helpers_stand_at_the_top_in_both_layouts(layout: Layout) -> None:
    assert layout.counter("orders_", 43) == "S_orders_0000000043.next"
    assert layout.origin("orders_") == "S_orders_origin"
    assert layout.seed("orders_", "o", "1") == "S_orders_seed+o+1"
    assert layout.lease("o") == "L_o.lease.json"
    helpers = (CounterName("orders_", 43), OriginName("orders_"), SeedName("orders_", "o", "1"), LeaseName("o"))
    paths = (layout.counter("orders_", 43), layout.origin("orders_"), layout.seed("orders_", "o", "1"), layout.lease("o"))
    assert tuple(layout.parse(path) for path in paths) == helpers


def test_scratch_is_known_wherever_a_probe_renames_it_to() -> None:
    assert FOLDERS.parse("T_1f") == FOLDERS.parse("incoming/T_1f") == ScratchName("T_1f")


@pytest.mark.parametrize("state", State)
def test_a_name_stands_in_the_folder_that_its_layout_says(state: State) -> None:
    name = Name(ITEM, "csv", state, "o" if state is State.CLAIMED else "")
    assert FOLDERS.path(name).rpartition("/")[0] == FOLDERS.folder_of(state, name.owner)
    assert PrefixLayout().folder_of(state, name.owner) == ""


def test_the_layouts_say_which_folders_they_need() -> None:
    assert (PrefixLayout().folders, PrefixLayout().claims_folder) == ((), None)
    assert (FOLDERS.folders, FOLDERS.claims_folder) == (DEFAULT_FOLDERS, "processing")


@pytest.mark.parametrize(
    ("folders", "why"),
    [
        (("a", "b", "c", "d"), "needs five names"),
        (("a", "b", "c", "d", "A"), "have one name"),
        (("a", "b", "c", "d", "a"), "have one name"),
        (("", "b", "c", "d", "e"), "on every server"),
        (("..", "b", "c", "d", "e"), "on every server"),
        (("a/b", "b", "c", "d", "e"), "on every server"),
        (("a\\b", "b", "c", "d", "e"), "on every server"),
        (("a\0", "b", "c", "d", "e"), "on every server"),
        (("a\x7f", "b", "c", "d", "e"), "on every server"),
        (("a.", "b", "c", "d", "e"), "on every server"),
        ((" a", "b", "c", "d", "e"), "on every server"),
        (("a:b", "b", "c", "d", "e"), "on every server"),
        (("con", "b", "c", "d", "e"), "on every server"),
        (("Nul.old", "b", "c", "d", "e"), "on every server"),
        (("\udce9", "b", "c", "d", "e"), "on every server"),
        (("é" * 128, "b", "c", "d", "e"), "on every server"),
        (("A_old", "b", "c", "d", "e"), "reads like a file"),
        (("T_x", "b", "c", "d", "e"), "reads like a file"),
        (("S_origin", "b", "c", "d", "e"), "reads like a file"),
        (("orders_0000000001.csv", "b", "c", "d", "e"), "reads like a file"),
    ],
)
def test_folders_that_could_not_be_told_apart_or_made_everywhere_are_refused(folders: tuple[str, ...], why: str) -> None:
    with pytest.raises(InvalidName, match=why):
        FolderLayout(names=folders)


def test_a_name_that_one_layout_cannot_write_the_other_cannot_either() -> None:
    name = Name(ItemId("x" * 240, 1), "csv", State.BEFORE)
    for layout in (PrefixLayout(), FOLDERS):
        with pytest.raises(InvalidName, match="255 is the limit"):
            layout.path(name)


@given(st.data(), layouts)
def test_the_listing_pattern_of_an_item_finds_its_files_in_every_state(data: st.DataObject, layout: Layout) -> None:
    name = data.draw(names(layout.grammar))
    before, _, after = layout.item_pattern(name).partition(f"{name.item.group}{layout.grammar.digits(name.item.number)}")
    assert (before, after) == ("*", "*")
    assert f"{name.item.group}{layout.grammar.digits(name.item.number)}" in layout.path(name)


def test_widths_are_kept_apart() -> None:
    assert PrefixLayout(Grammar(4)).parse("orders_0042.csv") == Name(ITEM, "csv")
    assert PrefixLayout(Grammar(4)).parse("orders_0000000042.csv") is None
