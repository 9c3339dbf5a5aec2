"""The three ways out of a claim: fenced by the claim's own name, finished by anybody, and nothing is ever overwritten."""

import json
from dataclasses import replace

import pytest

from protocol.errors import Anomaly, StillBusy
from protocol.names import ItemId, Name
from protocol.operations import Claim, Stat
from protocol.procedures.finish import (
    PutAway,
    complete,
    fail,
    payload_names,
    put_away,
    put_away_error,
)
from protocol.rules import Rules
from protocol.states import State
from tests.protocol.drops import ITEM, check_all_complete, contents, draft, tokens
from tests.protocol.process import Process, run
from tests.protocol.ways_out import (
    ENDS,
    MANIFESTS,
    NONE,
    REASON,
    Way,
    after_images,
    completing,
    failing,
    hand_out,
    kinds,
    payloads,
    releasing,
    states,
    ways,
    with_token,
)


@kinds
@ways
def test_each_way_out_ends_in_its_state(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    run(there, way(rules, name))
    assert states(there) == {ENDS[way]}
    check_all_complete(there, contents(draft(rules)))


def test_ls_shows_the_images_of_the_protocol() -> None:
    there, name = hand_out(MANIFESTS)
    assert run(there, completing(MANIFESTS, name)) == PutAway("A_orders_0000000042.manifest.json")
    assert there.ls() == [
        "A_orders_0000000042.csv",
        "A_orders_0000000042.manifest.json",
        "A_orders_0000000042.tar.gz",
    ]
    there, name = hand_out(MANIFESTS)
    assert run(there, failing(MANIFESTS, name)) == PutAway("E_orders_0000000042.manifest.json")
    assert there.ls() == [
        "E_orders_0000000042.csv",
        "E_orders_0000000042.manifest.json",
        "E_orders_0000000042.reason.json",
        "E_orders_0000000042.tar.gz",
    ]


def test_completing_without_a_signal_is_one_rename() -> None:
    there, name = hand_out(NONE)
    run(there, completing(NONE, name))
    assert there.renames == [("C_o_orders_0000000042.csv", "A_orders_0000000042.csv")]


@with_token
@pytest.mark.parametrize("way", [completing, failing])
def test_the_token_goes_first_and_the_rest_follows(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    run(there, way(rules, name))
    first, *_ = there.renames
    assert first[0] == rules.layout.path(name)
    if way is completing:
        # The token is the last as well: as long as it is D_, something is still to be put away.
        assert there.renames[-1][0] == rules.layout.path(replace(name, state=State.DONE, owner=""))


def test_the_reason_says_what_a_person_needs() -> None:
    there, name = hand_out(MANIFESTS)
    run(there, failing(MANIFESTS, name))
    assert json.loads(there["E_orders_0000000042.reason.json"]) == {
        "item": "orders_0000000042.manifest.json",
        "error": "exit status 1",
        "kind": "HandlerFailed",
        "attempts": 5,
        "host": "host-1",
        "owner": "o",
        "time": "2026-11-30T15:01:02.123456Z",
    }


def test_a_reason_is_written_whatever_bytes_its_error_quotes() -> None:
    there, name = hand_out(MANIFESTS)
    run(there, fail(MANIFESTS, name, payloads(MANIFESTS), replace(REASON, error="cannot read M\udce4rz.csv")))
    assert json.loads(there["E_orders_0000000042.reason.json"])["error"] == "cannot read M\\udce4rz.csv"


# Names in the way.


@pytest.mark.parametrize(
    ("way", "path"), [(completing, "D_orders_0000000042.manifest.json"), (releasing, "orders_0000000042.manifest.json")]
)
def test_a_name_that_another_item_of_the_number_has_is_never_taken_over(way: Way, path: str) -> None:
    there, name = hand_out(MANIFESTS)
    there.put(path, b"another item's")
    with pytest.raises(Anomaly, match="is taken"):
        run(there, way(MANIFESTS, name))
    assert there[path] == b"another item's"
    assert name in tokens(there)


# Open files.


@with_token
@pytest.mark.parametrize("way", [completing, failing])
def test_a_payload_that_somebody_has_open_is_left_for_later(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    held = rules.layout.path(Name(ITEM, "csv"))
    there.held[held] = -1
    away = run(there, way(rules, name))
    assert away.left == (held,)
    (token,) = tokens(there)
    assert token.state is (State.DONE if way is completing else State.ERROR)
    assert not any(path.endswith("reason.json") for path in there.ls())
    there.held.clear()
    if way is completing:
        assert run(there, put_away(rules, token, payloads(rules))).left == ()
    else:
        assert run(there, put_away_error(rules, token, payloads(rules), REASON)).left == ()
    assert states(there) == {ENDS[way]}


@with_token
def test_several_open_payloads_are_waited_for_once(rules: Rules) -> None:
    def waited(*held: str) -> float:
        there, name = hand_out(rules)
        for suffix in held:
            there.held[rules.layout.path(Name(ITEM, suffix))] = -1
        begun = there.clock
        assert len(run(there, completing(rules, name)).left) == len(held)
        return there.clock - begun

    assert waited("csv", "tar.gz") - waited("csv") < 1 < rules.busy_patience <= waited("csv")


@kinds
@ways
def test_a_token_that_somebody_has_open_stays_claimed_and_can_be_tried_again(rules: Rules, way: Way) -> None:
    there, name = hand_out(rules)
    there.held[rules.layout.path(name)] = -1
    before = there.ls()
    with pytest.raises(StillBusy, match="stays claimed"):
        run(there, way(rules, name))
    assert there.ls() == before
    there.held.clear()
    run(there, way(rules, name))
    assert states(there) == {ENDS[way]}


@with_token
def test_an_open_done_token_is_left_for_later(rules: Rules) -> None:
    there, name = hand_out(rules)
    done = rules.layout.path(replace(name, state=State.DONE, owner=""))
    there.held[done] = -1
    away = run(there, completing(rules, name))
    assert away.left == (done,)
    assert tokens(there)[0].state is State.DONE


# What to put away.


def test_payloads_are_known_from_names_where_no_token_can_say_it() -> None:
    names = [
        Name(ITEM, "csv", State.AFTER, again=1),
        Name(ITEM, "csv"),
        Name(ITEM, "xml", State.BEFORE),
        Name(ITEM, "manifest.json", State.CLAIMED, "o"),
        Name(ITEM, "reason.json", State.ERROR),
    ]
    assert payload_names(names) == [Name(ITEM, "csv"), Name(ITEM, "xml")]


@with_token
def test_payloads_may_be_named_in_any_state(rules: Rules) -> None:
    there, name = hand_out(rules)
    named = [replace(payload, state=State.CLAIMED, owner="o") for payload in payloads(rules)]
    run(there, complete(rules, name, named))
    assert there.ls() == after_images(rules)


def test_an_item_of_another_number_is_not_touched() -> None:
    there, name = hand_out(MANIFESTS)
    other = MANIFESTS.layout.path(Name(ItemId("orders_", 43), "csv"))
    there.put(other)
    run(there, completing(MANIFESTS, name))
    assert other in there.files


def test_the_fence_looks_before_it_renames_as_a_claim_may_replace() -> None:
    there, name = hand_out(MANIFESTS)
    asked: list[type] = []
    process = Process(there, completing(MANIFESTS, name), before=lambda _number, operation: asked.append(type(operation)))
    process.run()
    assert asked[:2] == [Stat, Claim]
