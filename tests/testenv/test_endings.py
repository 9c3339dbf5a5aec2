"""However a test run ends, nothing of its servers is left."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import pytest

from testenv import choice, engine, owner
from testenv.box import Box, CannotStart
from testenv.containers import ContainerBox
from testenv.control import KeeperProcess, ServerNotAvailable
from testenv.processes import ProcessBox
from testenv.servers import SftpServer
from testenv.spec import ROOT, SERVICES, Kind, environment

PATIENCE = 60.0

# A test run that tells what it has started, and then ends, or waits to be ended.
INNER_RUN = """
import json, os, time
from pathlib import Path

def test_with_both(sftp_server, smb_server, server_keeper):
    facts = {"keeper": server_keeper.pid, "run": str(sftp_server.run), "ports": [sftp_server.port, smb_server.port]}
    facts["mark"] = (sftp_server.run / "owner").read_text()
    Path("facts.part").write_text(json.dumps(facts))
    Path("facts.part").rename("facts")
    time.sleep(float(os.environ["INNER_RUN_SLEEPS"]))
"""


class Facts(TypedDict):
    """What `INNER_RUN` tells."""

    keeper: int
    mark: str
    run: str
    ports: list[int]


def until(condition: Callable[[], bool], alive: Callable[[], bool] = lambda: True) -> None:
    """Waits for the condition, and fails when it cannot come true any more."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert alive()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answers(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


class InnerRun:
    """A test run of its own, in a session of its own as a terminal would give it."""

    def __init__(self, folder: Path, kind: str, *options: str, sleeps: int = 120) -> None:
        (folder / "conftest.py").write_text('pytest_plugins = ["testenv.fixtures"]\n', encoding="ascii")
        (folder / "test_inner.py").write_text(INNER_RUN, encoding="ascii")
        self._facts = folder / "facts"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={folder}", "test_inner.py", *options],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), choice.VARIABLE: kind, "INNER_RUN_SLEEPS": str(sleeps)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_for_servers(self) -> None:
        """Returns when both servers of the run answer."""
        until(self._facts.exists, lambda: self.process.poll() is None)
        assert all(answers(port) for port in self.facts["ports"])

    @property
    def facts(self) -> Facts:
        facts: Facts = json.loads(self._facts.read_text(encoding="ascii"))
        return facts

    def left(self) -> list[str]:
        """What there still is of its servers."""
        facts = self.facts
        left = [f"port {port}" for port in facts["ports"] if answers(port)]
        if Path(facts["run"]).exists():
            left.append(facts["run"])
        if not owner.is_dead(facts["mark"]):
            left.append("its keeper")
        if engine.version():
            left += [identity for identity, _ in engine.containers(owned_by=facts["mark"])]
        return left

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to every process of the run, as Ctrl-C does."""
        os.killpg(self.process.pid, number)

    def end(self) -> str:
        """Waits for its end, and gives what it has said."""
        return self.process.communicate(timeout=PATIENCE)[0]


@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["alone", "xdist"])
def test_a_run_names_its_servers_at_its_end_and_leaves_nothing(
    some_kind: Kind, options: tuple[str, ...], tmp_path: Path
) -> None:
    run = InnerRun(tmp_path, some_kind, *options, sleeps=0)
    said = run.end()
    assert run.process.returncode == 0, said
    _, sftp, smb, closing_line = said.partition("= servers =")[2].splitlines()
    assert sftp.startswith("sftp   OpenSSH_")
    assert smb.startswith("smb    Samba ")
    assert f", {some_kind} (" in sftp
    assert f", {some_kind} (" in smb
    assert "1 passed" in closing_line
    assert run.left() == []


@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["alone", "xdist"])
def test_ctrl_c_leaves_nothing(some_kind: Kind, options: tuple[str, ...], tmp_path: Path) -> None:
    run = InnerRun(tmp_path, some_kind, *options)
    run.wait_for_servers()
    run.send(signal.SIGINT)
    run.end()
    # With xdist the workers may be ended before their keepers, which finish by themselves.
    until(lambda: not run.left())


def test_a_run_that_is_killed_leaves_nothing(kind: str, tmp_path: Path) -> None:
    run = InnerRun(tmp_path, kind)
    run.wait_for_servers()
    run.send(signal.SIGKILL)
    run.end()
    until(lambda: not run.left())


def test_what_even_the_keeper_had_to_leave_is_removed_by_the_next_run(kind: str, tmp_path: Path) -> None:
    run = InnerRun(tmp_path, kind)
    run.wait_for_servers()
    os.kill(run.facts["keeper"], signal.SIGKILL)
    run.send(signal.SIGKILL)
    run.end()
    until(lambda: owner.is_dead(run.facts["mark"]))
    assert run.left() != []
    KeeperProcess().close()
    assert run.left() == []


def test_the_servers_of_runs_that_go_on_are_left_alone(sftp_server: SftpServer) -> None:
    KeeperProcess().close()
    assert answers(sftp_server.port)


def test_a_server_that_does_not_come_up_says_why_and_leaves_nothing(kind: str, tmp_path: Path) -> None:
    for folder in ("data", "readonly"):
        (tmp_path / folder).mkdir()
    mark = owner.mark_of(os.getpid())
    settings = {**environment(""), "DROP_UID": "not a number"}
    box: Box = (
        ContainerBox(SERVICES["sftp"], tmp_path, settings, mark)
        if kind == "container"
        else ProcessBox(SERVICES["sftp"], tmp_path, settings)
    )
    try:
        with pytest.raises(CannotStart, match="invalid group ID 'not a number'"):
            box.wait()
    finally:
        box.remove()
    assert not answers(box.port)
    if engine.version():
        assert list(engine.containers(owned_by=mark)) == []


def test_servers_that_cannot_be_had_fail_the_run_and_skip_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    run = InnerRun(tmp_path, "container")
    said = run.end()
    assert run.process.returncode == 1
    assert "the sftp test server is not available: DROPGATE_TEST_SERVERS=container, but no container engine answers" in said
    assert "NOT AVAILABLE" in said
    assert "skipped" not in said


def test_a_wrong_wish_is_refused_with_those_that_can_be_had() -> None:
    keeper = KeeperProcess({**os.environ, choice.VARIABLE: "containers"})
    try:
        with pytest.raises(ServerNotAvailable, match="containers: it can be auto, container or process"):
            keeper.start("sftp")
    finally:
        keeper.close()
