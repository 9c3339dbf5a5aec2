"""Names that belong to no item: counter, origin, seed, lease and scratch never meet each other, an item or another group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidName
from protocol.names import (
    CounterName,
    Grammar,
    LeaseName,
    OriginName,
    ScratchName,
    SeedName,
)
from tests.protocol.strategies import (
    grammars,
    owners,
    prefixes,
)

G = Grammar()


@given(
    grammars.flatmap(lambda g: st.tuples(st.just(g), prefixes(g), owners, st.integers(0, g.largest))),
    st.from_regex(r"\A[0-9a-z]{1,10}\Z"),
)
def test_helpers_are_read_back_and_never_meet_each_other_or_an_item(drawn: tuple[Grammar, str, str, int], attempt: str) -> None:
    grammar, prefix, owner, number = drawn
    helpers = {
        CounterName(prefix, number): grammar.format_counter(CounterName(prefix, number)),
        OriginName(prefix): grammar.format_origin(OriginName(prefix)),
        SeedName(prefix, owner, attempt): grammar.format_seed(SeedName(prefix, owner, attempt)),
        LeaseName(owner): grammar.format_lease(LeaseName(owner)),
    }
    assert len({text.lower() for text in helpers.values()}) == len(helpers)
    for helper, text in helpers.items():
        assert grammar.parse_helper(text) == helper
        assert grammar.parse(text) == helper  # so it is no item's


@given(grammars.flatmap(lambda g: st.tuples(st.just(g), prefixes(g), prefixes(g), st.integers(0, g.largest))))
def test_two_groups_never_share_a_helper(drawn: tuple[Grammar, str, str, int]) -> None:
    grammar, one, other, number = drawn
    if one != other:
        mine = {grammar.format_counter(CounterName(one, number)), grammar.format_origin(OriginName(one))}
        mine.add(grammar.format_seed(SeedName(one, "o", "1")))
        others = {grammar.format_counter(CounterName(other, number)), grammar.format_origin(OriginName(other))}
        others.add(grammar.format_seed(SeedName(other, "o", "1")))
        assert not mine & others


@pytest.mark.parametrize(
    ("text", "helper"),
    [
        ("L_host-1-ab.lease.json", LeaseName("host-1-ab")),
        ("S_orders_0000000043.next", CounterName("orders_", 43)),
        ("S_0000000043.next", CounterName("", 43)),
        ("S_orders_origin", OriginName("orders_")),
        ("S_origin", OriginName("")),
        ("S_originorigin", OriginName("origin")),
        ("S_orders_seed+host-1-ab+2k9", SeedName("orders_", "host-1-ab", "2k9")),
        ("S_seed+o+1", SeedName("", "o", "1")),
        ("S_seedseed+o+1", SeedName("seed", "o", "1")),
        ("T_1f.probe", ScratchName("T_1f.probe")),
        ("T_orders_seed+o+1", ScratchName("T_orders_seed+o+1")),
    ],
)
def test_the_helpers_read_as_they_should(text: str, helper: object) -> None:
    assert G.parse(text) == helper


@pytest.mark.parametrize("attempt", ["", "A", "1-2", "x" * 11, "\u0663"])
def test_a_seed_that_could_not_be_read_back_is_not_written(attempt: str) -> None:
    with pytest.raises(InvalidName):
        G.format_seed(SeedName("orders_", "o", attempt))
