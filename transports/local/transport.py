"""The local backend: one folder of this machine, with what its file system was seen to do."""

import os
import platform
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from transports import errors
from transports.base import Capabilities, Entry, Kind, Sink, Source, Transport
from transports.local.errors import error_for, translated
from transports.local.files import LocalSink, LocalSource
from transports.local.folders import Folders, flush, named
from transports.local.publish import HalfDone, Ways, publish_by, replace, tried
from transports.local.volume import Volume, mount_of, volume_of
from transports.local.watch import Watch
from transports.paths import checked, shown, split, unsafe_because
from transports.patterns import matches


class LocalTransport(Transport):
    """A connection to a local folder. It holds nothing open between two calls but the watches of `wait_for_change`.

    A call lasts as long as the kernel lets it: on a network file system that is mounted "hard" and has lost its server,
    no deadline of this side can end one.
    """

    def __init__(self, root: str) -> None:
        """Raises NotFound where the folder is not there, and Denied."""
        self._folders = Folders(root)
        self._open = True
        self._watches: dict[str, Watch] = {}
        with self._folders.opened("connect", "") as folder:
            with translated("connect", self._folders.root):
                volume = volume_of(folder)
                longest = os.fpathconf(folder, "PC_NAME_MAX")
            self._ways = tried(folder, volume)
        self.capabilities = _capabilities(self._ways, volume, longest)

    def create(self, path: str) -> Sink:
        self._may("create", path)
        folder, name = named("create", path)
        return LocalSink(self._folders.open("create", folder, on_behalf_of=path), name, path)

    def resume(self, path: str, at: int, before: bytes = b"") -> Sink:
        self._may("resume", path)
        folder, name = named("resume", path)
        return LocalSink(self._folders.open("resume", folder, on_behalf_of=path), name, path, (at, before))

    def open_read(self, path: str, start: int = 0) -> Source:
        self._may("open_read", path)
        with self._folders.holding("open_read", path) as (folder, name):
            return LocalSource(folder, name, path, start)

    def publish(self, src: str, dst: str) -> None:
        self._rename("publish", src, dst, lambda *names: publish_by(self._ways.rename, *names))

    def claim(self, src: str, dst: str) -> None:
        self._rename("claim", src, dst, _claim)

    def replace(self, src: str, dst: str) -> None:
        self._rename("replace", src, dst, replace)

    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        self._may("scan", folder)
        return self._scan(folder, pattern)

    def stat(self, path: str) -> Entry:
        self._may("stat", path)
        if not path:
            with self._folders.opened("stat", "") as folder, translated("stat", ""):
                return _entry("", os.fstat(folder))
        with self._folders.holding("stat", path) as (folder, name), translated("stat", path):
            return _entry(split(path)[1], os.stat(name, dir_fd=folder, follow_symlinks=False))

    def delete(self, path: str) -> None:
        self._may("delete", path)
        with self._folders.holding("delete", path) as (folder, name), translated("delete", path, change=True):
            os.unlink(name, dir_fd=folder)

    def make_dir(self, path: str) -> None:
        self._may("make_dir", path)
        with self._folders.holding("make_dir", path) as (folder, name):
            with translated("make_dir", path, change=True):
                os.mkdir(name, dir_fd=folder)
            _flush("make_dir", path, folder)

    def remove_dir(self, path: str) -> None:
        self._may("remove_dir", path)
        with self._folders.holding("remove_dir", path) as (folder, name):
            try:
                os.rmdir(name, dir_fd=folder)
            except FileExistsError as error:  # how some file systems say "not empty"
                raise errors.Busy("remove_dir", path, "the folder is not empty") from error
            except OSError as error:
                raise error_for("remove_dir", path, error, change=True) from error

    def same_volume(self, first: str, second: str) -> bool | None:
        self._may("same_volume", first)
        with (
            self._folders.opened("same_volume", first) as one,
            self._folders.opened("same_volume", second) as other,
            translated("same_volume", first),
        ):
            # The mount as well: rename(2) refuses to cross from a bind mount to its origin, which is the same device.
            return os.fstat(one).st_dev == os.fstat(other).st_dev and mount_of(one) == mount_of(other)

    def server_time(self, folder: str = "") -> float:
        """Writes and removes a scratch file: on NFS the files are stamped by a clock that is not this machine's."""
        self._may("server_time", folder)
        scratch = f"T_{secrets.token_hex(8)}".encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._folders.opened("server_time", folder) as opened, translated("server_time", folder):
            file = os.open(scratch, flags, 0o600, dir_fd=opened)
            try:
                return os.fstat(file).st_mtime
            finally:
                os.close(file)
                with suppress(FileNotFoundError):
                    os.unlink(scratch, dir_fd=opened)

    def free_space(self, folder: str = "") -> int | None:
        self._may("free_space", folder)
        with self._folders.opened("free_space", folder) as opened, translated("free_space", folder):
            about = os.fstatvfs(opened)
            return about.f_bavail * about.f_frsize

    def wait_for_change(self, folder: str, timeout: float) -> None:
        """The first call for a folder begins to watch it and returns at once: nobody knows what happened before."""
        self._may("wait_for_change", folder)
        watch = self._watches.get(folder)
        if watch is not None:
            if not watch.wait(timeout):
                self._watches.pop(folder).close()
            return
        if self.capabilities.notification:
            with self._folders.opened("wait_for_change", folder) as opened, suppress(OSError):
                self._watches[folder] = Watch(opened)
                return
        # The user's inotify instances are used up, or the file system tells nothing: the caller looks at its own pace.
        time.sleep(timeout)

    def close(self) -> None:
        self._open = False
        while self._watches:
            self._watches.popitem()[1].close()

    def _may(self, operation: str, path: str) -> None:
        if not self._open:
            raise errors.Unreachable(operation, path, "the connection was closed")
        checked(operation, path)

    def _rename(self, operation: str, src: str, dst: str, step: Callable[[int, bytes, int, bytes], None]) -> None:
        self._may(operation, src)
        self._may(operation, dst)
        with (
            self._folders.holding(operation, src) as (src_folder, src_name),
            self._folders.holding(operation, dst) as (dst_folder, dst_name),
        ):
            try:
                step(src_folder, src_name, dst_folder, dst_name)
            except FileExistsError as error:
                raise errors.AlreadyExists(operation, dst) from error
            except HalfDone as error:
                raise errors.OutcomeUnknown(operation, src, str(error)) from error
            except OSError as error:
                raise _rename_error(operation, src, dst, error, self.capabilities.server) from error
            if operation != "claim":  # a claim that a power cut undoes is simply not made
                _flush(operation, dst, dst_folder)
                if split(src)[0] != split(dst)[0]:
                    _flush(operation, src, src_folder)

    def _scan(self, folder: str, pattern: str) -> Iterator[Entry]:
        with self._folders.opened("scan", folder) as opened:
            with translated("scan", folder):
                listing = os.scandir(opened)
            with listing:
                while True:
                    with translated("scan", folder):
                        found = next(listing, None)
                        entry = _listed(found, pattern) if found is not None else None
                    if found is None:
                        return
                    if entry is not None:
                        yield entry


def _claim(src_folder: int, src: bytes, dst_folder: int, dst: bytes) -> None:
    os.rename(src, dst, src_dir_fd=src_folder, dst_dir_fd=dst_folder)


def _flush(operation: str, path: str, folder: int) -> None:
    try:
        flush(folder)
    except OSError as error:
        detail = f"done, but not flushed to the disk: {error.strerror}"
        raise errors.OutcomeUnknown(operation, path, detail) from error


def _rename_error(operation: str, src: str, dst: str, error: OSError, server: str) -> errors.TransportError:
    failure = error_for(operation, src, error, change=True)
    if isinstance(failure, errors.CrossVolume):
        detail = f"{src!r} and {dst!r} are on different volumes; all folders of a drop must be on one"
        return errors.CrossVolume(operation, src, detail)
    if isinstance(failure, errors.Denied) and operation == "replace" and "fuse.sshfs" in server:
        advice = "sshfs replaces a file only when it is mounted with -o workaround=rename; or use sftp:// here"
        return errors.Denied(operation, src, f"{failure.detail} ({advice})")
    return failure


def _listed(found: "os.DirEntry[str]", pattern: str) -> Entry | None:
    """What is shown of a directory entry; None for one that does not fit, or is gone already."""
    raw = os.fsencode(found.name)
    name = raw.decode("utf-8", "surrogateescape")  # whatever the locale says
    unsafe = bool(unsafe_because(name))
    if unsafe:
        name = shown(raw)
    if not matches(pattern, name):
        return None
    try:
        about = found.stat(follow_symlinks=False)
    except OSError as error:
        if isinstance(error_for("scan", name, error), errors.NotFound):  # ENOENT, and ESTALE on NFS
            return None
        return Entry(name, Kind.OTHER, None, None)
    entry = _entry(name, about)
    return Entry(name, Kind.OTHER, entry.size, entry.modified) if unsafe else entry


def _entry(name: str, about: os.stat_result) -> Entry:
    kinds = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.FOLDER, stat.S_IFLNK: Kind.LINK}
    return Entry(name, kinds.get(stat.S_IFMT(about.st_mode), Kind.OTHER), about.st_size, about.st_mtime)


def _capabilities(ways: Ways, volume: Volume, longest: int) -> Capabilities:
    return Capabilities(
        server=f"{volume.kind} on {platform.system()} {platform.release()}",
        create=ways.create,
        publish=ways.publish,
        claim=ways.claim,
        replace=ways.replace,
        durable=ways.durable,
        pattern=False,
        notification=volume.tells_changes,
        resume=True,
        longest_name=longest,
        time_resolution=volume.time_step,
    )
