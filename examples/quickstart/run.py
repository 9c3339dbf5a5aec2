"""The quickstart: two local drops, a route between them, sample files sent every few seconds, and both ends shown live.

    make run            until Ctrl-C
    make run ONCE=1     a few rounds, then checks that everything arrived, and ends by itself

It does what a user would do at three terminals, with the command `dropgate` alone.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PLACE = Path("quickstart").absolute()
DROPGATE = str(Path(sys.executable).with_name("dropgate"))
ROUNDS_OF_ONE_RUN = 3
SECONDS_BETWEEN = 3.0
SECONDS_TO_ARRIVE = 30.0


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
    """Whether every sample is an after image at the source, and ready at the destination."""
    done = len(list((PLACE / "source").glob("A_orders_*.manifest.json")))
    ready = len(list((PLACE / "destination").glob("orders_*.manifest.json")))
    return done == ready == sent


def main() -> int:
    once = os.environ.get("ONCE", "") not in ("", "0")
    if once:
        shutil.rmtree(PLACE, ignore_errors=True)
    for folder in ("source", "destination", "samples"):
        (PLACE / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "dropgate.toml", PLACE / "dropgate.toml")
    # What was processed is remembered here, and not beside what this account really does.
    os.environ["XDG_STATE_HOME"] = str(PLACE / "state")
    print(f"Two drops and a route in {PLACE}. Look into them with `ls -1` at any time.", flush=True)
    route = subprocess.Popen([DROPGATE, "run", "dropgate.toml"], cwd=PLACE, process_group=0)
    sent = 0
    try:
        number = 0
        while not once or number < ROUNDS_OF_ONE_RUN:
            number += 1
            files = [str(path.relative_to(PLACE)) for path in make_samples(number)]
            dropgate("send", "source", *files, "--group", "orders_")
            sent += len(files)
            time.sleep(SECONDS_BETWEEN if not once else 1.0)
            show_both_ends()
            if route.poll() is not None:
                print("the route has ended by itself", file=sys.stderr)
                return 1
        deadline = time.monotonic() + SECONDS_TO_ARRIVE
        while not everything_arrived(sent) and time.monotonic() < deadline:
            time.sleep(0.2)
        show_both_ends()
        if not everything_arrived(sent):
            print(f"not all of {sent} files arrived within {SECONDS_TO_ARRIVE:g} s", file=sys.stderr)
            return 1
        print(f"All {sent} files were handed over, each exactly once.", flush=True)
        return 0
    except KeyboardInterrupt:
        print("\nStopping; what is in ./quickstart stays for you to look at.", flush=True)
        return 0
    finally:
        route.send_signal(signal.SIGTERM)
        route.wait(30)


if __name__ == "__main__":
    sys.exit(main())
