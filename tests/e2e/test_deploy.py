"""The images and the demonstration of deploy/: built as everybody builds them, started, used, and stopped.

Where no container engine can run, the gateway runs as a plain process with what its image sets.
"""

import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.settings import load
from testenv import engine, images, owner, packages
from testenv.spec import SERVICES, free_port
from tests.e2e.commands import DROPGATE, clean_environment

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
GATEWAY, POSTGRESQL = "dropgate-testenv-gateway", "dropgate-testenv-postgresql"
CONFIGURATION = (
    '[drop.out]\nurl = "out"\ngroups = ["orders_"]\n[drop.in]\nurl = "in"\n[[route]]\nfrom = "out"\nto = "in"\npoll = 0.2\n'
)
WITHIN = 120.0  # seconds, for a machine that has much else to do

pytestmark = [pytest.mark.xdist_group("deploy"), pytest.mark.timeout(1500)]  # images may have to be built


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def until(true: Callable[[], object], what: str, seen: Callable[[], str]) -> None:
    deadline = time.monotonic() + WITHIN
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}: {seen()[-3000:]}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def gateway_image() -> str:
    """The image of the gateway, from this checkout."""
    images.build(GATEWAY, DEPLOY / "Dockerfile", ROOT, say)
    return GATEWAY


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration with two local drops, which the account of the image owns, and an item in the first."""
    (tmp_path / "dropgate.toml").write_text(CONFIGURATION, encoding="utf-8")
    (tmp_path / "today.csv").write_text("order;amount\n1;10\n")
    for name in ("out", "in", "state"):
        (tmp_path / name).mkdir()
    send = [DROPGATE, "send", "./out", "today.csv", "--group", "orders_"]
    subprocess.run(send, cwd=tmp_path, env=clean_environment(), check=True, capture_output=True, timeout=WITHIN)
    if os.getuid() == 0:
        for path in (tmp_path, *tmp_path.rglob("*")):
            os.chown(path, 2000, 2000)
    return tmp_path


def _started(log: str) -> float:
    """When its routes began, in seconds since the epoch, as the log says."""
    (line,) = (line for line in log.splitlines() if '"started"' in line)
    return datetime.fromisoformat(json.loads(line)["timestamp"]).timestamp()


class InContainer:
    """The gateway's image, with the folder as its configuration."""

    def __init__(self, folder: Path) -> None:
        self.name = f"dropgate-test-{uuid.uuid4().hex[:12]}"
        user = [] if os.getuid() == 0 else ["--user", f"{os.getuid()}:{os.getgid()}"]
        engine.docker(
            *("run", "--detach", "--name", self.name, "--label", f"{engine.OWNER_LABEL}={owner.mark_of(os.getpid())}"),
            *("--network=none", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges:true"),
            *(*user, f"--volume={folder}:/etc/dropgate", f"--volume={folder / 'state'}:/var/lib/dropgate", GATEWAY),
            patience=WITHIN,
        )

    def log(self) -> str:
        return engine.logs(self.name)

    def inspect(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(engine.docker("inspect", self.name))[0]
        return found

    def took(self) -> float:
        return _started(self.log()) - datetime.fromisoformat(self.inspect()["State"]["StartedAt"]).timestamp()

    def is_healthy(self) -> bool:
        command = re.search(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
        assert command is not None
        try:
            engine.docker("exec", self.name, *json.loads(command[1]))
        except engine.EngineFailed:
            return False
        return True

    def stop(self) -> int:
        engine.docker("stop", "--time=60", self.name, patience=90)
        code: int = self.inspect()["State"]["ExitCode"]
        return code

    def close(self) -> None:
        engine.remove([self.name])


class AsProcess:
    """The command of the image, with the variables that the image sets."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        self._metrics = f"127.0.0.1:{free_port()}"
        environment = clean_environment(XDG_STATE_HOME=str(folder / "state"), DROPGATE_METRICS__LISTEN=self._metrics)
        self._begun = time.time()
        with self._log.open("wb") as log:
            command = [DROPGATE, "run", str(folder / "dropgate.toml")]
            self._process = subprocess.Popen(command, env=environment, stderr=log, process_group=0)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def took(self) -> float:
        return _started(self.log()) - self._begun

    def is_healthy(self) -> bool:
        code = "import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=4)"
        command = [sys.executable, "-c", code, f"http://{self._metrics}/healthz"]
        return subprocess.run(command, capture_output=True, timeout=WITHIN, check=False).returncode == 0

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(60)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def test_the_gateway_carries_an_item_and_ends_when_it_is_told(folder: Path, request: pytest.FixtureRequest) -> None:
    contained = engine.version() is not None
    if contained:
        request.getfixturevalue("gateway_image")
    running: InContainer | AsProcess = InContainer(folder) if contained else AsProcess(folder)
    try:
        until(lambda: '"started"' in running.log(), "its start", running.log)
        print(f"its routes run {running.took():.2f} s after {'the container' if contained else 'the process'} began")  # noqa: T201 - what was measured
        until(lambda: (folder / "in" / "orders_0000000001.csv").exists(), "the item", running.log)
        until(lambda: (folder / "out" / "A_orders_0000000001.manifest.json").exists(), "its after image", running.log)
        until(running.is_healthy, "a good health", running.log)
        begun = time.monotonic()
        assert running.stop() == 0, running.log()
        print(f"stopped after {time.monotonic() - begun:.2f} s")  # noqa: T201 - what was measured
        if isinstance(running, InContainer):
            assert running.inspect()["Config"]["User"] == "dropgate", "not root"
    finally:
        running.close()
    assert not list((folder / "out").glob("C_*")), "no claim is left"


def test_everything_that_is_published_is_for_this_host_alone() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_secret_is_a_file() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    assert not re.search(r"PASSWORD|TOKEN", text), "no variable holds one"
    assert all(set(secret) == {"file"} for secret in COMPOSE["secrets"].values())
    used = {name for service in COMPOSE["services"].values() for name in service.get("secrets", ())}
    assert used == set(COMPOSE["secrets"])


def test_whatever_is_waited_for_can_say_that_it_is_there() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}, name
            dockerfile = DEPLOY / services[other].get("build", {}).get("context", "") / "Dockerfile"
            assert "healthcheck" in services[other] or "HEALTHCHECK" in dockerfile.read_text(), other


def test_the_demonstrations_configuration_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {
        **os.environ,
        "SECRETS": str(tmp_path / "secrets"),
        "PATH": f"{_fake_compose(tmp_path)}:{os.environ['PATH']}",
    }
    subprocess.run(["sh", DEPLOY / "demo.sh", "secrets"], env=environment, check=True, timeout=WITHIN)
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("DROPGATE_SECRETS_DIR", str(tmp_path / "secrets"))
    settings = load(DEPLOY / "demo" / "dropgate.toml")
    assert [route.title for route in settings.route] == ["orders"]
    assert settings.open_drop("shop").endpoint.password is not None
    assert settings.ledger.url is not None
    assert settings.ledger.url.get_secret_value().startswith("postgresql://dropgate:")
    assert settings.web is not None
    assert settings.web.token is not None


def _fake_compose(folder: Path) -> Path:
    """The script looks for it before anything else; here nothing is started with it."""
    (folder / "bin").mkdir()
    (folder / "bin" / "docker-compose").write_text("#!/bin/sh\n")
    (folder / "bin" / "docker-compose").chmod(0o755)
    return folder / "bin"


@contextmanager
def demonstration(folder: Path) -> Iterator[Callable[..., str]]:
    """All of it, up; what can be asked of it is a compose command. Nothing stays."""
    packages.install(packages.COMPOSE)
    images.build_missing(say)
    images.build(POSTGRESQL, DEPLOY / "postgresql" / "Dockerfile", DEPLOY / "postgresql", say)
    project = f"dropgate-test-{uuid.uuid4().hex[:8]}"
    # What a killed run leaves is removed by the next one, and does not start again until then.
    ours = {"restart": "no", "labels": {engine.OWNER_LABEL: owner.mark_of(os.getpid())}}
    (folder / "more.yaml").write_text(yaml.safe_dump({"services": dict.fromkeys(COMPOSE["services"], ours)}), encoding="utf-8")
    environment = {
        **os.environ,
        "MORE": str(folder / "more.yaml"),
        "SECRETS": str(folder / "secrets"),
        "GATEWAY_IMAGE": GATEWAY,
        "POSTGRESQL_IMAGE": POSTGRESQL,
        "SFTP_IMAGE": images.tag(SERVICES["sftp"]),
        "SMB_IMAGE": images.tag(SERVICES["smb"]),
        "PAGE_PORT": str(free_port()),
        "METRICS_PORT": str(free_port()),
        "PROJECT": project,
        "NO_BUILD": "1",
    }

    def demo(*words: str) -> str:
        done = subprocess.run(
            ["sh", DEPLOY / "demo.sh", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    try:
        demo("up")
        yield demo
    finally:
        demo("down")


def test_the_demonstration_carries_orders_from_producer_to_consumer(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if engine.version() is None:
        return  # the testenv's servers are no containers here either; the other tests say what can be said without
    request.getfixturevalue("gateway_image")
    begun = time.monotonic()
    with demonstration(tmp_path) as demo:
        print(f"up after {time.monotonic() - begun:.0f} s")  # noqa: T201 - what was measured
        until(lambda: "orders_0000000002" in demo("tail", "consumer"), "two orders at the consumer", lambda: demo("tail"))
        print(f"two orders after {time.monotonic() - begun:.0f} s")  # noqa: T201 - what was measured
