"""The file in which alarms are kept: private, and replaced where it is damaged."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from gateway.service.alarms.state_file import default_state_file
from tests.service.alarm_service import ERRORS, SECRET, Service, running
from tests.service.alarm_tools import (
    HOUR,
    eventually,
    item,
    receiver,
    state_of,
)


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
