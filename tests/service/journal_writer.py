"""A process that appends to a journal: `python -m tests.service.journal_writer FILE MAX_BYTES KEEP NAME COUNT`.

It says "ready", waits for a line, and ends when it has recorded COUNT transitions of the owner NAME.
"""

import sys
from pathlib import Path

from gateway.service.journal import Journal
from tests.service.steps import step


def main(file: str, max_bytes: str, keep: str, name: str, count: str) -> None:
    journal = Journal(Path(file), int(max_bytes), int(keep))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for number in range(int(count)):
        journal.record(step(number, owner=name))
    journal.close()
    sys.exit(1 if journal.errors else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
