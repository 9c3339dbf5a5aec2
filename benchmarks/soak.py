"""The gateway for minutes or hours, over connections that are cut all the time: is anything lost, doubled, or left open?

    python benchmarks/soak.py --minutes 10
    python benchmarks/soak.py --minutes 600 --rate 2

One `dropgate run` carries four routes between a real OpenSSH, a real Samba and local folders, each server behind a proxy
that cuts, refuses and delays at random. Producers reach the servers directly. Ends with 0 where every item is at each of its
destinations exactly once and whole, peak memory is below the bound, and as many files are open at the end as at the start.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.places import Place, place, say
from gateway.drop import Drop, Outgoing
from protocol.manifest import parse_manifest
from protocol.names import Name
from protocol.rules import Rules
from protocol.states import State
from testenv.proxy import Proxy
from testenv.spec import uid
from transports.endpoint import Endpoint
from transports.urls import parse_url

GROUP = "soak_"
MEMORY_BOUND = 250  # MiB
_SIZES = (200, 200, 4_000, 60_000, 400_000, 3_000_000)  # bytes, taken by chance; now and then one of _LARGE
_LARGE = 24_000_000
_DRAIN = 300.0  # seconds that the routes are given to come to their end
_REST = 12.0  # seconds of quiet before open files are counted


@dataclass(frozen=True, slots=True)
class Spot:
    """One folder of the run: as the gateway reaches it, as a producer does, and as this machine sees it."""

    name: str
    endpoint: str  # of the gateway's configuration; "": a local folder
    direct: Endpoint
    seen: Path


@dataclass(frozen=True, slots=True)
class Line:
    """A route of the run."""

    name: str
    source: Spot
    targets: tuple[Spot, ...]


@dataclass(slots=True)
class Sent:
    """What producers handed over, by route: each key with its content's hash."""

    keys: dict[str, dict[str, str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


def spot(at: Place, name: str, kind: str) -> Spot:
    """A fresh folder on a server, or here."""
    seen = at.seen / name
    seen.mkdir()
    if kind and os.getuid() == 0:
        os.chown(seen, uid(), uid())
    return Spot(name, kind, Endpoint(parse_url(f"{at.address.url}/{name}"), host_key=at.address.host_key), seen)


def lines_of(sftp: Place, smb: Place, here: Place) -> list[Line]:
    """Both directions between the servers, one route out of a local folder, and one to both servers at once."""
    return [
        Line("sftp-smb", spot(sftp, "one", "sftp"), (spot(smb, "one-there", "smb"),)),
        Line("smb-sftp", spot(smb, "two", "smb"), (spot(sftp, "two-there", "sftp"),)),
        Line("local-sftp", spot(here, "three", ""), (spot(sftp, "three-there", "sftp"),)),
        Line("local-both", spot(here, "four", ""), (spot(sftp, "four-sftp", "sftp"), spot(smb, "four-smb", "smb"))),
    ]


def configuration(lines: list[Line], sftp: Place, smb: Place, proxies: dict[str, Proxy], state: Path) -> str:
    """The gateway's file. Its servers are reached through the proxies."""
    text = f'[ledger]\nurl = "sqlite://{state}/ledger.db"\n'
    for name, at in (("sftp", sftp), ("smb", smb)):
        port = parse_url(at.address.url).port
        url = at.address.url.replace(f":{port}/", f":{proxies[name].port}/", 1)
        text += f'[endpoint.{name}]\nurl = "{url}"\nconnect_timeout = 10\nreply_timeout = 15\nmax_connections = 12\n'
        text += f'host_key = "{at.address.host_key}"\n' if at.address.host_key else ""
    for line in lines:
        for one in (line.source, *line.targets):
            where = f'endpoint = "{one.endpoint}"\ndirectory = "{one.name}"' if one.endpoint else f'url = "{one.seen}"'
            text += f'[drop.{one.name}]\n{where}\ngroups = ["{GROUP}"]\n'
        to = json.dumps([one.name for one in line.targets])
        text += f'[[route]]\nname = "{line.name}"\nfrom = "{line.source.name}"\nto = {to}\npoll = 0.5\nlease_ttl = 10\n'
    return text


def send_one(line: Line, sent: Sent, chance: random.Random, scratch: Path, size: int | None = None) -> None:
    """Hands one item over, straight to its server."""
    wanted = size or (_LARGE if chance.random() < 0.01 else chance.choice(_SIZES))
    content = chance.randbytes(wanted)
    path = scratch / f"{line.name}.bin"
    path.write_bytes(content)
    with Drop(line.source.direct).producer() as producer:
        published = producer.send([Outgoing(path)], group=GROUP)
    with sent.lock:
        sent.keys.setdefault(line.name, {})[published.key] = hashlib.sha256(content).hexdigest()


def produce(line: Line, sent: Sent, stop: threading.Event, rate: float, scratch: Path) -> None:
    """Hands items over until `stop`, about `rate` a second."""
    chance = random.Random(line.name)  # noqa: S311 - sizes, and no secret
    while not stop.wait(chance.expovariate(rate)):
        send_one(line, sent, chance, scratch)


def harm(proxies: dict[str, Proxy], stop: threading.Event, done: Counter[str]) -> None:
    """Does to the connections what bad networks do, until `stop`; then all is well again."""
    chance = random.Random(1)  # noqa: S311 - no secret either
    while not stop.wait(chance.uniform(1.0, 6.0)):
        proxy = chance.choice(list(proxies.values()))
        what = chance.choices(("cut", "refused", "slow", "silent"), (6, 2, 2, 1))[0]
        done[what] += 1
        match what:
            case "cut":
                proxy.cut()
                continue
            case "refused":
                proxy.refuse()
            case "slow":
                proxy.delay(0.05)
            case _:
                proxy.black_hole()
        stop.wait(chance.uniform(1.0, 5.0))
        proxy.heal()
    for proxy in proxies.values():
        proxy.heal()


def tokens(seen: Path, *states: State) -> list[tuple[Name, Path]]:
    """The tokens of a folder in some states."""
    grammar = Rules().grammar
    found = [(grammar.parse(path.name), path) for path in seen.iterdir() if path.name.endswith(".manifest.json")]
    return [(name, path) for name, path in found if isinstance(name, Name) and name.state in states]


def waits(lines: list[Line]) -> int:
    """Items that are not after images at their source yet."""
    return sum(len(tokens(line.source.seen, State.READY, State.CLAIMED, State.DONE)) for line in lines)


def judge(lines: list[Line], sent: Sent) -> tuple[int, int, int, int]:
    """Items, and of their publications those that are lost, doubled or damaged."""
    items = lost = doubled = damaged = 0
    for line in lines:
        keys = sent.keys.get(line.name, {})
        items += len(keys)
        for target in line.targets:
            found = Counter[str]()
            for name, path in tokens(target.seen, State.READY):
                manifest = parse_manifest(path.read_bytes())
                found[manifest.key] += 1
                payload = target.seen / manifest.files[0].name
                whole = payload.exists() and hashlib.sha256(payload.read_bytes()).hexdigest() == keys.get(manifest.key)
                damaged += not whole
                if not whole:
                    say(f"damaged or foreign: {name} at {target.name}")
            lost += sum(found[key] == 0 for key in keys)
            doubled += sum(count - 1 for count in found.values() if count > 1)
    return items, lost, doubled, damaged


class Watcher(threading.Thread):
    """Remembers the largest memory of a process."""

    def __init__(self, process: psutil.Process, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.process, self.stop, self.peak = process, stop, 0

    def run(self) -> None:
        while not self.stop.wait(0.5):
            with contextlib.suppress(psutil.Error):
                self.peak = max(self.peak, self.process.memory_info().rss)


def settle(lines: list[Line], process: "subprocess.Popen[bytes]") -> int:
    """Waits until every source is empty; returns how many items are not through by then."""
    deadline = time.monotonic() + _DRAIN
    while waits(lines) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.5)
    time.sleep(_REST)
    return waits(lines)


def run(options: argparse.Namespace, lines: list[Line], config: Path, proxies: dict[str, Proxy], scratch: Path) -> int:
    """Runs it, prints what came of it, and returns the exit code."""
    sent, stop, done = Sent(), threading.Event(), Counter[str]()
    command = [str(Path(sys.executable).with_name("dropgate")), "run", str(config)]
    with (scratch / "gateway.log").open("wb") as log:
        process = subprocess.Popen(command, env=os.environ | {"XDG_STATE_HOME": str(scratch)}, stderr=log)
    try:
        for line in lines:  # so that everything is loaded and connected before files are counted
            send_one(line, sent, random.Random(0), scratch, 1000)  # noqa: S311 - no secret
        if settle(lines, process):
            say((scratch / "gateway.log").read_text()[-3000:])
            raise RuntimeError("the routes do not even begin")
        about = psutil.Process(process.pid)
        at_start = about.num_fds()
        watcher = Watcher(about, stop)
        threads = [threading.Thread(target=produce, args=(line, sent, stop, options.rate, scratch)) for line in lines]
        threads += [threading.Thread(target=harm, args=(proxies, stop, done)), watcher]
        for thread in threads:
            thread.start()
        begun = time.monotonic()
        while time.monotonic() - begun < options.minutes * 60 and process.poll() is None:
            time.sleep(1.0)
        stop.set()
        for thread in threads:
            thread.join(120)
        left = settle(lines, process)
        at_end = about.num_fds() if process.poll() is None else -1
        process.send_signal(signal.SIGTERM)
        status = process.wait(90)
    finally:
        stop.set()
        if process.poll() is None:
            process.kill()
            process.wait()
    items, lost, doubled, damaged = judge(lines, sent)
    peak = watcher.peak / 2**20
    say(f"items {items}, not through in time {left}, connections harmed: {dict(sorted(done.items()))}")
    say(f"losses {lost}")
    say(f"duplicates {doubled}")
    say(f"damaged {damaged}")
    say(f"peak memory {peak:.0f} MiB of {MEMORY_BOUND}")
    say(f"open files {at_start} at the start, {at_end} at the end")
    fine = (left, lost, doubled, damaged, status) == (0, 0, 0, 0, 0) and peak < MEMORY_BOUND and at_start == at_end
    if not fine:
        say(f"the gateway ended with {status}; the end of its log:")
        say((scratch / "gateway.log").read_text()[-6000:])
    return 0 if fine else 1


def main(arguments: list[str]) -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=1.0, help="items a second for each route")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and gateway end with us
    with place("sftp") as sftp, place("smb") as smb, place("local") as here, tempfile.TemporaryDirectory() as scratch:
        ports = {name: parse_url(at.address.url).port or 0 for name, at in (("sftp", sftp), ("smb", smb))}
        with Proxy("127.0.0.1", ports["sftp"]) as first, Proxy("127.0.0.1", ports["smb"]) as second:
            proxies = {"sftp": first, "smb": second}
            lines = lines_of(sftp, smb, here)
            config = Path(scratch) / "dropgate.toml"
            config.touch(0o600)  # passwords of the test servers are in it
            config.write_text(configuration(lines, sftp, smb, proxies, Path(scratch)))
            say(f"{sftp.server}; {smb.server}; {len(lines)} routes, {options.minutes:g} minutes")
            return run(options, lines, config, proxies, Path(scratch))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
