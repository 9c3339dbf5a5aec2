"""Who waits for an item's receipt outlasts a server that is away, and tells what is known."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.drop import Drop, Outgoing
from gateway.handoff.awaiting import Awaiting, Fate
from gateway.handoff.connection import Patience
from protocol.procedures.publish import Published
from protocol.states import State
from testenv.proxy import Proxy
from tests.crash.conftest import make_place
from tests.crash.place import GROUP
from tests.service.receipt_tools import consume, with_receipts


@pytest.mark.parametrize("kind", ["sftp", "smb"])
def test_a_server_that_is_away_meanwhile_is_waited_for(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    place = make_place(request, kind)
    assert place.server is not None
    rules = replace(place.rules, receipts=True)
    near = Drop(place.endpoint, rules)
    with Proxy("127.0.0.1", place.server.port) as proxy:
        far = Drop(place.through(proxy.port).endpoint, rules)
        troubles: list[str] = []
        away, fates = threading.Event(), list[Fate]()

        def trouble(text: str) -> None:
            troubles.append(text)
            away.set()

        with far.producer(Patience(attempts=1)) as producer:
            (tmp_path / "a.csv").write_text("a;b\n")
            published = producer.send([Outgoing(tmp_path / "a.csv")], group=GROUP)
            awaiting = Awaiting(producer.driver, rules, trouble)
            waiting = threading.Thread(target=lambda: fates.append(awaiting.wait(published, None)))
            proxy.refuse()
            waiting.start()
            assert away.wait(60)
            consume(near, tmp_path)
            proxy.heal()
            waiting.join(60)
        (fate,) = fates
    assert (fate.over, fate.outcome, fate.text, len(troubles)) == (True, "processed", "booked as csv", 1)


def _look_once(drop: Drop, published: Published) -> Fate:
    with drop.producer() as producer:
        return Awaiting(producer.driver, drop.rules, lambda text: None).wait(published, producer.driver.clock.monotonic())


@pytest.mark.parametrize("receipts", [False, True], ids=["images", "receipts"])
def test_what_is_archived_before_it_was_seen_is_known_to_be_over(tmp_path: Path, receipts: bool) -> None:
    """The archive says so, with the receipt where there is one; and what is gone without a trace is said to be gone."""
    place = tmp_path / "drop"
    place.mkdir()
    drop = with_receipts(place, receipts=receipts)
    (tmp_path / "a.csv").write_text("a;b\n")
    with drop.producer() as producer:
        published = producer.send([Outgoing(tmp_path / "a.csv")], group=GROUP)
    assert _look_once(drop, published) == Fate(over=False, state=State.READY)
    consume(drop, tmp_path)
    fate = _look_once(drop, published)
    assert (fate.over, fate.state, fate.text) == (True, State.AFTER, "booked as csv" if receipts else "")
    day = place / "archive" / "2026-11-30"
    day.mkdir(parents=True)
    for path in place.glob("A_*"):
        path.rename(day / path.name)
    assert _look_once(drop, published) == fate
    for path in day.iterdir():
        path.unlink()
    assert _look_once(drop, published) == Fate(over=False, state=None)
