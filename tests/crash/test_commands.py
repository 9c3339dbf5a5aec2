"""The installed command, killed with -9 as a person at a shell does it."""

import contextlib
import json
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from protocol.states import State
from tests.crash.checks import unhealed
from tests.crash.jobs import Work, key_of, produce
from tests.crash.place import GROUP, TTL, Place
from tests.crash.processes import Crew, wait_until
from tests.e2e.commands import DROPGATE, clean_environment, dropgate

LARGE = {"local": 256 << 20, "sftp": 48 << 20, "smb": 48 << 20}  # bytes: long enough on the way to be caught in the midst
MARGIN = 20.0  # seconds that a busy machine may take to start a command


def place_words(place: Place) -> list[str]:
    """The drop, as a command is told of it."""
    return [place.url, *(["--host-key", place.host_key] if place.host_key else [])]


@pytest.fixture
def words(place: Place) -> list[str]:
    return place_words(place)


@pytest.fixture
def inbox(place: Place) -> Path:
    """Where items are delivered to."""
    folder = place.scratch / "inbox"
    folder.mkdir()
    return folder


def start(*words: str, cwd: Path) -> subprocess.Popen[bytes]:
    """A command that is killed later, in a process of its own."""
    return subprocess.Popen([DROPGATE, *words], cwd=cwd, env=clean_environment(), stdout=subprocess.DEVNULL)


def is_being_delivered(inbox: Path) -> bool:
    """Whether bytes have come; at its start a command only tries what the folder can do, with small files of its own."""
    with contextlib.suppress(FileNotFoundError):
        return any(path.stat().st_size > 1000 for path in inbox.iterdir())
    return False


def receive(words: list[str], inbox: Path, ledger: str) -> list[str]:
    return ["receive", *words, "--group", GROUP, "--to", str(inbox), "--ttl", str(TTL), "--poll", "0.5", "--ledger", ledger]


@pytest.mark.timeout(180)
def test_a_receive_killed_in_the_midst_of_a_file_is_finished_by_the_next(
    place: Place, words: list[str], inbox: Path, hands: Crew
) -> None:
    source = place.scratch / "large.bin"
    source.write_bytes(bytes(range(256)) * (LARGE[place.kind] // 256))
    dropgate("send", *words, str(source), "--group", GROUP, cwd=place.scratch)
    ledger = place.ledger_url
    victim = start(*receive(words, inbox, ledger), cwd=place.scratch)
    try:
        wait_until(lambda: is_being_delivered(inbox), "the beginning of the delivery")
        victim.send_signal(signal.SIGKILL)
    finally:
        victim.kill()
        victim.wait()
    hands.harm["kills"] += 1
    (claimed,) = place.tokens(State.CLAIMED)
    begun = time.monotonic()
    heir = start(*receive(words, inbox, ledger), cwd=place.scratch)
    try:
        wait_until(lambda: place.tokens(State.AFTER), "the next one to finish it")
        took = time.monotonic() - begun
    finally:
        heir.send_signal(signal.SIGTERM)
        assert heir.wait(60) == 0
    assert took < TTL + 0.5 + MARGIN
    # The lease of the dead goes with the next sweep, whoever makes it.
    dropgate("sweep", *words, "--ledger", ledger, cwd=place.scratch)
    assert unhealed(place) == []
    delivered = [path for path in inbox.iterdir() if path.suffix == ".bin"]
    assert [path.read_bytes() == source.read_bytes() for path in delivered] == [True]
    # The log tells the story: begun by the one, begun again by the other, done.
    output = dropgate("log", *words[:1], "--ledger", ledger, "--json", cwd=place.scratch)
    story = [json.loads(line) for line in output.splitlines()]
    assert [(line["event"], line["attempt"]) for line in story] == [
        ("started", 1),
        ("started", 2),
        ("done", 2),
        ("archived", 2),
    ]
    assert story[0]["owner"] == claimed.owner != story[1]["owner"]


@pytest.mark.timeout(180)
def test_a_sweep_heals_a_drop_whose_workers_are_all_dead(place: Place, words: list[str], inbox: Path, hands: Crew) -> None:
    files = []
    for number in range(3):
        files.append(place.scratch / f"{number}.csv")
        files[-1].write_text(f"content {number}\n")
    dropgate("send", *words, *map(str, files), "--group", GROUP, cwd=place.scratch)
    ledger = place.ledger_url
    slow = [*words, "--group", GROUP, "--exec", "sleep 30", "--ledger", ledger, "--ttl", str(TTL), "--workers", "2"]
    victim = start("receive", *slow, cwd=place.scratch)
    try:
        wait_until(lambda: len(place.tokens(State.CLAIMED)) == 2, "both workers to begin")
    finally:
        victim.kill()
        victim.wait()
    sender_source = place.scratch / "large.bin"
    sender_source.write_bytes(bytes(LARGE[place.kind]))
    sender = start("send", *words, str(sender_source), "--group", GROUP, cwd=place.scratch)
    try:
        wait_until(lambda: any(name.startswith("B_") for name in place.names()), "the beginning of the sending")
    finally:
        sender.kill()
        sender.wait()
    hands.harm["kills"] += 2
    time.sleep(1.1)  # older than nothing, on a clock of whole seconds
    dry = dropgate("sweep", *words, "--dry-run", "--ledger", ledger, "--json", cwd=place.scratch)
    assert sum(json.loads(line)["action"] == "take over" for line in dry.splitlines()) == 2
    dropgate("sweep", *words, "--before-max-age", "0", "--delete", "--ledger", ledger, cwd=place.scratch)
    assert not place.tokens(State.CLAIMED)
    assert len(place.tokens(State.READY)) == 3
    dropgate("sweep", *words, "--before-max-age", "0", "--delete", "--ledger", ledger, cwd=place.scratch)
    left = [n for n in place.names() if not n.startswith((GROUP, "S_"))]
    assert left == []
    dropgate(*receive(words, inbox, ledger), "--once", cwd=place.scratch)
    assert sorted(path.read_text() for path in inbox.iterdir()) == [f"content {number}\n" for number in range(3)]
    assert unhealed(place) == []


@pytest.mark.timeout(180)
def test_a_route_killed_again_and_again_publishes_each_item_once(place: Place, hands: Crew) -> None:
    items = 10
    produce(Work(place, count=items, size=400_000))
    target = place.scratch / "destination"
    target.mkdir()
    pin = f'host_key = "{place.host_key}"' if place.host_key else ""
    config = place.scratch / "dropgate.toml"
    config.write_text(
        f"""
        [ledger]
        url = "{place.ledger_url}"

        [endpoint.there]
        url = "{place.url}"
        {pin}

        [drop.source]
        endpoint = "there"
        groups = ["{GROUP}"]

        [drop.destination]
        url = "{target}"

        [[route]]
        from = "source"
        to = "destination"
        workers = 2
        poll = 0.2
        lease_ttl = {TTL}
        """
    )
    for before in (3, 9):
        route = start("run", str(config), cwd=place.scratch)
        try:
            wait_until(partial(_has_files, target, before), f"{before} files to arrive")
        finally:
            route.kill()
            route.wait()
        hands.harm["kills"] += 1
    # What the dead had begun to write at the destination would else be waited for, as it could be another writer's.
    time.sleep(1.1)
    dropgate("sweep", str(target), "--before-max-age", "0", "--delete", cwd=place.scratch, environment=own_state(place))
    dropgate("sweep", *place_words(place), "--ledger", place.ledger_url, cwd=place.scratch)
    dropgate("run", str(config), "--once", cwd=place.scratch)
    assert len(place.tokens(State.AFTER)) == items
    manifests = [json.loads(path.read_bytes()) for path in target.glob(f"{GROUP}*.manifest.json")]
    assert sorted(manifest["key"] for manifest in manifests) == sorted(map(key_of, range(items)))
    assert {path.stat().st_size for path in target.glob(f"{GROUP}*.csv")} == {400_000}


def own_state(place: Place) -> dict[str, str]:
    """An environment whose ledger is nobody else's."""
    return clean_environment(XDG_STATE_HOME=str(place.scratch / "state"))


def _has_files(folder: Path, least: int) -> bool:
    return len(list(folder.glob(f"{GROUP}*"))) >= least
