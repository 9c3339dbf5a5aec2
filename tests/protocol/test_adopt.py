"""Looking before repeating: who forwards an item a second time finds it published, finishes it, or is told whose it is."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from protocol.errors import SequenceTaken
from protocol.names import Name
from protocol.operations import Procedure
from protocol.procedures.adopt import Found, adopt
from protocol.procedures.claim import claim, prepare_owner
from protocol.procedures.finish import Reason, complete, fail, payload_names
from protocol.procedures.publish import publish
from protocol.rules import Rules, Signal
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.drops import ITEM, KINDS, check_all_complete, contents, draft, found, hashes, in_public, tokens
from tests.protocol.process import Process, cut_everywhere, run

kinds = pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
WHY = Reason("HandlerFailed", "no", 1, "h", "o")


def ours(rules: Rules, there: Directory, key: str | None = "invoice 7", content: bytes = b"a;b\n1;2\n") -> Found:
    return run(there, adopt(rules, ITEM, key, hashes(draft(rules, content))))


def published(rules: Rules) -> Directory:
    there = Directory(rules)
    run(there, publish(rules, draft(rules), ITEM.number, given=True))
    return there


def moved(there: Directory, state: State) -> Directory:
    """The item in a later state."""
    rules = there.rules
    if state is State.READY:
        return there
    run(there, prepare_owner(rules, "o"))
    claimed = run(there, claim(rules, tokens(there)[0], "o"))
    assert isinstance(claimed, Name)
    if state is State.AFTER:
        run(there, complete(rules, claimed, payload_names(found(there))))
    if state is State.ERROR:
        run(there, fail(rules, claimed, payload_names(found(there)), WHY))
    return there


@kinds
def test_an_empty_place_is_free(rules: Rules) -> None:
    assert ours(rules, Directory(rules)) is Found.NOTHING


@kinds
@pytest.mark.parametrize("state", [State.READY, State.CLAIMED, State.AFTER, State.ERROR])
def test_what_we_published_is_known_in_whatever_state_it_is(rules: Rules, state: State) -> None:
    there = moved(published(rules), state)
    before = there.ls()
    assert ours(rules, there) is Found.PUBLISHED
    assert there.ls() == before


@kinds
@pytest.mark.parametrize("state", [State.READY, State.CLAIMED, State.AFTER, State.ERROR])
def test_a_number_of_somebody_elses_is_refused_and_left_alone(rules: Rules, state: State) -> None:
    there = moved(published(rules), state)
    before = there.ls()
    with pytest.raises(SequenceTaken, match="in use at the destination"):
        ours(rules, there, key="invoice 8", content=b"another")
    assert there.ls() == before


def test_the_key_decides_where_there_is_one() -> None:
    rules = KINDS["prefix-manifest"]
    there = published(rules)
    assert ours(rules, there, content=b"the source has changed since") is Found.PUBLISHED
    with pytest.raises(SequenceTaken):
        ours(rules, there, key="invoice 8")


@kinds
def test_the_hashes_decide_where_there_is_no_key(rules: Rules) -> None:
    there = published(rules)
    assert ours(rules, there, key=None) is Found.PUBLISHED
    with pytest.raises(SequenceTaken):
        ours(rules, there, key=None, content=b"another")


@kinds
def test_a_publication_that_was_cut_is_finished_or_repeated_and_never_doubled(rules: Rules) -> None:
    def make() -> tuple[Directory, Procedure[Any]]:
        there = Directory(rules)
        return there, publish(rules, draft(rules), ITEM.number, given=True)

    seen = set()
    for there in cut_everywhere(make):
        result = ours(rules, there)
        seen.add(result)
        if result is Found.UNFINISHED:
            assert states(there) == {State.BEFORE}
            for path in there.ls():
                del there.files[path]  # whoever wrote them is known to be gone
        if result is not Found.PUBLISHED:
            run(there, publish(rules, draft(rules), ITEM.number, given=True))
        assert len(in_public(there)) == 1
        assert states(there) == {State.READY}
        check_all_complete(there, contents(draft(rules)))
    assert seen >= {Found.NOTHING, Found.UNFINISHED}
    assert (Found.PUBLISHED in seen) == (rules.signal is not Signal.NONE)


def states(there: Directory) -> set[State]:
    return {name.state for name in found(there)}


@kinds
def test_a_forwarder_who_only_slept_and_one_who_takes_over_publish_once(rules: Rules) -> None:
    for seed in range(30):
        chance = Random(seed)  # noqa: S311 - a schedule, no secret
        there = Directory(rules)
        sleeper = Process(there, publish(rules, draft(rules), ITEM.number, given=True))
        for _ in range(chance.randrange(20)):
            sleeper.step()
        successor = Process(there, _forward(rules))
        while alive := [process for process in (sleeper, successor) if process.alive]:
            chance.choice(alive).step()
        assert len(in_public(there)) <= 1
        assert len([name for name in found(there) if name.suffix == "csv"]) <= 1
        done = [process for process in (sleeper, successor) if process.done]
        if done:
            assert len(in_public(there)) == 1
            check_all_complete(there, contents(draft(rules)))


async def _forward(rules: Rules) -> None:
    if await adopt(rules, ITEM, "invoice 7", hashes(draft(rules))) is not Found.PUBLISHED:
        await publish(rules, draft(rules), ITEM.number, given=True)


@kinds
def test_a_consumer_who_moves_the_item_while_we_look_is_no_reason_to_give_up(rules: Rules) -> None:
    for number in range(1, 25):
        there = published(rules)
        run(there, prepare_owner(rules, "o"))
        process = Process(there, adopt(rules, ITEM, "invoice 7", hashes(draft(rules))))

        def consume(at: int, _operation: object, there: Directory = there, when: int = number) -> None:
            if at == when and tokens(there)[0].state is State.READY:
                moved(there, State.AFTER)

        process.before = consume
        assert process.run() is Found.PUBLISHED
        if process.number < number:
            return


@kinds
def test_a_half_written_token_is_nobodys_yet(rules: Rules) -> None:
    there = Directory(rules)
    for suffix in ("csv", rules.token_suffix("csv")):
        there.put(rules.layout.path(Name(ITEM, suffix, State.BEFORE)), b"{")
    assert ours(rules, there) is Found.UNFINISHED


def test_a_published_token_that_is_no_manifest_is_somebody_elses() -> None:
    rules = KINDS["prefix-manifest"]
    there = Directory(rules)
    there.put("orders_0000000042.manifest.json", b"{")
    with pytest.raises(SequenceTaken):
        ours(rules, there)


@kinds
def test_a_payload_without_its_token_is_refused(rules: Rules) -> None:
    if rules.signal is Signal.NONE:
        return  # the payload is the token
    there = Directory(rules)
    there.put(rules.layout.path(Name(ITEM, "csv")))
    with pytest.raises(SequenceTaken, match="in use at the destination: "):
        ours(rules, there)


def test_doubles_of_earlier_items_do_not_count() -> None:
    rules = KINDS["prefix-manifest"]
    there = Directory(rules)
    there.put(rules.layout.path(replace(Name(ITEM, "csv", State.AFTER), again=1)))
    assert ours(rules, there) is Found.NOTHING
