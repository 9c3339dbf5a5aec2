"""The alarms of a service: on the board's word, over restarts and kills, and whatever becomes of those who should be told."""

import base64
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.drop import Drop
from gateway.errors import ConfigurationError
from gateway.handoff.clock import Clock
from gateway.service.alarms import Alarm, Alarms
from gateway.service.alarms.limits import Limits, Rule
from gateway.service.alarms.memory import Memory
from gateway.service.alarms.state_file import default_state_file
from gateway.service.alarms.watch import RULES
from gateway.service.board import Board, Picture, RouteState
from gateway.service_sections import AlarmsSettings, ExpectSettings
from tests.service.alarm_tools import (
    HOUR,
    NOON,
    HandClock,
    drop_view,
    eventually,
    iso,
    item,
    receiver,
    route_view,
    snapshot_of,
    state_of,
)

ERRORS = "errors:outbox:orders_"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = base64.b64decode(SECRET.removeprefix("whsec_"))


class Impatient(random.Random):
    """Chance that makes every pause as short as can be."""

    def uniform(self, a: float, b: float) -> float:
        del b
        return a + 0.01


class Service:
    """A board and its alarms, started again and again on one state file. Its rounds are made by hand."""

    def __init__(self, folder: Path, clock: Clock | None = None, **settings: Any) -> None:
        self.folder, self.hand = folder, HandClock()
        self.clock = clock or self.hand.clock()
        self.settings = AlarmsSettings.model_validate(settings)
        self.expectations: list[ExpectSettings] = []
        self.rules: tuple[Rule, ...] = RULES
        self.state = folder / "state" / "alarms.json"
        self.alarms = self.start()

    def start(self) -> Alarms:
        """A new process: an empty board, and what the file keeps."""
        self.board = Board(self.clock.utc)
        self.alarms = Alarms(
            self.settings, self.expectations, self.board, self.clock, self.state, "shop", self.folder, self.rules
        )
        return self.alarms

    def restart(self) -> None:
        self.alarms.close()
        self.start()

    def see(self, *files: Any, name: str = "outbox", **more: Any) -> list[str]:
        """A look at a drop, and a round; the ids of what is on."""
        self.board.set_drop(drop_view(snapshot_of(*files), self.hand.now, name, **more))
        return self.round()

    def round(self) -> list[str]:
        self.alarms.look()
        return [alarm.id for alarm in self.alarms.current()]

    def pass_by(self, seconds: float, *files: Any) -> list[str]:
        """Looks, again and again, for so long."""
        for _ in range(4):
            self.hand.move(seconds / 4)
            self.see(*files)
        return [alarm.id for alarm in self.alarms.current()]


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(clock: Clock | None = None, **settings: Any) -> Service:
        made.append(Service(tmp_path, clock, **settings))
        return made[-1]

    yield make
    for service in made:
        service.alarms.close(timeout=30)


def hangs_until(let_go: threading.Event) -> Callable[[socket.socket], None]:
    """A receiver that takes a request and does not answer."""

    def wait(connection: socket.socket) -> None:
        del connection
        let_go.wait(60)

    return wait


def answers_after(let_go: threading.Event) -> Callable[[socket.socket], None]:
    """A receiver that takes its time."""

    def answer(connection: socket.socket) -> None:
        let_go.wait(60)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    return answer


def running(service: Service) -> Service:
    """Tells what there is to tell; rounds are still made by hand."""
    service.alarms._notifier.start()
    return service


def test_an_error_image_in_a_real_drop_is_told_once_and_told_when_it_is_gone(
    tmp_path: Path, services: Callable[..., Service]
) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    with receiver() as there:
        service = running(services(webhook=there.url, webhook_secret=SECRET))

        def look() -> list[str]:
            seen = Drop.at(str(folder)).snapshot()
            service.board.set_drop(drop_view(seen, service.hand.now, place=f"file://{folder}"))
            return service.round()

        assert look() == []
        for suffix in ("csv", "manifest.json", "reason.json"):
            (folder / f"E_orders_0000000001.{suffix}").write_text("{}")
        for _ in range(5):
            service.hand.move(10)
            assert look() == [ERRORS]
        eventually(lambda: there.told() == [("fired", ERRORS)])
        for path in folder.iterdir():
            path.unlink()
        for _ in range(5):
            service.hand.move(10)
            look()
        assert service.alarms.current() == ()
        eventually(lambda: there.told() == [("fired", ERRORS), ("cleared", ERRORS)])


def test_its_own_thread_looks_every_few_seconds(services: Callable[..., Service]) -> None:
    with receiver() as there:
        service = services(Clock(), webhook=there.url)
        service.board.set_drop(drop_view(snapshot_of(item(1, "E_")), time.time()))
        service.alarms.start()
        eventually(lambda: there.told() == [("fired", ERRORS)])


def test_a_flood_of_error_images_is_told_a_few_times(services: Callable[..., Service]) -> None:
    with receiver() as there:
        service = running(services(webhook=there.url))
        for count in range(1, 41):
            service.hand.move(60)
            assert service.see(*(item(number, "E_") for number in range(count))) == [ERRORS]
        eventually(lambda: len(there.posts) == 6)
        assert there.told() == [("fired", ERRORS), *[("worse", ERRORS)] * 5]
        assert [post.event["data"]["title"].split()[1] for post in there.posts] == ["1", "2", "4", "8", "16", "32"]
        assert service.alarms.current()[0].title.split()[1] == "40"


# Restarts.


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


# The state file.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 100,
        b'{"version": 1',
        b"[]",
        b"[" * 100_000,
        b'{"version": 2}',
        b'{"version": 1}',
        b'{"version": 1, "memory": {}, "alarms": [], "waiting": {}}',
        b'{"version": 1, "memory": 5, "alarms": [], "waiting": {}}',
    ],
    ids=["empty", "zeros", "torn", "list", "deep", "later version", "nothing", "no memory", "strange memory"],
)
def test_a_damaged_state_file_is_told_put_aside_and_begun_anew(
    tmp_path: Path, services: Callable[..., Service], content: bytes
) -> None:
    service = services()
    service.see(item(1, "E_"))
    service.alarms.close()
    service.state.write_bytes(content)
    with structlog.testing.capture_logs() as logs:
        service.start()
    assert [str(service.state) in line["error"] for line in logs if line["event"] == "alarms begin anew"] == [True]
    assert (service.state.parent / "alarms.json.damaged").read_bytes() == content
    assert service.alarms.current() == ()
    assert service.see(item(1, "E_")) == [ERRORS]
    service.restart()
    assert [alarm.id for alarm in service.alarms.current()] == [ERRORS]


@pytest.mark.parametrize("part", ["memory", "alarms", "waiting"])
def test_a_state_file_with_one_strange_part_is_damaged(services: Callable[..., Service], part: str) -> None:
    with receiver() as there:
        service = services(webhook=there.url)
        service.see(item(1, "E_"))
        service.alarms.close()
        for strange in (None, 5, "x", [5], {"webhook": [5]}, {"webhook": 5}, [{"id": 5}]):
            value = state_of(service.state) | {part: strange}
            service.state.write_text(json.dumps(value))
            service.start()
            assert service.alarms.current() == ()
            assert service.see(item(1, "E_")) == [ERRORS]
            service.alarms.close()


def test_where_the_state_cannot_be_kept_it_is_told_all_the_same_and_is_an_alarm(services: Callable[..., Service]) -> None:
    with receiver() as there:
        service = services(webhook=there.url)
        service.state = service.folder / "a file" / "alarms.json"
        (service.folder / "a file").write_text("no folder")
        service.start()
        running(service)
        service.see(item(1, "E_"))
        assert sorted(service.see(item(1, "E_"))) == [ERRORS, "state"]
        eventually(lambda: sorted(there.told()) == [("fired", ERRORS), ("fired", "state")])
        (service.folder / "a file").unlink()
        service.pass_by(HOUR, item(1, "E_"))
        assert service.pass_by(HOUR, item(1, "E_")) == [ERRORS]
        eventually(lambda: ("cleared", "state") in there.told())


def test_the_state_file_is_for_this_user_alone_and_holds_no_secret(services: Callable[..., Service]) -> None:
    url = "http://user:hunter2@127.0.0.1:9/s3cr3t"
    service = services(webhook=url, webhook_secret=SECRET)
    service.see(item(1, "E_"))
    service.alarms.close()
    assert service.state.stat().st_mode & 0o777 == 0o600
    text = service.state.read_text()
    assert not [secret for secret in ("hunter2", "s3cr3t", SECRET, SECRET[6:]) if secret in text]


def test_the_usual_place_of_the_state_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_state_file() == tmp_path / "dropgate" / "alarms.json"


# Faults.


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


# Reload.


def test_after_a_reload_what_waits_goes_to_the_new_address(services: Callable[..., Service]) -> None:
    with receiver() as old, receiver() as new:
        old.answers = [500]
        service = running(services(Clock(), webhook=old.url))
        service.see(item(1, "E_"))
        eventually(lambda: len(old.posts) >= 1)
        service.alarms.reconfigure(AlarmsSettings(webhook=new.url), [])
        eventually(lambda: new.told() == [("fired", ERRORS)])
        service.alarms.reconfigure(AlarmsSettings(errors=0), [])
        service.see()
        assert service.alarms._notifier.channels == {}


def test_a_reload_with_an_error_changes_nothing(services: Callable[..., Service]) -> None:
    with receiver() as there:
        service = running(services(webhook=there.url))
        with pytest.raises(ConfigurationError, match=r"alarms\.webhook_secret_file: .*/nowhere cannot be read: No such file"):
            service.alarms.reconfigure(AlarmsSettings(webhook=there.url, webhook_secret_file=Path("nowhere"), errors=0), [])
        assert service.see(item(1, "E_")) == [ERRORS]
        eventually(lambda: there.told() == [("fired", ERRORS)])


def test_a_switched_off_rule_and_a_dropped_expectation_end_their_alarms(services: Callable[..., Service]) -> None:
    service = services()
    service.alarms.reconfigure(AlarmsSettings(), [ExpectSettings(drop="outbox", group="bills_", every="15m")])
    assert len(service.pass_by(HOUR, item(1, "E_"))) == 2
    service.alarms.reconfigure(AlarmsSettings(errors=0), [])
    assert service.pass_by(HOUR, item(1, "E_")) == []


def test_a_secret_file_is_relative_to_the_folder_of_the_configuration(tmp_path: Path, services: Callable[..., Service]) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    with receiver() as there:
        service = running(services(webhook=there.url, webhook_secret_file="secret"))
        service.see(item(1, "E_"))
        eventually(lambda: len(there.posts) == 1)
        assert there.posts[0].is_signed_with(KEY)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"webhook": "https://[", "command": []}, "no URL to post to"),
        ({"command": [""]}, "its first word is the program"),
        ({"webhook": "https://x", "webhook_secret": "whsec_?"}, "it is no base64"),
    ],
)
def test_what_cannot_be_told_by_is_refused_at_the_start(tmp_path: Path, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Service(tmp_path, **settings)


def test_a_secret_that_is_not_text_is_refused_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"hunter2\xff")
    with pytest.raises(ConfigurationError, match="is not UTF-8 text") as error:
        Service(tmp_path, webhook="https://x", webhook_secret_file=str(tmp_path / "secret"))
    assert "hunter2" not in str(error.value) + repr(error.value.__cause__)


def test_a_state_file_that_may_not_be_read_is_told(tmp_path: Path, services: Callable[..., Service]) -> None:
    service = services()
    service.see(item(1, "E_"))
    service.alarms.close()
    service.state.unlink()
    service.state.mkdir()
    with structlog.testing.capture_logs() as logs:
        service.start()
    assert [line["event"] for line in logs] == ["alarms begin anew"]
    assert ERRORS in service.see(item(1, "E_"))
