"""A large file whose connection is cut goes on from what the server has: on real servers, through a proxy that counts."""

import hashlib
import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.drop import Drop
from gateway.handoff.connection import Patience
from gateway.handoff.producer import Outgoing
from gateway.service.routes import Forward
from testenv.proxy import Proxy
from testenv.servers import SftpServer, SmbServer
from tests.gateway.tools import GROUP, Taken, consumer_of
from transports.endpoint import Endpoint, Timeouts

MIB = 1024 * 1024
LARGE = 300 * MIB
MIDDLING = 64 * MIB
CSV, TOKEN = f"{GROUP}0000000001.csv", f"{GROUP}0000000001.manifest.json"
PATIENT = Patience(attempts=10)  # a server that is restarted takes some seconds


@dataclass
class Through:
    """A drop on a real server, reached by a proxy, and the same folder as this machine sees it."""

    server: SftpServer | SmbServer
    proxy: Proxy
    endpoint: Endpoint
    seen: Path

    @property
    def drop(self) -> Drop:
        return Drop(self.endpoint)

    def url(self) -> tuple[str, str]:
        """The URL of the drop, with the password in it, and the host key; "" where there is none."""
        name = self.seen.name
        by_itself = self.server.url("data", name) if isinstance(self.server, SmbServer) else self.server.url(name)
        return by_itself.replace(f":{self.server.port}/", f":{self.proxy.port}/"), self.endpoint.host_key or ""

    def send(self, path: Path, progress: "At") -> str:
        """Sends one file; the hash that its manifest tells."""
        with self.drop.producer(PATIENT) as producer:
            producer.send([Outgoing(path, progress=progress)], group=GROUP, sequence=1, key="k")
        manifest = json.loads((self.seen / TOKEN).read_bytes())
        return str(manifest["files"][0]["hash"]).removeprefix("sha256:")

    def digest(self) -> str:
        """Of what has arrived, beside which nothing else may be there."""
        assert sorted(path.name for path in self.seen.iterdir()) == [CSV, TOKEN]
        return digest_of(self.seen / CSV)


@dataclass
class At:
    """A progress that does something once so many bytes have passed, as often as it is told to."""

    points: list[int]
    action: Callable[[], None]
    passed: int = 0
    done: int = 0

    def __call__(self, count: int) -> None:
        self.passed += count
        while self.points and self.passed >= self.points[0]:
            del self.points[0]
            self.action()
            self.done += 1


def make_file(path: Path, size: int) -> str:
    """A file without a pattern that a misplaced block could hide in; its SHA-256."""
    chance, hasher = random.Random(size), hashlib.sha256()  # noqa: S311 - it is no secret
    with path.open("wb") as file:
        for _ in range(size // MIB):
            data = chance.randbytes(MIB)
            hasher.update(data)
            file.write(data)
    return hasher.hexdigest()


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reach(request: pytest.FixtureRequest, kind: str) -> Through:
    """An empty drop behind a proxy. `kind` names the server, and perhaps the SSH layer."""
    kind, _, engine = kind.partition("+")
    server: SftpServer | SmbServer = request.getfixturevalue(f"{kind}_server")
    path: str = request.getfixturevalue(f"{kind}_dir")
    proxy: Proxy = request.getfixturevalue("proxy_factory")(server.host, server.port)
    quick = {"port": proxy.port, "timeouts": Timeouts(connect=10, reply=10)}
    if isinstance(server, SmbServer):
        endpoint, seen = server.endpoint("data", path, **quick), server.local("data", path)
    elif engine == "openssh":
        by_key = {"engine": "openssh", "password": None, "key_files": (server.key_file,)}
        endpoint, seen = server.endpoint(path, **by_key, **quick), server.local(path)
    else:
        endpoint, seen = server.endpoint(path, **quick), server.local(path)
    assert seen is not None
    return Through(server, proxy, endpoint, seen)


@pytest.fixture(params=["sftp", "sftp+openssh", "smb"])
def through(request: pytest.FixtureRequest) -> Through:
    """An empty drop behind a proxy, on each kind of server and by each SSH layer."""
    return reach(request, request.param)


def test_a_300_mib_upload_cut_at_80_percent_sends_less_than_a_quarter_again(through: Through, tmp_path: Path) -> None:
    digest = make_file(tmp_path / "large.csv", LARGE)
    at_the_cut: list[int] = []

    def cut() -> None:
        through.proxy.cut()
        at_the_cut.append(through.proxy.received)

    told = through.send(tmp_path / "large.csv", At([LARGE * 8 // 10], cut))
    assert through.digest() == told == digest
    (before,) = at_the_cut
    assert before > LARGE * 7 // 10, "it had come as far"
    assert through.proxy.received - before < LARGE // 4, "after the cut: what was left, and a little of what was under way"


def test_a_file_arrives_whole_through_many_cuts(through: Through, tmp_path: Path) -> None:
    digest = make_file(tmp_path / "x.csv", MIDDLING)
    cuts = At([MIDDLING * tenth // 10 for tenth in (1, 2, 4, 5, 7, 9, 10)], through.proxy.cut)
    assert through.send(tmp_path / "x.csv", cuts) == digest
    assert cuts.done == 7
    assert through.digest() == digest
    assert through.proxy.received < 2 * MIDDLING, "it was not begun anew even once"


@pytest.mark.parametrize("harm", ["restart", "kill_sessions"])
def test_a_server_that_is_restarted_meanwhile_is_waited_for(through: Through, tmp_path: Path, harm: str) -> None:
    digest = make_file(tmp_path / "x.csv", MIDDLING)
    harms = At([MIDDLING // 4, MIDDLING * 3 // 4], getattr(through.server, harm))
    assert through.send(tmp_path / "x.csv", harms) == digest
    assert harms.done == 2
    assert through.digest() == digest


@pytest.mark.parametrize(("source", "destination"), [("sftp", "smb"), ("smb", "sftp")])
def test_a_forward_goes_on_whichever_end_is_cut(
    request: pytest.FixtureRequest, source: str, destination: str, tmp_path: Path
) -> None:
    source_end, destination_end = reach(request, source), reach(request, destination)
    digest = make_file(tmp_path / "x.csv", MIDDLING)
    source_end.send(tmp_path / "x.csv", At([], source_end.proxy.cut))
    ends = [source_end.proxy, destination_end.proxy, destination_end.proxy, source_end.proxy]
    cuts = At([MIDDLING * fifth // 5 for fifth in (1, 2, 3, 4)], lambda: ends.pop().cut())
    taken = Taken()
    with (
        destination_end.drop.producer(PATIENT) as producer,
        consumer_of(source_end.drop, taken, Forward(producer, cuts), once=False) as consumer,
    ):
        consumer.sweep_once(threading.Event())
    assert cuts.done == 4
    assert taken.results == ["processed"], "in one go: no cut has made it begin anew"
    assert destination_end.digest() == digest


# One small file, then a large one; the peak of the process is told after each.
MEASURE = """
import sys
from pathlib import Path
from gateway.drop import Drop, Outgoing
from gateway.handoff.connection import Patience
from transports.endpoint import Endpoint
from transports.urls import parse_url

def peak():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    return int(line.split()[1])

url, host_key = sys.stdin.read().split("\\n")
endpoint = Endpoint(parse_url(url), host_key=host_key or None)
with Drop(endpoint).producer(Patience(attempts=10)) as producer:
    for path in sys.argv[1:]:
        producer.send([Outgoing(Path(path))], group=Path(path).stem + "_")
        print(peak(), flush=True)
"""
MOST = 80 * 1024  # KiB of growth, as for a transfer that is not cut


@pytest.mark.parametrize("kind", ["sftp", "smb"])
def test_memory_does_not_grow_with_what_was_cut(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    through = reach(request, kind)
    for name, size in (("small.bin", MIB), ("large.bin", 2 * MIDDLING)):
        make_file(tmp_path / name, size)
    points = [2 * MIDDLING * tenth // 10 for tenth in range(1, 9)]
    cuts, over = 0, threading.Event()

    def cut_at_each_point() -> None:
        nonlocal cuts
        while points and not over.wait(0.01):
            if through.proxy.received >= points[0]:
                del points[0]
                through.proxy.cut()
                cuts += 1

    cutting = threading.Thread(target=cut_at_each_point)
    cutting.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(tmp_path / "small.bin"), str(tmp_path / "large.bin")],
            input="\n".join(through.url()),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    finally:
        over.set()
        cutting.join()
    assert done.returncode == 0, done.stderr[-2000:]
    assert cuts == 8
    first, second = map(int, done.stdout.split())
    assert first > 20_000, "it is the memory of a Python process indeed"
    assert second - first < MOST
    assert digest_of(through.seen / "large_0000000001.bin") == digest_of(tmp_path / "large.bin")
