"""Groups whose names a server that folds case would mix up, and how they are known."""

import pytest
from hypothesis import given

from protocol.names import (
    CounterName,
    Grammar,
    ItemId,
    Name,
    OriginName,
    behind_mark,
    rivals,
)
from protocol.states import State
from tests.protocol.strategies import (
    owners,
    prefixes,
    suffixes,
)

G = Grammar()


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        ("orders_", "orders_", False),
        ("orders_", "Orders_", True),
        ("orders_", "order_", False),
        ("orders_", "b_orders_", True),  # B_orders_… is a before image of the one, b_orders_… ready of the other
        ("c_host-1_Orders_", "orders_", True),
        ("a_x_", "b_x_", False),
        ("", "b_", True),
        ("s_orders_", "orders_", True),
    ],
)
def test_groups_that_a_server_which_folds_case_would_mix_up_are_known(first: str, second: str, *, meet: bool) -> None:
    assert rivals(first, second) is meet
    assert rivals(second, first) is meet


@given(prefixes(G), prefixes(G), suffixes, owners)
def test_groups_that_are_no_rivals_share_no_name_where_case_is_folded(one: str, other: str, suffix: str, owner: str) -> None:
    if one == other or rivals(one, other):
        return

    def texts(prefix: str) -> set[str]:
        item = ItemId(prefix, 1)
        states = [Name(item, suffix, s, owner if s is State.CLAIMED else "") for s in State]
        helpers = (G.format_counter(CounterName(prefix, 1)), G.format_origin(OriginName(prefix)))
        return {G.format(name).lower() for name in states} | {text.lower() for text in helpers}

    assert not texts(one) & texts(other)


def test_a_mark_in_lower_case_hides_a_prefix() -> None:
    assert behind_mark("B_orders_".lower()) == "orders_"
    assert behind_mark("c_host-1_orders_") == "orders_"
    assert behind_mark("orders_") is None
