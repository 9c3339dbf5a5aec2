"""Memory does not grow with a payload: measured as the peak of a process that first moved a small one, then a large one."""

import json
import subprocess
import sys

import pytest

from testenv.servers import SftpServer, SmbServer
from tests.cli.tools import Place

LARGE = 256 * 1024 * 1024
SMALL = 1024 * 1024
MOST = 80 * 1024  # KiB of growth

# Each group of words is one command; the peak is told after each.
MEASURE = """
import json, sys
from gateway.cli.main import app

def peak():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    return int(line.split()[1])

peaks = []
for words in json.loads(sys.argv[1]):
    if code := app(words, standalone_mode=False):
        sys.exit(f"{words} ended with {code}")
    peaks.append(peak())
print(json.dumps(peaks), file=open(sys.argv[2], "w"))
"""


@pytest.fixture
def payloads(place: Place) -> None:
    """A small file, and a large one that takes no room."""
    for name, size in (("small.bin", SMALL), ("large.bin", LARGE)):
        with (place.folder / name).open("wb") as file:
            file.truncate(size)


def growth(place: Place, small: tuple[str, ...], large: tuple[str, ...]) -> int:
    """KiB that the second command needed at its peak beyond the first."""
    peaks = place.folder / "peaks.json"
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps([small, large]), str(peaks)],
        cwd=place.folder,
        env=place.environment(),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = json.loads(peaks.read_text())
    assert first > 20_000, "it is the memory of a Python process indeed"
    return int(second - first)


@pytest.fixture
def endpoints(sftp_server: SftpServer, sftp_dir: str, smb_server: SmbServer, smb_dir: str) -> str:
    """The tables of a configuration, with one drop on each kind of endpoint."""
    return f"""
        [endpoint.sftp]
        url = "{sftp_server.url(sftp_dir)}"
        host_key = "{sftp_server.host_key}"
        [drop.sftp]
        endpoint = "sftp"
        [drop.smb]
        url = "{smb_server.url("data", smb_dir)}"
        [drop.local]
        url = "local"
    """


@pytest.mark.usefixtures("payloads")
def test_sending_and_forwarding_a_large_payload(
    place: Place, endpoints: str, sftp_server: SftpServer, sftp_dir: str, smb_server: SmbServer, smb_dir: str
) -> None:
    local = place.drop("local")
    place.write("dropgate.toml", endpoints)
    grown = {}
    for drop in ("sftp", "smb", "local"):
        small, large = (("send", drop, f"{size}.bin", "--group", f"{size}_") for size in ("small", "large"))
        grown[f"send to {drop}"] = growth(place, small, large)
    at = {"sftp": sftp_server.local(sftp_dir), "smb": smb_server.local("data", smb_dir), "local": local}
    for source, destination in (("sftp", "smb"), ("smb", "local"), ("local", "sftp")):
        folder = at[destination]
        assert folder is not None
        for path in folder.iterdir():
            path.unlink()  # what was sent there has the numbers of what is to come
        for size in ("small", "large"):
            tables = f'[[route]]\nfrom = "{source}"\nto = "{destination}"\ngroups = ["{size}_"]\n'
            place.write(f"{size}.toml", endpoints + tables)
        grown[f"{source} to {destination}"] = growth(place, ("run", "small.toml", "--once"), ("run", "large.toml", "--once"))
    assert {name: kib for name, kib in grown.items() if kib >= MOST} == {}, grown
    assert at["sftp"] is not None
    assert (at["sftp"] / "large_0000000001.bin").stat().st_size == LARGE, "it has come all the way round"
