"""What each worker of a crowd takes first: every item falls to exactly one of those who know each other."""

from gateway.handoff.picking import is_out_of_date, ready_in, share_of
from protocol.names import ItemId, Name
from protocol.rules import Rules
from protocol.snapshot import Listed, take_snapshot

OWNERS = [f"host-{number}-abcdef" for number in range(16)]


def tokens(count: int, group: str = "orders_") -> list[Name]:
    return [Name(ItemId(group, number), "manifest.json") for number in range(1, count + 1)]


def test_the_shares_of_a_crowd_are_about_equal_and_are_all_there_is() -> None:
    there = tokens(10_000)
    shares = [share_of(there, owner, OWNERS) for owner in OWNERS]
    assert sorted(name.item for share in shares for name in share) == [name.item for name in there]
    assert all(0.8 < len(share) * len(OWNERS) / len(there) < 1.2 for share in shares)


def test_numbers_that_come_in_steps_are_shared_as_well() -> None:
    """As of two producers that take turns: a remainder of the number itself would give everything to half of the crowd."""
    there = tokens(4000)[::16]
    assert all(share_of(there, owner, OWNERS) for owner in OWNERS)


def test_who_is_alone_or_not_yet_seen_by_itself_has_a_share() -> None:
    there = tokens(100)
    assert share_of(there, OWNERS[0], []) == there
    assert share_of(there, OWNERS[0], OWNERS[1:]) == share_of(there, OWNERS[0], OWNERS)


def test_a_listing_is_out_of_date_when_a_few_percent_of_its_claims_are_lost() -> None:
    assert not is_out_of_date(taken=0, lost=0)
    assert is_out_of_date(taken=0, lost=1)
    assert not is_out_of_date(taken=40, lost=1)
    assert is_out_of_date(taken=79, lost=2)


def test_a_sweeps_look_shows_the_ready_items_group_by_group_in_order() -> None:
    rules = Rules()
    names = [
        f"{mark}{group}{number:010}.{suffix}"
        for mark, group, number in (
            ("", "b_", 2),
            ("", "a_", 10),
            ("", "a_", 9),
            ("A_", "a_", 1),
            ("B_", "b_", 3),
            ("", "c_", 1),
        )
        for suffix in ("csv", "manifest.json")
    ]
    seen = take_snapshot([Listed(name, True, False, 1, None) for name in names], rules)
    found = [(name.item.group, name.item.number, name.suffix) for name in ready_in(seen, rules, ("b_", "a_"))]
    assert found == [("b_", 2, "manifest.json"), ("a_", 9, "manifest.json"), ("a_", 10, "manifest.json")]
