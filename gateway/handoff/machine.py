"""This machine and its processes, as far as a lease can prove by them that a worker is dead (PROTOCOL section 6)."""

import os
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def machine_id() -> str:
    """One running kernel and one set of process numbers: two containers of one host have one name, and two of these.

    "" where it cannot be told; nobody is then taken for dead by his pid.
    """
    try:
        return f"{_BOOT_ID.read_text().strip()}/{_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""


def process_started(pid: int) -> str:
    """When a process of this machine began, in clock ticks since boot; "" where there is none, or a dead one not reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The second field is the command's name in parentheses, and may hold anything; the rest is counted behind the last ")".
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def is_dead(pid: int, started: str) -> bool:
    """Whether the process of that number that began at that time is known to be gone from this machine."""
    return bool(started) and process_started(pid) != started


def own_process() -> tuple[int, str]:
    """Our own pid, and when we began."""
    return os.getpid(), process_started(os.getpid())
