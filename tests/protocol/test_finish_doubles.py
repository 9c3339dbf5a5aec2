"""Doubles: a number that came twice keeps both images and both reasons, and nothing is ever overwritten."""

import json
from dataclasses import replace

import pytest

from protocol.errors import Anomaly
from protocol.names import FileKind, Name
from protocol.operations import Procedure
from protocol.procedures.claim import claim
from protocol.procedures.finish import (
    PutAway,
    fail,
    put_away,
)
from protocol.rules import Rules
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.drops import ITEM, found, tokens
from tests.protocol.process import Process, cut_everywhere, run
from tests.protocol.ways_out import (
    MANIFESTS,
    NONE,
    REASON,
    after_images,
    completing,
    failing,
    hand_out,
    kinds,
    payloads,
    states,
    with_token,
)

# Doubles.


def with_old_after_image(rules: Rules) -> tuple[Directory, Name]:
    """The number was used before, for other content, and is claimed again."""
    there, name = hand_out(rules)
    run(there, completing(rules, name))
    return hand_out(rules, there, b"another content")


@kinds
def test_a_number_that_came_twice_keeps_both_images(rules: Rules) -> None:
    there, name = with_old_after_image(rules)
    old = {path: there[path] for path in after_images(rules)}
    away = run(there, completing(rules, name))
    assert {path: there[path] for path in after_images(rules)} == old
    doubles = [name for name in found(there) if name.again]
    assert {name.again for name in doubles} == {1}
    assert len(doubles) == len(old)
    assert away.token == rules.layout.path(Name(ITEM, rules.token_suffix("csv"), State.AFTER, again=1))
    assert there[rules.layout.path(Name(ITEM, "csv", State.AFTER, again=1))] == b"another content"


def test_the_doubles_are_named_as_in_the_protocol() -> None:
    there, name = with_old_after_image(MANIFESTS)
    run(there, completing(MANIFESTS, name))
    there, name = hand_out(MANIFESTS, there, b"a third")
    run(there, completing(MANIFESTS, name))
    assert [path for path in there.ls() if "+" in path] == [
        "A_orders_0000000042+1.csv",
        "A_orders_0000000042+1.manifest.json",
        "A_orders_0000000042+1.tar.gz",
        "A_orders_0000000042+2.csv",
        "A_orders_0000000042+2.manifest.json",
        "A_orders_0000000042+2.tar.gz",
    ]


@with_token
def test_a_double_that_was_cut_is_finished_beside_what_is_there(rules: Rules) -> None:
    def make() -> tuple[Directory, Procedure[PutAway]]:
        there, name = with_old_after_image(rules)
        return there, completing(rules, name)

    for there in cut_everywhere(make):
        for current in [name for name in tokens(there) if name.state in (State.CLAIMED, State.DONE)]:
            claimed = current.state is State.CLAIMED
            run(there, completing(rules, current) if claimed else put_away(rules, current, payloads(rules)))
        assert states(there) == {State.AFTER}
        contents_there = {there[path] for path in there.ls() if path.endswith("csv")}
        assert contents_there == {b"a;b\n1;2\n", b"another content"}
        assert len(there.ls()) == 2 * len(after_images(rules))


@kinds
def test_a_second_failure_keeps_both_images_and_both_reasons(rules: Rules) -> None:
    there, name = hand_out(rules)
    run(there, failing(rules, name))
    there, name = hand_out(rules, there, b"another content")
    run(there, fail(rules, name, payloads(rules), replace(REASON, error="another")))
    reasons = [json.loads(there[path])["error"] for path in there.ls() if path.endswith("reason.json")]
    assert sorted(reasons) == ["another", "exit status 1"]
    assert {name.again for name in found(there)} == {0, 1}
    assert states(there) == {State.ERROR}


@with_token
def test_a_reason_that_an_operator_left_behind_is_not_taken_for_the_new_one(rules: Rules) -> None:
    there, name = hand_out(rules)
    run(there, failing(rules, name))
    for image in found(there):
        if image.kind is not FileKind.REASON:
            there.files[rules.layout.path(replace(image, state=State.READY))] = there.files.pop(rules.layout.path(image))
    (token,) = [image for image in tokens(there) if image.state is State.READY]
    again = run(there, claim(rules, token, "o"))
    assert isinstance(again, Name)
    process = Process(there, fail(rules, again, payloads(rules), replace(REASON, error="another")))
    while tokens(there)[0].state is State.CLAIMED:
        process.step()
    # Cut right here, nobody may believe that the item is put away.
    error = tokens(there)[0]
    assert rules.layout.path(replace(error, suffix="reason.json")) not in there.files
    while process.step():
        pass
    assert json.loads(there[rules.layout.path(replace(error, suffix="reason.json"))])["error"] == "another"


def test_a_number_that_is_used_again_and_again_is_told() -> None:
    there, name = hand_out(NONE)
    for double in range(1000):
        there.put(NONE.layout.path(Name(ITEM, "csv", State.AFTER, again=double)), b"%d" % double)
    with pytest.raises(Anomaly, match="one number again and again"):
        run(there, completing(NONE, name))
    assert name in tokens(there)


def test_equal_bytes_under_an_after_name_are_one_image() -> None:
    # The name was taken by the same bytes: the same file, as far as anybody can tell, left over by a cut rename.
    there, name = hand_out(MANIFESTS)
    there.put("A_orders_0000000042.csv", there["orders_0000000042.csv"])
    run(there, completing(MANIFESTS, name))
    assert there.ls() == after_images(MANIFESTS)
