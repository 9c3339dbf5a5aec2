"""Lines of events: in order, at least once, tried again, and given up; and telling by a command."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from gateway.handoff.clock import Backoff, Clock
from gateway.service.alarms.channel import MOST_WAITING, Channel, NotTold
from gateway.service.alarms.command import Command
from gateway.service.alarms.event import Change, Event
from tests.service.alarm_tools import HandClock, alarm, eventually, iso

GO_ON = threading.Event()
QUICK = Backoff(base=0.001, largest=0.01)


def event(name: str, change: Change = Change.FIRED, at: str = "") -> Event:
    return Event(name, change, at or Clock().utc(), alarm())


@dataclass
class Faulty:
    """Somebody to tell who fails so many times, with this, before each success."""

    failures: int = 0
    error: Exception = field(default_factory=lambda: NotTold("out of order"))
    tries: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def __call__(self, one: Event, stop: threading.Event) -> None:
        del stop
        self.tries.append(one.id)
        if len(self.tries) % (self.failures + 1):
            raise self.error
        self.told.append(one.id)


@pytest.fixture
def channels() -> Iterator[Callable[..., Channel]]:
    made: list[Channel] = []

    def make(tell: Callable[[Event, threading.Event], None], **more: object) -> Channel:
        given: dict[str, object] = {"clock": Clock(), "settled": lambda: None, "backoff": QUICK}
        channel = Channel("webhook", tell, **given | more)  # type: ignore[arg-type]  # each test gives what it is about
        made.append(channel)
        channel.start()
        return channel

    yield make
    for channel in made:
        channel.stop()
    for channel in made:
        assert channel.join(30)


def test_events_are_told_in_order_and_each_is_tried_until_it_is(channels: Callable[..., Channel]) -> None:
    who = Faulty(failures=3)
    channel = channels(who)
    channel.add([event(str(number)) for number in range(5)])
    eventually(lambda: not channel.waiting())
    assert who.told == ["0", "1", "2", "3", "4"]
    assert who.tries == [name for name in who.told for _ in range(4)]
    assert channel.trouble() is None


def test_whatever_a_teller_raises_the_line_goes_on(channels: Callable[..., Channel]) -> None:
    who = Faulty(failures=1, error=RuntimeError("a fault of ours"))
    channel = channels(who)
    channel.add([event("1"), event("2")])
    eventually(lambda: who.told == ["1", "2"])


def test_trouble_says_why_since_when_how_often_and_how_many_wait(channels: Callable[..., Channel]) -> None:
    hand = HandClock()
    who = Faulty(failures=10**6)
    channel = channels(who, clock=Clock(utc=hand.clock().utc))
    channel.add([event("1", at=iso(hand.now)), event("2", at=iso(hand.now))])
    eventually(lambda: len(who.tries) > 2)
    trouble = channel.trouble()
    assert trouble is not None
    assert (trouble.reason, trouble.since, trouble.waiting) == ("out of order", iso(hand.now), 2)
    assert trouble.tries >= 2


@pytest.mark.parametrize(("age", "given_up"), [(86000.0, False), (86500.0, True)])
def test_an_event_that_could_not_be_told_for_a_day_is_given_up(
    channels: Callable[..., Channel], age: float, given_up: bool
) -> None:
    hand = HandClock()
    who = Faulty(failures=10**6)
    settled: list[int] = []
    channel = channels(who, clock=Clock(utc=hand.clock().utc), settled=lambda: settled.append(1))
    channel.add([event("1", at=iso(hand.now - age))])
    eventually(lambda: len(who.tries) > (0 if given_up else 3))
    if given_up:
        eventually(lambda: not channel.waiting() and settled == [1])
        assert who.tries == ["1"]
    else:
        assert len(channel.waiting()) == 1
    assert channel.trouble() is not None


def test_so_many_tries_are_made_where_there_is_a_limit(channels: Callable[..., Channel]) -> None:
    who = Faulty(failures=10**6)
    channel = channels(who, most_tries=3)
    channel.add([event("1"), event("2")])
    eventually(lambda: not channel.waiting())
    assert who.tries == ["1"] * 3 + ["2"] * 3


def test_a_line_is_bounded_and_the_oldest_make_room_but_for_the_one_under_way(channels: Callable[..., Channel]) -> None:
    channel = channels(Faulty(failures=10**6))
    channel.add([event(str(number)) for number in range(MOST_WAITING + 10)])
    names = [one.id for one in channel.waiting()]
    assert names == ["0", *(str(number) for number in range(11, MOST_WAITING + 10))]


def test_nothing_is_told_while_it_is_being_written_down(channels: Callable[..., Channel]) -> None:
    who = Faulty()
    channel = channels(who)
    with channel.lock:
        channel.add([event("1")])
        time.sleep(0.2)
        assert who.tries == []
    eventually(lambda: who.told == ["1"])


def test_who_asks_for_a_pause_gets_it(channels: Callable[..., Channel]) -> None:
    who = Faulty(failures=1, error=NotTold("too many", 0.5))
    channel = channels(who)
    begun = time.monotonic()
    channel.add([event("1")])
    eventually(lambda: who.told == ["1"])
    assert time.monotonic() - begun >= 0.5


def test_another_address_is_tried_at_once(channels: Callable[..., Channel]) -> None:
    slow = Faulty(failures=10**6, error=NotTold("come tomorrow", 3000.0))
    channel = channels(slow)
    channel.add([event("1")])
    eventually(lambda: channel.trouble() is not None)
    other = Faulty()
    channel.tell_by(other)
    eventually(lambda: other.told == ["1"])
    assert channel.trouble() is None


# A command.


def script(folder: Path, text: str) -> Path:
    path = folder / "tell"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_command_gets_the_event_and_its_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DROPGATE_ENDPOINT__BANK__PASSWORD", "hunter2")
    path = script(tmp_path, f'cat > {tmp_path}/given; env > {tmp_path}/env; printf "%s" "$*" > {tmp_path}/words')
    one = Event("1", Change.CLEARED, iso(0), alarm(title="a \0 b $(touch x) 'ü'", severity="critical"))
    Command((str(path), "two words", "$HOME"), "shop")(one, GO_ON)
    assert json.loads((tmp_path / "given").read_bytes())["type"] == "dropgate.alarm.cleared"
    seen = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert {name: value for name, value in seen.items() if name.startswith("DROPGATE_")} == {
        "DROPGATE_ALARM_CHANGE": "cleared",
        "DROPGATE_ALARM_ID": "errors:outbox:orders_",
        "DROPGATE_ALARM_KIND": "errors",
        "DROPGATE_ALARM_ABOUT": "outbox/orders_",
        "DROPGATE_ALARM_TITLE": "a  b $(touch x) 'ü'",
        "DROPGATE_ALARM_TEXT": "Mend it.",
        "DROPGATE_ALARM_SINCE": "2026-11-30T12:00:00Z",
        "DROPGATE_ALARM_SEVERITY": "critical",
    }
    assert seen["PATH"] == os.environ["PATH"]
    assert (tmp_path / "words").read_text() == "two words $HOME"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo no mail today >&2; exit 3", "ended with exit status 3: no mail today"),
        ("kill -TERM $$", "ended with signal 15"),
        ("yes no | head -c 100000 >&2; exit 1", "no\nno"),
    ],
)
def test_a_command_that_fails_says_why(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(NotTold, match=why) as error:
        Command((str(script(tmp_path, text)),), "shop")(event("1"), GO_ON)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(("name", "why"), [("nowhere", "No such file"), ("folder", "Permission denied"), ("a\0b", "its words")])
def test_a_command_that_cannot_be_run_says_why(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotTold, match=f"cannot be run: {why}"):
        Command((f"{tmp_path}/{name}",), "shop")(event("1"), GO_ON)


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    path = script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(NotTold, match=r"took longer than 1 s, and was ended"):
        Command((str(path),), "shop", longest=1.0)(event("1"), GO_ON)
    child = int((tmp_path / "child").read_text())
    eventually(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_a_command_is_ended_when_dropgate_stops(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(NotTold, match="was stopped with dropgate"):
        Command((str(script(tmp_path, "sleep 600")),), "shop")(event("1"), stop)
