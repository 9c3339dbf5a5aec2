"""A terminal shows how far things are; a pipe shows nothing of it."""

import os
import pty
import re
import subprocess
from pathlib import Path

from tests.cli.tools import WITHIN, Place
from tests.e2e.commands import DROPGATE
from tests.gateway.tools import hand_over


def on_a_terminal(place: Place, *words: str, results: bool = False) -> tuple[int, str, str]:
    """Runs a command whose standard error is a real terminal: its exit code, its results, what the terminal got.

    `results` go to the terminal as well.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [DROPGATE, *words],
        cwd=place.folder,
        env=place.environment(TERM="xterm-256color", COLUMNS="100", LINES="30"),
        stdin=subprocess.DEVNULL,
        stdout=theirs if results else subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while data := _read(ours):
            seen += data
    finally:
        os.close(ours)
    out, _ = process.communicate(timeout=WITHIN)
    return process.returncode, (out or b"").decode(), seen.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # Linux says EIO once nobody has the other end


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_sending_shows_rate_and_time_left(place: Place) -> None:
    place.drop()
    sparse(place.folder / "large [red] file.bin", 300_000_000)
    code, out, seen = on_a_terminal(place, "send", "./drop", "large [red] file.bin", "--group", "orders_")
    assert (code, out) == (0, "orders_0000000001  300000000 bytes  large [red] file.bin\n")
    assert "large [red] file.bin" in seen
    assert re.search(r"[0-9.]+ [kKMG]i?B/s", seen), "the rate"
    assert re.search(r"0:00:0\d", seen), "the time that is left"
    assert "\x1b[?25h" in seen, "the cursor is given back"


def test_receiving_shows_how_much_has_come(place: Place) -> None:
    drop = place.drop()
    (place.folder / "inbox").mkdir()
    for number in (1, 2):
        hand_over(drop, number, b"x" * 20_000_000)
    code, out, seen = on_a_terminal(place, "receive", "./drop", "--group", "orders_", "--to", "inbox", "--once")
    assert code == 0
    assert len(out.splitlines()) == 2
    assert re.search(r"\d items?", seen)
    assert re.search(r"[0-9.]+ M?B", seen)
    assert "\x1b[?25h" in seen


def test_results_on_the_same_terminal_are_whole_lines(place: Place) -> None:
    place.drop()
    files = [place.write(f"{number} [red].csv") for number in range(5)]
    code, _, seen = on_a_terminal(place, "send", "./drop", *files, "--group", "orders_", results=True)
    assert code == 0
    for number, file in enumerate(files, start=1):
        assert f"orders_{number:010}  8 bytes  {file}" in seen


def test_an_error_is_red_on_a_terminal_and_plain_elsewhere(place: Place) -> None:
    code, _, seen = on_a_terminal(place, "status", "./nope")
    assert code == 3
    assert "\x1b[31m" in seen
    assert "\x1b" not in place.run("status", "./nope").err


def test_a_pipe_gets_nothing_but_results(place: Place) -> None:
    place.drop()
    sparse(place.folder / "large.bin", 100_000_000)
    sent = place.run("send", "./drop", "large.bin", "--group", "orders_")
    assert (sent.code, sent.err) == (0, "")
    assert sent.out == "orders_0000000001  100000000 bytes  large.bin\n"


def test_a_service_logs_lines_for_people_on_a_terminal(place: Place) -> None:
    here = place.drop("here")
    place.drop("there")
    hand_over(here, 1)
    tables = '[drop.a]\nurl = "here"\n[drop.b]\nurl = "there"\n[[route]]\nfrom = "a"\nto = "b"\ngroups = ["orders_"]\n'
    place.write("route.toml", tables)
    code, out, seen = on_a_terminal(place, "run", "route.toml", "--once")
    assert (code, out) == (0, "")
    assert "forwarded" in seen
    assert '"event"' not in seen
