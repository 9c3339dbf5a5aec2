"""The grammar of names: every name is read back as what it was made from, and nothing else is ever taken for one."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidName, SequenceExhausted
from protocol.names import (
    LONGEST_NAME,
    FileKind,
    Grammar,
    ItemId,
    Name,
    SeedName,
    check_owner,
    check_suffix,
    kind_of,
)
from protocol.states import State
from tests.protocol.strategies import (
    RESERVED,
    cuts,
    grammars,
    is_device,
    mutated,
    names,
    owners,
    payload_suffixes,
    prefixes,
    suffixes,
)

G = Grammar()
ITEM = ItemId("orders_", 42)
grammars_with_names = grammars.flatmap(lambda g: st.tuples(st.just(g), names(g)))

EXAMPLES = [
    ("orders_0000000042.csv", Name(ITEM, "csv")),
    ("orders_0000000042.manifest.json", Name(ITEM, "manifest.json")),
    ("orders_0000000042.csv.sha256", Name(ITEM, "csv.sha256")),
    ("B_orders_0000000042.csv", Name(ITEM, "csv", State.BEFORE)),
    ("C_host-1-ab_orders_0000000042.manifest.json", Name(ITEM, "manifest.json", State.CLAIMED, "host-1-ab")),
    ("D_orders_0000000042.manifest.json", Name(ITEM, "manifest.json", State.DONE)),
    ("A_orders_0000000042.csv", Name(ITEM, "csv", State.AFTER)),
    ("A_orders_0000000042+1.csv", Name(ITEM, "csv", State.AFTER, again=1)),
    ("E_orders_0000000042+12.reason.json", Name(ITEM, "reason.json", State.ERROR, again=12)),
    ("0000000042.tar.gz", Name(ItemId("", 42), "tar.gz")),
    ("a.b-c_9999999999.csv", Name(ItemId("a.b-c_", 9999999999), "csv")),
    # A sequence may be followed by a suffix that looks like one; the first cut is the only one whose prefix can be used.
    ("x0000000001.0000000002.csv", Name(ItemId("x", 1), "0000000002.csv")),
    # A claim of the empty prefix: the owner ends at the first "_".
    ("C_o_0000000042.csv", Name(ItemId("", 42), "csv", State.CLAIMED, "o")),
    # "com" is a device only where a single digit follows.
    ("com0000000001.csv", Name(ItemId("com", 1), "csv")),
]


@pytest.mark.parametrize(("text", "name"), EXAMPLES)
def test_the_examples_of_the_protocol_read_as_they_should(text: str, name: Name) -> None:
    assert G.parse(text) == name
    assert G.format(name) == text


FOREIGN = [
    "",
    ".",
    "..",
    "orders_42.csv",  # not at the drop's width
    "orders_00000000042.csv",  # nor is this: the prefix would end in a digit
    "orders_0000000042",
    "orders_0000000042.",
    "orders_0000000042..csv",
    "orders_0000000042.csv.",
    "orders_0000000042.c_v",
    "orders_0000000042.csv\n",
    "\norders_0000000042.csv",
    "orders_0000000042.csv\0",
    "orders_0000000042.csv/",
    "in/orders_0000000042.csv",
    "..\\orders_0000000042.csv",
    "orders_\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0664\u0662.csv",  # digits, but not ASCII's
    "orders_\uff10\uff10\uff10\uff10\uff10\uff10\uff10\uff10\uff14\uff12.csv",
    "orders_0000000042.c\u017fv",
    "ordérs_0000000042.csv",
    "orders_0000000042.csv\ud800",
    "-orders_0000000042.csv",
    "_0000000042.csv",
    ".orders_0000000042.csv",
    "orders_0000000042+1.csv",  # a double is kept of an after or error image only
    "B_orders_0000000042+1.csv",
    "D_orders_0000000042+1.manifest.json",
    "C_o_orders_0000000042+1.manifest.json",
    "A_orders_0000000042+01.csv",
    "A_orders_0000000042+0.csv",
    "A_orders_0000000042+.csv",
    "A_orders_0000000042+1+2.csv",
    "A_orders_0000000042+-1.csv",
    "A_orders_0000000042+\u0661.csv",
    "A_orders_+10000000042.csv",
    "b_orders_0000000042.cs v",
    "C_orders_0000000042.csv.",  # "orders" would be the owner, but for the end
    "C_Owner_orders_0000000042.csv",
    "C__orders_0000000042.csv",
    f"C_{'x' * 33}_orders_0000000042.csv",
    "C_con_orders_0000000042.csv",
    "X_orders_0000000042.csv",
    "F_orders_0000000042.csv",
    "A_A_orders_0000000042.csv",
    "B_C_o_orders_0000000042.csv",
    "con.0000000042.csv",
    "CON.x_0000000042.csv",
    "orders_0000000042.Manifest.json",
    "orders_0000000042.csv.SHA256",
    "orders_0000000042.SHA256",
    "a0000000001.b0000000002+1.csv",
    "CSHOFG~F.CSV",  # how Samba lists a name that Windows cannot have
    "desktop.ini",
    "x" * 245 + "0000000042.csv",
    "S_orders_43.next",
    "S_orders_0000000043.NEXT",
    "S_orders_0000000043.next~",
    "S_orders_ORIGIN",
    "S_orders_seed+",
    "S_orders_seed+o",
    "S_orders_seed+o+",
    "S_orders_seed+O+1",
    "S_orders_seed+o+1+1",
    "S_orders_seed+nul+1",
    "S_con.origin",
    "S_orders1origin",
    "L_.lease.json",
    "L_O.lease.json",
    "L_o.lease.jsonx",
    "L_aux.lease.json",
    "T_",
    "T_../x",
    "T_a/b",
    "T_a\\b",
    "T_a\0",
    "T_a\n",
    "T_a.",
    "T_a ",
    "T_é",
    "T_" + "x" * 254,
]


@pytest.mark.parametrize("text", FOREIGN)
def test_what_is_outside_the_grammar_is_foreign(text: str) -> None:
    assert G.parse(text) is None
    assert G.parse_helper(text) is None


@given(grammars_with_names)
def test_every_name_is_read_back_as_what_it_was_made_from(pair: tuple[Grammar, Name]) -> None:
    grammar, name = pair
    assert grammar.parse(grammar.format(name)) == name


@given(grammars.flatmap(lambda g: st.tuples(st.just(g), names(g), names(g))))
def test_no_two_names_are_one_text(triple: tuple[Grammar, Name, Name]) -> None:
    grammar, one, other = triple
    assert (grammar.format(one) == grammar.format(other)) == (one == other)


@given(grammars.flatmap(lambda g: st.tuples(st.just(g), prefixes(g), suffixes, owners, owners)))
def test_no_two_states_of_an_item_share_a_name_not_even_where_case_is_folded(
    drawn: tuple[Grammar, str, str, str, str],
) -> None:
    grammar, prefix, suffix, one, other = drawn
    item = ItemId(prefix if prefix.lower() not in ("com", "lpt") else "", 1)
    forms = [Name(item, suffix, state) for state in State if state is not State.CLAIMED]
    forms += [Name(item, suffix, State.CLAIMED, owner) for owner in {one, other}]
    forms += [Name(item, suffix, state, again=1) for state in (State.AFTER, State.ERROR)]
    assert len({grammar.format(form).lower() for form in forms}) == len(forms)


def _is_in_the_grammar(text: str, width: int) -> bool:
    """Whether PROTOCOL section 2 has this name, less what docs/protocol.md says is refused beyond it."""
    bare, double = text, False
    if match := re.match(r"C_([a-z0-9-]{1,32})_|[BD]_", text, re.ASCII):
        bare = text[match.end() :]
        if match[1] is not None and is_device(match[1]):
            return False
    elif text[:2] in ("A_", "E_"):
        bare, double = text[2:], True
    found = cuts(bare, width)
    if len(text) > LONGEST_NAME or not found or is_device(bare):
        return False
    prefix, _, again, suffix = found[0]
    reserved = suffix.lower() in RESERVED or suffix.lower().endswith(".sha256")
    written = suffix in ("manifest.json", "reason.json", "receipt.json", "sha256") or suffix.endswith(".sha256")
    return (double or not again) and not ("." in prefix and is_device(prefix)) and (written or not reserved)


def _check_against_the_grammar(grammar: Grammar, text: str) -> None:
    parsed = grammar.parse(text)
    assert isinstance(parsed, Name) == _is_in_the_grammar(text, grammar.width)
    if isinstance(parsed, Name):
        assert grammar.format(parsed) == text
    elif parsed is not None:
        assert re.fullmatch(r"[LST]_[A-Za-z0-9._+-]+", text, re.ASCII)


@given(grammars_with_names.flatmap(lambda pair: st.tuples(st.just(pair[0]), mutated(pair[0].format(pair[1])))))
def test_a_changed_name_is_another_name_or_foreign(pair: tuple[Grammar, str]) -> None:
    _check_against_the_grammar(*pair)


@given(grammars, st.one_of(st.text(max_size=40), st.text("aB_C.+-019é\0/", max_size=24), st.binary(max_size=24).map(repr)))
def test_random_text_is_foreign_unless_the_grammar_has_it(grammar: Grammar, text: str) -> None:
    _check_against_the_grammar(grammar, text)


@given(grammars, st.text("a0_.-Z1", max_size=16))
def test_a_prefix_is_taken_exactly_where_its_names_can_be_cut_in_one_way(grammar: Grammar, prefix: str) -> None:
    first = cuts(f"{prefix}{grammar.largest}.csv", grammar.width)
    if first and first[0][0] == prefix:
        assert grammar.check_prefix(prefix) == prefix
    else:
        with pytest.raises(InvalidName):
            grammar.check_prefix(prefix)


@pytest.mark.parametrize(
    "prefix",
    ["1", "a1", "_a", "-a", ".a", "A_", "A_x", "Z_a_", "a b", "a/", "a\\", "a\0", "a\n", "é", "a+", "con.", "NUL.a_"],
)
def test_a_prefix_that_could_be_misread_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidName, match="group prefix"):
        G.check_prefix(prefix)


@pytest.mark.parametrize("prefix", ["0000000001.b", "x0000000001.b.", "a-9999999999.a.b"])
def test_a_prefix_that_can_be_cut_in_two_ways_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidName, match="reads like a sequence number"):
        G.check_prefix(prefix)
    assert Grammar(18).check_prefix(prefix) == prefix  # at this width there is no second way


def test_a_prefix_that_holds_digits_where_no_suffix_could_begin_is_taken() -> None:
    assert G.parse("x0000000001.b_0000000002.csv") == Name(ItemId("x0000000001.b_", 2), "csv")


@given(st.lists(st.integers(0, G.largest), max_size=20))
def test_order_is_by_value_and_ls_shows_the_same(numbers: list[int]) -> None:
    items = [ItemId("orders_", number) for number in numbers]
    assert [item.number for item in sorted(items)] == sorted(numbers)
    texts = [G.format(Name(item, "csv")) for item in items]
    assert sorted(texts) == [G.format(Name(item, "csv")) for item in sorted(items)]


def test_order_is_by_group_then_number() -> None:
    assert sorted([ItemId("b_", 1), ItemId("a_", 10), ItemId("a_", 9)]) == [ItemId("a_", 9), ItemId("a_", 10), ItemId("b_", 1)]


@pytest.mark.parametrize("number", [-1, 10_000_000_000])
def test_a_number_that_does_not_fit_its_width_is_refused(number: int) -> None:
    with pytest.raises(SequenceExhausted, match="begin a new group prefix"):
        G.format(Name(ItemId("orders_", number), "csv"))


@pytest.mark.parametrize("width", [0, 19, -1])
def test_a_width_is_between_1_and_18(width: int) -> None:
    with pytest.raises(InvalidName, match="width"):
        Grammar(width)


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [
        ("csv", FileKind.PAYLOAD),
        ("manifest.json", FileKind.MANIFEST),
        ("sha256", FileKind.CHECKSUM),
        ("csv.sha256", FileKind.CHECKSUM),
        ("reason.json", FileKind.REASON),
        ("receipt.json", FileKind.RECEIPT),
        ("x.manifest.json", FileKind.PAYLOAD),
        ("sha256.gz", FileKind.PAYLOAD),
    ],
)
def test_the_suffix_says_what_a_file_is_for(suffix: str, kind: FileKind) -> None:
    assert kind_of(suffix) is kind
    assert Name(ITEM, suffix).kind is kind


@given(payload_suffixes)
def test_a_payload_may_have_any_suffix_that_is_not_reserved(suffix: str) -> None:
    assert check_suffix(suffix) == suffix


@pytest.mark.parametrize(
    "suffix",
    ["", ".", "a.", ".a", "a..b", "a b", "a/b", "a+1", "é", "a\n", "csv.sha256", "SHA256", "Manifest.JSON", "reason.json"],
)
def test_a_suffix_outside_the_grammar_or_reserved_in_any_case_is_refused(suffix: str) -> None:
    with pytest.raises(InvalidName, match="suffix"):
        check_suffix(suffix)


@pytest.mark.parametrize("owner", ["", "x" * 33, "A", "a_b", "a.b", "a/b", "..", "a\n", "é", "con", "lpt1"])
def test_an_owner_outside_the_grammar_is_refused(owner: str) -> None:
    with pytest.raises(InvalidName, match="owner"):
        check_owner(owner)


@pytest.mark.parametrize(
    "name",
    [
        Name(ITEM, "csv", State.READY, "o"),
        Name(ITEM, "csv", State.AFTER, "o"),
        Name(ITEM, "csv", State.CLAIMED),
        Name(ITEM, "csv", again=1),
        Name(ITEM, "csv", State.DONE, again=1),
        Name(ITEM, "csv", State.AFTER, again=-1),
        Name(ItemId("A_", 1), "csv"),
        Name(ITEM, "c sv"),
        Name(ITEM, "MANIFEST.json"),
        Name(ItemId("x" * 240, 1), "csv", State.BEFORE),
    ],
)
def test_what_the_grammar_has_no_name_for_is_not_written(name: Name) -> None:
    with pytest.raises(InvalidName):
        G.format(name)


@given(grammars, st.integers(0, 255), st.integers(1, 60))
def test_a_prefix_that_fits_keeps_every_name_of_its_items_within_the_limit(grammar: Grammar, length: int, suffix: int) -> None:
    prefix, longest = "x" * length, "y" * suffix
    claim = f"C_{'o' * 32}_{prefix}{grammar.largest}." + max("manifest.json", f"{longest}.sha256", key=len)
    if len(claim) > LONGEST_NAME:
        with pytest.raises(InvalidName, match="255 is the limit"):
            grammar.check_fits(prefix, longest)
        return
    grammar.check_fits(prefix, longest)
    item = ItemId(prefix, grammar.largest)
    for state in State:
        owner = "o" * 32 if state is State.CLAIMED else ""
        again = 9999 if state in (State.AFTER, State.ERROR) else 0
        for one in (longest, "manifest.json", "reason.json", f"{longest}.sha256"):
            grammar.format(Name(item, one, state, owner, again))
    seed = grammar.format_seed(SeedName(prefix, "o" * 32, "z" * 10))
    assert len(f"T_{seed[2:]}") <= LONGEST_NAME
    assert grammar.parse_helper(f"T_{seed[2:]}") is not None


def test_names_are_made_of_what_every_file_system_takes() -> None:
    allowed = set(string.ascii_letters + string.digits + "._-+")
    assert {character for text, _ in EXAMPLES for character in text} <= allowed
