"""Alarms while a rule, or who should be told, is at fault."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from gateway.handoff.clock import Clock
from gateway.service.alarms import Alarm
from gateway.service.alarms.limits import Limits, Rule
from gateway.service.alarms.memory import Memory
from gateway.service.alarms.watch import RULES
from gateway.service.board import Picture
from tests.service.alarm_service import ERRORS, Impatient, Service, hangs_until, running
from tests.service.alarm_tools import (
    HOUR,
    eventually,
    item,
    receiver,
    state_of,
)


def broken(picture: Picture, memory: Memory, limits: Limits, now: float) -> list[Alarm]:
    """A rule with a fault."""
    del picture, memory, limits, now
    raise ZeroDivisionError("a fault of ours")


def test_a_rule_that_raises_is_told_and_the_others_go_on(services: Callable[..., Service]) -> None:
    service = services()
    service.rules = (Rule(frozenset({"before"}), broken), *RULES)
    service.restart()
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            service.see(item(1, "E_"))
    assert sorted(service.see(item(1, "E_"))) == [ERRORS, "rule:broken"]
    assert [line["rule"] for line in logs if line["event"] == "rule failed"] == ["broken"]


def test_what_a_broken_rule_can_no_longer_judge_stays_on(services: Callable[..., Service]) -> None:
    service = services()
    service.see(item(1, "E_"))
    service.rules = (*(rule for rule in RULES if "errors" not in rule.kinds), Rule(frozenset({"errors"}), broken))
    service.restart()
    assert sorted(service.pass_by(HOUR)) == [ERRORS, "rule:broken"]


def test_a_dead_webhook_holds_nothing_up_and_is_an_alarm_that_the_command_tells(
    tmp_path: Path, services: Callable[..., Service]
) -> None:
    told = tmp_path / "told"
    command = ["sh", "-c", f'echo "$DROPGATE_ALARM_CHANGE $DROPGATE_ALARM_ID" >> {told}']
    with receiver() as there:
        there.answers = [500]
        service = running(services(Clock(chance=Impatient()), webhook=there.url, command=command))
        service.see(item(1, "E_"))
        eventually(lambda: len(there.posts) >= 4)
        assert sorted(service.see(item(1, "E_"))) == [ERRORS, "undelivered:webhook"]
        eventually(lambda: told.exists() and told.read_text() == f"fired {ERRORS}\nfired undelivered:webhook\n")
        assert "answered 500" in next(one.text for one in service.alarms.current() if one.kind == "undelivered")
        # It comes back, and gets what waited; that it was away is nothing to tell it.
        before = len(there.posts)
        there.answers = [204]
        eventually(lambda: len(there.posts) > before and not state_of(service.state)["waiting"]["webhook"])
        assert {post.event["id"] for post in there.posts} == {there.posts[0].event["id"]}
        assert service.alarms._notifier.undelivered() == []


def test_while_a_receiver_hangs_it_is_watched_on_and_ended_in_time(services: Callable[..., Service]) -> None:
    let_go = threading.Event()
    with receiver() as there:
        there.answers = [hangs_until(let_go)]
        service = running(services(webhook=there.url))
        service.see(item(1, "E_"))
        eventually(lambda: len(there.posts) == 1)
        assert len(service.see(item(1, "E_"), item(1, "E_", group="bills_"))) == 2
        begun = time.monotonic()
        service.alarms.close(timeout=1)
        assert time.monotonic() - begun < 15
        assert len(state_of(service.state)["waiting"]["webhook"]) == 2
        let_go.set()
