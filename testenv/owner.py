"""Who a container or a folder belongs to: a mark that outlives its process, and whether that process still runs.

A pid alone is not enough, since pids are used again. The start time makes it unique within a boot; the boot and the PID
namespace tell whether the pid can be judged from here at all.
"""

import os
from pathlib import Path


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]")


def _started(pid: int) -> str | None:
    """The kernel's start time of a process, or None where there is none or only its zombie is left."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in parentheses and may hold anything; what follows is fixed: state, then 18 more fields.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def mark_of(pid: int) -> str:
    """The mark of a running process: boot, PID namespace, pid and start time, joined by dots."""
    started = _started(pid)
    if started is None:
        raise ProcessLookupError(f"no process {pid}")
    return f"{_boot()}.{_namespace()}.{pid}.{started}"


def pid_of(mark: str) -> int:
    """The pid in a mark that `mark_of` has made."""
    return int(mark.split(".")[2])


def is_dead(mark: str) -> bool:
    """Whether the process of this mark is known to be gone.

    False for a process of another PID namespace (it may well run), and for text that is no mark.
    """
    parts = mark.split(".")
    if len(parts) != 4 or not parts[2].isdecimal():
        return False
    boot, namespace, pid, started = parts
    if boot != _boot():
        return True
    return namespace == _namespace() and _started(int(pid)) != started
