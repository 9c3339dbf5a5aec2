"""Alarms over restarts and kills: neither repeated nor forgotten."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.service.board import RouteState
from gateway.service_sections import ExpectSettings
from tests.service.alarm_service import ERRORS, KEY, SECRET, Service, answers_after, hangs_until, running
from tests.service.alarm_tools import (
    HOUR,
    NOON,
    drop_view,
    eventually,
    iso,
    item,
    receiver,
    route_view,
    snapshot_of,
    state_of,
)


def test_a_restart_neither_repeats_nor_forgets(services: Callable[..., Service]) -> None:
    with receiver() as there:
        service = running(services(webhook=there.url))
        service.see(item(1, "E_"))
        eventually(lambda: len(there.posts) == 1)
        for _ in range(3):
            service.restart()
            running(service)
            # The board knows nothing yet, for a while.
            for _ in range(5):
                service.hand.move(20)
                assert service.round() == [ERRORS]
            service.board.set_drop(drop_view(None, looked_at="", server_time=None))
            for _ in range(20):
                service.hand.move(60)
                assert service.round() == [ERRORS]
            assert service.pass_by(HOUR, item(1, "E_")) == [ERRORS]
        assert len(there.posts) == 1
        service.restart()
        running(service)
        assert service.pass_by(HOUR) == []
        eventually(lambda: there.told() == [("fired", ERRORS), ("cleared", ERRORS)])


ON = [
    "away:inbox",
    "before:outbox:orders_",
    "clock:sftp://files.example",
    "errors:outbox:orders_",
    "expect:outbox:bills_:1 every 15m",
    "failed:outbox -> inbox",
    "gap:outbox:orders_",
    "ready:outbox:orders_",
    "space:outbox",
]


def test_no_kind_of_alarm_is_repeated_or_forgotten_by_a_restart(services: Callable[..., Service]) -> None:
    service = services()
    service.expectations = [ExpectSettings(drop="outbox", group="bills_", every="15m")]
    service.restart()

    def everything(**measured: Any) -> list[str]:
        files = (item(1, "A_"), item(3, at=NOON), item(4, "E_"), item(9, "B_", at=NOON))
        route = route_view(ordering="strict", state=RouteState.FAILED, trouble="login refused")
        service.board.add_route(route)
        service.board.set_drop(
            drop_view(None, 0, "inbox", place="file:///srv/in", trouble="Connection refused", away_since=service.clock.utc())
        )
        return sorted(service.see(*files, **{"free_space": 1, "clock_offset": 9e6} | measured))

    for _ in range(40):
        service.hand.move(240)
        everything()
    # Each look said anew since when the endpoint is away, as if it had come back in between.
    assert everything() == ON
    for _ in range(3):
        service.restart()
        fired: list[str] = []
        for step in range(40):
            service.hand.move(7)
            before = {alarm.id for alarm in service.alarms.current()}
            if step < 3:
                found = service.round()  # the board knows nothing yet
            elif step < 15:
                found = everything(free_space=None, clock_offset=None, server_time=None)  # nor of the server's clock
            else:
                found = everything()
            fired += set(found) - before
            assert sorted(found) == ON, step
        assert fired == []


def test_what_is_removed_from_the_configuration_is_cleared(services: Callable[..., Service]) -> None:
    service = services()
    service.see(item(1, "E_"))
    service.board.remove_drop("outbox")
    for _ in range(10):
        service.hand.move(60)
        service.round()
    assert service.alarms.current() == ()


def test_what_cannot_be_seen_stays_as_it_was(services: Callable[..., Service]) -> None:
    service = services()
    service.see(item(1, "E_"))
    service.board.set_drop(
        drop_view(snapshot_of(), service.hand.now, trouble="Connection refused", away_since=iso(service.hand.now))
    )
    for _ in range(10):
        service.hand.move(60)
        assert ERRORS in service.round()
    assert service.pass_by(HOUR) == []


PROGRAM = """
import sys, time
from pathlib import Path
from gateway.handoff.clock import Clock
from gateway.service.alarms import Alarms
from gateway.service.board import Board
from gateway.service_sections import AlarmsSettings
from tests.service.alarm_tools import drop_view, item, snapshot_of

clock = Clock()
board = Board(clock.utc)
settings = AlarmsSettings.model_validate({"webhook": sys.argv[2], "webhook_secret": sys.argv[3]})
alarms = Alarms(settings, [], board, clock, Path(sys.argv[1]), "shop")
board.set_drop(drop_view(snapshot_of(item(1, "E_")), time.time()))
alarms.start()
print("started", flush=True)
time.sleep(300)
"""


def test_a_kill_between_firing_and_telling_loses_nothing_and_fires_once(tmp_path: Path) -> None:
    state = tmp_path / "alarms.json"
    let_go = threading.Event()
    with receiver() as there:

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen([sys.executable, "-c", PROGRAM, str(state), there.url, SECRET], stdout=subprocess.DEVNULL)

        there.answers = [hangs_until(let_go)]
        for number in range(1, 3):
            # It is told, and killed before it has an answer.
            process = start()
            try:
                eventually(lambda number=number: len(there.posts) == number, within=60)  # type: ignore[misc]  # bound on purpose
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait(30)
            assert [event["alarm"]["id"] for event in state_of(state)["waiting"]["webhook"]] == [ERRORS]
        there.answers = [204]
        let_go.set()
        process = start()
        try:
            eventually(lambda: len(there.posts) == 3 and not state_of(state)["waiting"]["webhook"], within=60)
            time.sleep(1)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
    assert there.told() == [("fired", ERRORS)] * 3
    assert len({post.event["id"] for post in there.posts}) == 1
    assert all(post.is_signed_with(KEY) for post in there.posts)
    assert len(state_of(state)["alarms"]) == 1


def test_a_part_in_trouble_is_not_well_only_because_the_process_is_new(services: Callable[..., Service]) -> None:
    service = services()
    service.board.set_trouble("journal", "No space left on device")
    assert service.round() == ["service:journal"]
    service.restart()
    for _ in range(5):
        service.hand.move(20)
        assert service.round() == ["service:journal"]
    for _ in range(5):
        service.hand.move(20)
        service.round()
    assert service.alarms.current() == ()


def test_one_that_is_still_telling_when_it_was_closed_does_not_write_over_the_next(services: Callable[..., Service]) -> None:
    let_go = threading.Event()
    with receiver() as there:
        there.answers = [answers_after(let_go), 204]
        service = running(services(webhook=there.url))
        service.see(item(1, "E_"))
        eventually(lambda: len(there.posts) == 1)
        first = service.alarms
        first.close(timeout=0.1)
        service.start()
        service.see(item(1, "E_"), item(1, "E_", group="bills_"))
        kept = state_of(service.state)
        let_go.set()
        assert first._notifier.channels["webhook"].join(30)
        assert first._notifier.channels["webhook"].waiting() == ()
        assert state_of(service.state) == kept
