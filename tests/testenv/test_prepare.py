"""Making a machine ready for the test servers."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from testenv import choice, images, packages
from testenv.prepare import _run
from testenv.spec import COMPOSE, ROOT, SERVICES


def prepare(*command: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "testenv.prepare", *command],
        cwd=ROOT,
        env={**os.environ, choice.VARIABLE: choice.possible_kinds()[0]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_it_is_quick_and_silent_where_everything_is_there() -> None:
    started = time.monotonic()
    with prepare() as process:
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")
    # Two seconds are promised on an idle machine; the tests beside this one take their share.
    assert time.monotonic() - started < 6


def test_the_command_has_the_last_word_and_its_exit_code_counts() -> None:
    with prepare("sh", "-c", "echo the last word; exit 7") as process:
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (7, "the last word\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_interrupted_may_clean_up_first(number: signal.Signals) -> None:
    script = "trap 'sleep 0.3; echo cleaned up; exit 3' INT; echo running; while :; do sleep 0.02; done"
    with prepare("sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        if number is signal.SIGINT:
            os.killpg(process.pid, number)  # a terminal tells all of them
        else:
            process.send_signal(number)  # an init system tells the first
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (3, "cleaned up\n")


def test_a_package_that_is_missing_is_named() -> None:
    assert packages.missing(["dpkg", "no-such-package", "base-files"]) == ["no-such-package"]


def test_an_image_is_named_by_what_it_is_built_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: images.tag(service) for name, service in SERVICES.items()}
    copy = tmp_path / "compose"
    shutil.copytree(COMPOSE, copy)
    monkeypatch.setattr(images, "COMPOSE", copy)
    assert {name: images.tag(service) for name, service in SERVICES.items()} == before
    with (copy / "samba" / "entrypoint.sh").open("a", encoding="utf-8") as script:
        script.write("# changed\n")
    assert images.tag(SERVICES["smb"]) != before["smb"]
    assert images.tag(SERVICES["sftp"]) == before["sftp"]


def test_servers_started_by_hand_are_reached_from_this_machine_only() -> None:
    ports = re.findall(r'^ +ports:\n +- "(.*)"$', (COMPOSE / "compose.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_a_command_that_is_interrupted_while_it_starts_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = subprocess.Popen

    def interrupted(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        process = begin(command, **options)
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr("testenv.prepare.subprocess.Popen", interrupted)
    try:
        assert _run(["sleep", "60"]) == 128 + signal.SIGINT
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
