"""SIGTERM and Ctrl-C: the item at hand is finished, a second Ctrl-C gives it back, and no claim is left behind."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.tools import Place, ended, gone, interrupt, names, until
from tests.gateway.tools import hand_over

STEM = "orders_0000000001"
AFTER = [f"A_{STEM}.csv", f"A_{STEM}.manifest.json"]
READY = [f"{STEM}.csv", f"{STEM}.manifest.json"]


class Held:
    """A command for `--exec` that says that it has begun, and goes on until it is let go."""

    def __init__(self, place: Place) -> None:
        self.begun = place.folder / "begun"
        self.go_on = place.folder / "go_on"
        script = place.folder / "held.sh"
        script.write_text(f'echo $$ > "{self.begun}.part"; mv "{self.begun}.part" "{self.begun}"\n'
                          f'while [ ! -e "{self.go_on}" ]; do sleep 0.05; done\n')  # fmt: skip
        self.line = f"sh {script} {{}}"

    def wait(self) -> int:
        """Until it has begun; its process."""
        until(self.begun.exists, "the command to begin")
        return int(self.begun.read_text())


@pytest.fixture
def held(place: Place) -> Iterator[Held]:
    held = Held(place)
    yield held
    held.go_on.touch()


def receiving(held: Held, *more: str) -> tuple[str, ...]:
    return ("receive", "./drop", "--group", "orders_", "--exec", held.line, "--poll", "0.05", *more)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_item_at_hand_is_finished(place: Place, held: Held, number: signal.Signals) -> None:
    drop = place.drop()
    hand_over(drop, 1)
    hand_over(drop, 2)
    with place.started(*receiving(held, "--ordering", "fifo")) as process:
        held.wait()
        process.send_signal(number)
        assert [name for name in names(drop) if name.startswith("C_")], "it is still at it"
        held.go_on.touch()
        end = ended(process)
    assert (end.code, end.err) == (0, "")
    assert end.out == f"{STEM}  8 bytes  sh: exit status 0\n"
    assert names(drop) == sorted([*AFTER, "orders_0000000002.csv", "orders_0000000002.manifest.json"])
    assert not list(drop.glob("L_*"))


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_second_ctrl_c_gives_the_claims_back_and_ends_the_commands(place: Place, held: Held, workers: str) -> None:
    drop = place.drop()
    for number in range(1, 4):
        hand_over(drop, number)
    before = names(drop)
    with place.started(*receiving(held, "--workers", workers)) as process:
        pid = held.wait()
        until(lambda: len(list(drop.glob("C_*"))) == int(workers), "every worker to be at it")
        interrupt(process)
        time.sleep(0.5)  # what the first does not do: end anything that is under way
        assert not gone(pid)
        interrupt(process)
        end = ended(process)
    assert end.code == 130
    assert "dropgate: interrupted" in end.err
    assert "Traceback" not in end.err
    assert names(drop) == before
    assert gone(pid)


def test_a_service_finishes_its_item_and_leaves_no_claim(place: Place) -> None:
    here, there = place.drop("here"), place.drop("there")
    place.write(
        "route.toml",
        """
        [drop.here]
        url = "here"
        groups = ["orders_"]
        [drop.there]
        url = "there"
        [[route]]
        from = "here"
        to = "there"
        poll = 0.05
        workers = 2
        """,
    )
    with place.started("run", "route.toml") as process:
        for number in range(1, 41):
            hand_over(here, number, b"x" * 300_000)
        until(lambda: list(there.glob("orders_*.manifest.json")), "a first item to arrive")
        process.send_signal(signal.SIGTERM)
        end = ended(process)
    assert end.code == 0
    assert not list(here.glob("C_*"))
    assert not list(there.glob("B_*"))
    forwarded = {path.name.removeprefix("A_") for path in here.glob("A_*.manifest.json")}
    assert forwarded == {path.name for path in there.glob("orders_*.manifest.json")}, "done here is there, and nothing else is"
    assert all((there / name.replace("manifest.json", "csv")).stat().st_size == 300_000 for name in forwarded)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_send_that_is_stopped_takes_its_unfinished_file_away(place: Place, number: signal.Signals) -> None:
    drop = place.drop()
    with (place.folder / "large.bin").open("wb") as file:
        file.truncate(30_000_000_000)  # sparse: it takes no room here, and for ever to be sent
    with place.started("send", "./drop", "large.bin", "--group", "orders_") as process:
        until(lambda: list(drop.glob("B_*")), "the file to be begun")
        process.send_signal(number)
        end = ended(process)
    assert end.code == 130
    assert end.err == "dropgate: interrupted\n"
    assert names(drop) == []


def test_a_worker_without_work_stops_at_once(place: Place, held: Held) -> None:
    drop = place.drop()
    with place.started(*receiving(held, "--poll", "30")) as process:
        until(lambda: list(drop.glob("L_*")), "it to be at work")
        process.send_signal(signal.SIGTERM)
        assert ended(process, within=20).code == 0


def test_what_a_killed_worker_held_is_visible_and_finished_by_the_next(place: Place, held: Held) -> None:
    drop = place.drop()
    hand_over(drop, 1)
    with place.started(*receiving(held)) as process:
        held.wait()
        process.kill()
        process.wait()
    held.go_on.touch()
    assert "  claimed        1 item " in place.called("status", "./drop").out
    received = place.run("receive", "./drop", "--group", "orders_", "--exec", "true", "--once")
    assert received.code == 0
    assert names(drop) == AFTER


def test_a_folder_that_vanishes_ends_a_service_with_a_word(place: Place, held: Held) -> None:
    drop = place.drop()
    with place.started(*receiving(held, "--poll", "0.05")) as process:
        until(lambda: list(drop.glob("L_*")), "it to be at work")
        drop.rename(Path(f"{drop}.gone"))
        end = ended(process)
    assert end.code == 3
    assert "is not there" in end.err
    assert "Traceback" not in end.err
