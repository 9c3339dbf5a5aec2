"""Runs a check in a process of its own that may mount file systems and change its user: both end with it."""

import ctypes
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY = 1
_MS_REMOUNT = 32
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18

_NOBODY = 65534


def run_isolated(check: Callable[..., None], *arguments: object) -> None:
    """Calls a function of a module in a fresh process with mounts of its own. What it raises is raised here."""
    _run(_enter, check, *arguments)


def run_as_nobody(check: Callable[..., None], *arguments: object) -> None:
    """Calls a function of a module in a fresh process of another user. Only root can."""
    _run(_change_user, check, *arguments)


def _run(prepare: Callable[[], None], check: Callable[..., None], *arguments: object) -> None:
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(1, context) as executor:
        executor.submit(_prepared, prepare, check, *arguments).result(timeout=60)


def _prepared(prepare: Callable[[], None], check: Callable[..., None], *arguments: object) -> None:
    prepare()
    check(*arguments)


def _change_user() -> None:
    os.setuid(_NOBODY)


def _enter() -> None:
    user, group = os.getuid(), os.getgid()
    if _LIBC.unshare(_CLONE_NEWNS) != 0:
        # Not root, or root without the right to mount: become root of a user namespace.
        _done(_LIBC.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _done(_LIBC.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))


def mount_tmpfs(folder: Path, options: str) -> None:
    """A real file system of a given size ("size=256k,nr_inodes=100")."""
    _done(_LIBC.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, options.encode()))


def mount_bind(source: Path, folder: Path) -> None:
    """The same file system in a second place."""
    _done(_LIBC.mount(bytes(source), bytes(folder), None, _MS_BIND, None))


def make_read_only(folder: Path) -> None:
    """Of a mounted tmpfs."""
    _done(_LIBC.mount(None, bytes(folder), None, _MS_REMOUNT | _MS_RDONLY, None))


def unmount(folder: Path) -> None:
    _done(_LIBC.umount2(bytes(folder), 0))


def _done(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"mounting for this test: {os.strerror(ctypes.get_errno())}")
