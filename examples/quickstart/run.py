"""The quickstart: local drops, a route between them, sample files sent every few seconds, and the page that shows it.

    make run            until Ctrl-C
    make run ONCE=1     a few rounds, then checks that everything arrived, and ends by itself

It does what a user would do at three terminals, with the command `dropgate` alone.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
PLACE = Path("quickstart").absolute()
DROPGATE = str(Path(sys.executable).with_name("dropgate"))
ROUNDS_OF_ONE_RUN = 3
SECONDS_BETWEEN = 3.0
SECONDS_TO_ARRIVE = 60.0
SECONDS_TO_START = 60.0
USUAL_PORT = 8080


def make_samples(number: int) -> list[Path]:
    """A few files such as a shop would hand over: a table, a document, a larger export."""
    samples = PLACE / "samples"
    table = samples / f"orders-{number:04}.csv"
    table.write_text(
        "order;article;amount\n" + "".join(f"{number}-{line};A{line:03};{line * number}\n" for line in range(1, 20))
    )
    note = samples / f"note-{number:04}.txt"
    note.write_text(f"Delivery note of round {number}\n")
    export = samples / f"export-{number:04}.json"
    export.write_text('{"rows": [' + ", ".join(f'"{row:064}"' for row in range(2000)) + "]}\n")
    return [table, note, export]


def dropgate(*words: str) -> None:
    """Runs one command as it would be typed, and shows it."""
    print(f"$ dropgate {' '.join(words)}", flush=True)
    subprocess.run([DROPGATE, *words], cwd=PLACE, check=True)


def show_both_ends() -> None:
    """What an operator sees."""
    for drop in ("source", "destination"):
        dropgate("status", drop, "--limit", "3")


def everything_arrived(sent: int) -> bool:
    """Whether every sample is an after image at the source, and ready at both destinations."""
    done = len(list((PLACE / "source").glob("A_orders_*.manifest.json")))
    ready = [len(list((PLACE / drop).glob("orders_*.manifest.json"))) for drop in ("destination", "copy")]
    return [done, *ready] == [sent] * 3


def page_address() -> str:
    """Where the page is to be: at its usual port, or at any other where somebody else has that one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", USUAL_PORT))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def wait_for_page(url: str, gateway: "subprocess.Popen[bytes]") -> bool:
    """Whether the page answers, before long."""
    deadline = time.monotonic() + SECONDS_TO_START
    while gateway.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/", timeout=5) as page:  # noqa: S310 - http, here
            return b"quickstart" in page.read()
        time.sleep(0.2)
    return False


def main() -> int:
    once = os.environ.get("ONCE", "") not in ("", "0")
    if once:
        shutil.rmtree(PLACE, ignore_errors=True)
    for folder in ("source", "destination", "copy", "samples"):
        (PLACE / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "dropgate.toml", PLACE / "dropgate.toml")
    address = page_address()
    # What was processed is remembered here, and not beside what this account really does.
    os.environ.update(XDG_STATE_HOME=str(PLACE / "state"), DROPGATE_WEB__LISTEN=address)
    print(f"Three drops and a route in {PLACE}. Look into them with `ls -1` at any time.", flush=True)
    with (PLACE / "gateway.log").open("ab") as log:
        gateway = subprocess.Popen([DROPGATE, "run", "dropgate.toml"], cwd=PLACE, process_group=0, stderr=log)
    consumer: subprocess.Popen[bytes] | None = None
    try:
        if not wait_for_page(f"http://{address}", gateway):
            print(f"the page does not answer at http://{address}; see {PLACE / 'gateway.log'}", file=sys.stderr)
            return 1
        print(f"The page: http://{address}", flush=True)
        if once:
            return a_few_rounds()
        # Somebody who takes what arrives, so that it can be seen coming and going; Ctrl-C is for us to pass on.
        takes = ("receive", "destination", "--group", "orders_", "--to", "received")
        (PLACE / "received").mkdir(exist_ok=True)
        consumer = subprocess.Popen([DROPGATE, *takes], cwd=PLACE, process_group=0, stdout=subprocess.DEVNULL)
        print("Files are sent every few seconds. Ctrl-C ends it.", flush=True)
        number = 0
        while gateway.poll() is None:
            number += 1
            send_samples(number)
            time.sleep(SECONDS_BETWEEN)
        print(f"the gateway has ended by itself; see {PLACE / 'gateway.log'}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopping; what is in ./quickstart stays for you to look at.", flush=True)
        return 0
    finally:
        for process in (consumer, gateway):
            if process is not None:
                process.send_signal(signal.SIGTERM)
                process.wait(30)


def send_samples(number: int) -> int:
    """Sends a few files, and tells how many."""
    files = [str(path.relative_to(PLACE)) for path in make_samples(number)]
    dropgate("send", "source", *files, "--group", "orders_")
    return len(files)


def a_few_rounds() -> int:
    """Sends some files, and checks that everything arrives."""
    sent = 0
    for number in range(1, ROUNDS_OF_ONE_RUN + 1):
        sent += send_samples(number)
        show_both_ends()
    deadline = time.monotonic() + SECONDS_TO_ARRIVE
    while not everything_arrived(sent) and time.monotonic() < deadline:
        time.sleep(0.2)
    show_both_ends()
    if not everything_arrived(sent):
        print(f"not all of {sent} files arrived within {SECONDS_TO_ARRIVE:g} s", file=sys.stderr)
        return 1
    print(f"All {sent} files were handed over, each exactly once.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
