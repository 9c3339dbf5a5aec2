"""Three ways to rename without replacing, and a trial that finds out which of them a folder has.

    renameat2(RENAME_NOREPLACE)     one step, where kernel and file system have it (not NFS)
    link, then unlink               the link is one step; both names are seen for a moment, and a crash leaves both
    reserve, then rename            an exclusive create takes the name, an empty file is seen for a moment

In the second way the removal of the source decides who won, should two publish one source.
Names are bytes below open folders. None of the steps follows a symbolic link.
"""

import ctypes
import errno
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from transports.base import Fact, Guarantee
from transports.local.errors import error_for
from transports.local.folders import flush
from transports.local.volume import Volume

# (source folder, source name, target folder, target name); raises OSError, FileExistsError where the target is taken
Rename = Callable[[int, bytes, int, bytes], None]


class HalfDone(Exception):
    """The target was made; what became of the source is not known here."""


_LIBC = ctypes.CDLL(None, use_errno=True)
_RENAME_NOREPLACE = 1
_NOT_HERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV, errno.EMLINK})


def rename_noreplace(src_folder: int, src: bytes, dst_folder: int, dst: bytes) -> None:
    """renameat2 with RENAME_NOREPLACE."""
    call = getattr(_LIBC, "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, "this C library has no renameat2")
    if call(src_folder, src, dst_folder, dst, _RENAME_NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def link_and_unlink(src_folder: int, src: bytes, dst_folder: int, dst: bytes) -> None:
    """link, then unlink of the source. Raises HalfDone where only the first of the two was done."""
    os.link(src, dst, src_dir_fd=src_folder, dst_dir_fd=dst_folder, follow_symlinks=False)
    _drop(src_folder, src)


def reserve_and_rename(src_folder: int, src: bytes, dst_folder: int, dst: bytes) -> None:
    """An exclusive create of the target, then a rename over it. A crash between leaves an empty target."""
    os.stat(src, dir_fd=src_folder, follow_symlinks=False)
    reserved = os.open(dst, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=dst_folder)
    try:
        os.rename(src, dst, src_dir_fd=src_folder, dst_dir_fd=dst_folder)
    except OSError:
        with suppress(OSError):
            if os.path.samestat(os.fstat(reserved), os.stat(dst, dir_fd=dst_folder, follow_symlinks=False)):
                os.unlink(dst, dir_fd=dst_folder)
        raise
    finally:
        os.close(reserved)


def publish_by(rename: Rename, src_folder: int, src: bytes, dst_folder: int, dst: bytes) -> None:
    """Renames, and finishes what an earlier call began.

    Two names of one file mean that a publication was cut between its steps, or that on NFS the answer to a link was lost
    and the second try was refused. POSIX makes a rename between them a no-op, so that without this it stays so for ever.

    Raises OSError as `rename`, and HalfDone.
    """
    try:
        rename(src_folder, src, dst_folder, dst)
    except OSError:
        if not _two_names_of_one_file(src_folder, src, dst_folder, dst):
            raise
        _drop(src_folder, src)


def replace(src_folder: int, src: bytes, dst_folder: int, dst: bytes) -> None:
    """rename(2), also where both are names of one file. Raises OSError."""
    os.rename(src, dst, src_dir_fd=src_folder, dst_dir_fd=dst_folder)
    if _two_names_of_one_file(src_folder, src, dst_folder, dst):
        os.unlink(src, dir_fd=src_folder)


def _drop(folder: int, name: bytes) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        raise HalfDone(f"the target is made, and the source could not be removed: {error.strerror}") from error


def _two_names_of_one_file(src_folder: int, src: bytes, dst_folder: int, dst: bytes) -> bool:
    try:
        source = os.stat(src, dir_fd=src_folder, follow_symlinks=False)
        target = os.stat(dst, dir_fd=dst_folder, follow_symlinks=False)
        one_folder = os.path.samestat(os.fstat(src_folder), os.fstat(dst_folder))
    except OSError:
        return False
    # One name given twice, or twice in another case where case does not count, has one link: it must not be removed.
    return os.path.samestat(source, target) and source.st_nlink > 1 and not (one_folder and src == dst)


@dataclass(frozen=True, slots=True)
class Ways:
    """How files are renamed in one folder, and what was seen of it."""

    rename: Rename
    create: Fact
    publish: Fact
    claim: Fact
    replace: Fact
    durable: Fact


def tried(folder: int, volume: Volume) -> Ways:
    """Finds out by renaming two scratch files of its own. Raises TransportError where even that fails oddly."""
    try:
        return _Trial(folder, volume).run()
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT):
            # A reader of a read-only folder, or a consumer of a full one, has no need of it.
            unknown = Fact(Guarantee.NONE, f"not tried, since no scratch file could be made: {error.strerror}")
            return Ways(rename_noreplace, unknown, unknown, unknown, unknown, unknown)
        raise error_for("connect", "", error) from error


class _Trial:
    def __init__(self, folder: int, volume: Volume) -> None:
        self._folder = folder
        self._volume = volume
        self._first, self._second, self._third = (f"T_{secrets.token_hex(8)}".encode() for _ in range(3))

    def run(self) -> Ways:
        try:
            return self._run()
        finally:
            for name in (self._first, self._second, self._third):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._folder)

    def _run(self) -> Ways:
        for name in (self._first, self._second):
            self._make(name)
        create = self._fact(
            "a second exclusive create of one name was refused", proved=_refused(partial(self._make, self._second))
        )
        rename, publish = self._publish()
        kind = self._volume.kind
        return Ways(
            rename,
            create,
            publish,
            claim=self._fact(f"rename(2) on {kind}"),
            replace=self._fact(f"rename(2) over an existing file on {kind}"),
            durable=self._durable(),
        )

    def _publish(self) -> tuple[Rename, Fact]:
        refusals = []
        for name, rename in (("renameat2", rename_noreplace), ("link", link_and_unlink)):
            try:
                proved = _refused(partial(self._rename, rename))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                refusals.append(f"{name}: {error.strerror}")
                continue
            seen = f"{name}: two scratch files kept their names, a free name was given"
            return rename, self._fact(f"{seen} ({'; '.join(refusals)})" if refusals else seen, proved=proved)
        why = f"the name is reserved by an exclusive create, and an empty file shows for a moment ({'; '.join(refusals)})"
        return reserve_and_rename, Fact(Guarantee.CHECKED, why)

    def _rename(self, rename: Rename) -> None:
        """Gives the first scratch file the free name, then tries to give it the taken one."""
        rename(self._folder, self._first, self._folder, self._third)
        self._first, self._third = self._third, self._first
        rename(self._folder, self._first, self._folder, self._second)

    def _make(self, name: bytes) -> None:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._folder))

    def _durable(self) -> Fact:
        if self._volume.in_memory:
            return Fact(Guarantee.NONE, f"{self._volume.kind} is memory")
        if flush(self._folder):
            return Fact(Guarantee.ATOMIC, "fsync of the file and of its folder")
        return Fact(Guarantee.CHECKED, f"fsync of the file; {self._volume.kind} has none for a folder")

    def _fact(self, evidence: str, *, proved: bool = True) -> Fact:
        if not proved:
            return Fact(Guarantee.NONE, f"the trial failed, not so: {evidence}")
        if self._volume.behind_a_mount:
            return Fact(
                Guarantee.CHECKED, f"{evidence}; what other hosts do at once is up to what is behind {self._volume.kind}"
            )
        return Fact(Guarantee.ATOMIC, evidence)


def _refused(step: Callable[[], None]) -> bool:
    try:
        step()
    except FileExistsError:
        return True
    return False
