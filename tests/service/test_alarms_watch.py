"""The alarms of a service: on the board's word, and after a reload."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.drop import Drop
from gateway.errors import ConfigurationError
from gateway.handoff.clock import Clock
from gateway.service_sections import AlarmsSettings, ExpectSettings
from tests.service.alarm_service import ERRORS, KEY, SECRET, Service, running
from tests.service.alarm_tools import (
    HOUR,
    drop_view,
    eventually,
    item,
    receiver,
    snapshot_of,
)


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
