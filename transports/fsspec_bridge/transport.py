"""The bridge itself: the contract over the calls of an fsspec file system."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

from transports import errors
from transports.base import Capabilities, Entry, Fact, Guarantee, Kind, Sink, Source, Transport, check_start
from transports.endpoint import Endpoint
from transports.fsspec_bridge.errors import translated
from transports.fsspec_bridge.files import FsspecSink, FsspecSource
from transports.fsspec_bridge.known import Step, known
from transports.paths import checked, join, shown, split, unsafe_because
from transports.patterns import matches

_LONGEST_NAME = 255  # bytes; no file system tells, and what works here works elsewhere
_TIME_STEP = 1.0  # seconds; object stores stamp in whole ones
_INSTEAD = {"sftp": "sftp://", "ssh": "sftp://", "smb": "smb://"}


def connect_fsspec(endpoint: Endpoint) -> "FsspecTransport":
    """Connects to what `fsspec+<protocol>://` names.

    Raises Unsupported where fsspec has no such protocol or its driver is not installed, NotFound, and ConnectionFailed.
    """
    location = endpoint.location
    protocol = location.protocol
    if protocol in _INSTEAD:
        # Its client accepts every host key, and its renames are not claims.
        detail = f"fsspec's {protocol} is not used, for safety; write the URL with {_INSTEAD[protocol]}"
        raise errors.Unsupported("connect", detail=detail)
    try:
        kind = fsspec.get_filesystem_class(protocol)
    except (ValueError, ImportError) as error:
        raise errors.Unsupported("connect", detail=f"fsspec cannot open '{protocol}': {error}") from error
    authority, _, below = location.path.partition("/")
    options = dict(kind._get_kwargs_from_urls(f"{protocol}://{authority}/"))
    secret = endpoint.password or location.password
    if location.user:
        options["username"] = location.user
    if secret is not None:
        options["password"] = secret.reveal()
    with translated("connect", ""):
        system = kind(**options, skip_instance_cache=True, use_listings_cache=False)
    return FsspecTransport(system, f"/{below}" if "host" in options else kind._strip_protocol(location.path))


class FsspecTransport(Transport):
    """A directory of an fsspec file system. The file system object is the caller's, and may be shared."""

    def __init__(self, system: AbstractFileSystem, root: str) -> None:
        """`root` is a path of that file system, not a URL. Raises NotFound where it is not a folder."""
        self._system: Any = system
        self._root = root.rstrip("/")
        self._open = True
        self._known = known(system)
        with translated("connect", ""):
            found = self._look(root) if self._root else {"type": "directory"}
        if found is None or found["type"] != "directory":
            what = "is not there" if found is None else "is not a folder"
            raise errors.NotFound("connect", detail=f"{root!r} {what}; make the folder first")
        self.capabilities = Capabilities(
            server=f"fsspec {fsspec.__version__}, {type(system).__name__}",
            create=self._known.create,
            publish=self._known.publish_fact,
            claim=self._known.rename_fact,
            replace=self._known.rename_fact,
            durable=Fact(Guarantee.NONE, "fsspec has no call that flushes to stable storage"),
            pattern=False,
            notification=False,
            resume=False,
            longest_name=_LONGEST_NAME,
            time_resolution=_TIME_STEP,
        )

    def create(self, path: str) -> Sink:
        full = self._new("create", path)
        with translated("create", path, change=True):
            return FsspecSink(self._system, full, path, self._system.open(full, self._known.create_mode))

    def resume(self, path: str, at: int, before: bytes = b"") -> Sink:
        self._named("resume", path)
        raise errors.Unsupported("resume", path, "fsspec can only append, or begin anew, and not on every file system")

    def open_read(self, path: str, start: int = 0) -> Source:
        full = self._named("open_read", path)
        with translated("open_read", path):
            found = self._file("open_read", path, full)
            if found["size"] is None:
                raise errors.Unsupported("open_read", path, "this file system does not tell the size of its files")
            check_start(path, start, found["size"])
            source = self._opened(path, full, found["size"], start)
            source.modified = _entry(found).modified
            return source

    def publish(self, src: str, dst: str) -> None:
        source, target = self._named("publish", src), self._named("publish", dst)
        with translated("publish", src, dst, change=True):
            self._file("publish", src, source)
            if self._look(target) is not None:
                raise errors.AlreadyExists("publish", dst)
            self._known.publish(self._system, source, target)

    def claim(self, src: str, dst: str) -> None:
        self._rename("claim", src, dst, self._known.claim)

    def replace(self, src: str, dst: str) -> None:
        self._rename("replace", src, dst, self._known.replace)

    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        """The listing is fetched whole: fsspec has none that streams."""
        full = self._folder("scan", folder)
        with translated("scan", folder):
            listed = [_entry(found) for found in self._listed(full) if found["name"].strip("/") != full.strip("/")]
        return iter([entry for entry in listed if matches(pattern, entry.name)])

    def stat(self, path: str) -> Entry:
        full = self._named("stat", path) if path else self._folder("stat", "")
        if not path:
            return Entry("", Kind.FOLDER, None, None)
        with translated("stat", path):
            return _entry(self._there("stat", path, full))

    def delete(self, path: str) -> None:
        full = self._named("delete", path)
        with translated("delete", path, change=True):
            if _kind(self._there("delete", path, full)) is Kind.FOLDER:
                raise errors.Denied("delete", path, "it is a folder")
            self._system.rm_file(full)

    def make_dir(self, path: str) -> None:
        full = self._new("make_dir", path)
        with translated("make_dir", path, change=True):
            self._system.mkdir(full, create_parents=False)
            if self._look(full) is None:
                raise errors.Unsupported("make_dir", path, "this file system has no empty folders")

    def remove_dir(self, path: str) -> None:
        full = self._named("remove_dir", path)
        with translated("remove_dir", path, change=True):
            if _kind(self._there("remove_dir", path, full)) is not Kind.FOLDER:
                raise errors.NotFound("remove_dir", path, "it is not a folder")
            if self._listed(full):
                raise errors.Busy("remove_dir", path, "the folder is not empty")
            self._system.rmdir(full)

    def same_volume(self, first: str, second: str) -> bool | None:
        folders = self._folder("same_volume", first), self._folder("same_volume", second)
        if not isinstance(self._system, LocalFileSystem):
            return None
        with translated("same_volume", first):
            return os.stat(folders[0]).st_dev == os.stat(folders[1]).st_dev

    def server_time(self, folder: str = "") -> float:
        scratch = join(self._folder("server_time", folder), f"T_{secrets.token_hex(8)}")
        with translated("server_time", folder):
            try:
                with self._system.open(scratch, "wb"):
                    pass
                modified = _seconds(self._system.modified(scratch))
            finally:
                with suppress(FileNotFoundError):
                    self._system.rm_file(scratch)
        if modified is None:
            raise errors.Unsupported("server_time", folder, "this file system does not tell when a file was written")
        return modified

    def free_space(self, folder: str = "") -> int | None:
        self._folder("free_space", folder)
        return None

    def wait_for_change(self, folder: str, timeout: float) -> None:
        self._may("wait_for_change", folder)
        time.sleep(timeout)

    def close(self) -> None:
        self._open = False

    def _may(self, operation: str, path: str) -> None:
        if not self._open:
            raise errors.Unreachable(operation, path, "the connection was closed")
        checked(operation, path)

    def _named(self, operation: str, path: str) -> str:
        """The full path of a name whose folders are there."""
        self._may(operation, path)
        folder, name = split(path)
        if not name:
            raise errors.UnsafePath(operation, path, "the root itself is not to be changed")
        if len(name.encode()) > _LONGEST_NAME:
            raise errors.Unsupported(operation, path, f"a name has {_LONGEST_NAME} bytes at most")
        self._folder(operation, folder, on_behalf_of=path)
        return f"{self._root}/{path}"

    def _opened(self, path: str, full: str, size: int, start: int) -> FsspecSource:
        if self._known.shared_handles:
            return FsspecSource(path, size, None, lambda at, end: bytes(self._system.cat_file(full, at, end)), start)
        file = self._system.open(full, "rb")
        if start:
            file.seek(start)
        return FsspecSource(path, size, file, lambda at, end: bytes(file.read(end - at)), start)

    def _new(self, operation: str, path: str) -> str:
        """As `_named`, for a name that is free."""
        full = self._named(operation, path)
        with translated(operation, path):
            if self._look(full) is not None:
                raise errors.AlreadyExists(operation, path)
        return full

    def _folder(self, operation: str, path: str, on_behalf_of: str | None = None) -> str:
        """The full path of a folder that is there. Links on the way are not followed.

        The root was looked at when the connection was made: an empty one may not exist at all in an object store.
        """
        self._may(operation, path)
        asked = path if on_behalf_of is None else on_behalf_of
        full = self._root
        for segment in path.split("/") if path else ():
            full = f"{full}/{segment}"
            with translated(operation, asked):
                kind = _kind(self._there(operation, asked, full))
            if kind is Kind.LINK:
                raise errors.UnsafePath(operation, asked, f"{segment!r} is a symbolic link, and none is followed")
            if kind is not Kind.FOLDER:
                raise errors.NotFound(operation, asked, f"{segment!r} is not a folder")
        return full

    def _file(self, operation: str, path: str, full: str) -> Any:
        found = self._there(operation, path, full)
        if _kind(found) is not Kind.FILE:
            raise errors.Denied(operation, path, f"it is no file, but: {_kind(found).value}")
        return found

    def _there(self, operation: str, path: str, full: str) -> Any:
        found = self._look(full)
        if found is None:
            raise errors.NotFound(operation, path)
        return found

    def _look(self, full: str) -> Any:
        """What the file system tells of a path; None where nothing is."""
        self._system.invalidate_cache(full)
        try:
            return self._system.info(full)
        except (FileNotFoundError, NotADirectoryError, KeyError):
            pass
        # A dangling link is nothing to `info`, and takes its name all the same.
        is_link = getattr(self._system, "islink", None)
        return {"name": full, "type": "link", "size": None} if is_link is not None and is_link(full) else None

    def _listed(self, full: str) -> list[Any]:
        self._system.invalidate_cache(full)
        try:
            return list(self._system.ls(full, detail=True))
        except (FileNotFoundError, KeyError):
            # Some list, then ask for each: one that vanished between is no reason to see nothing.
            entries = [self._look(name) for name in self._system.ls(full, detail=False)]
            return [entry for entry in entries if entry is not None]

    def _rename(self, operation: str, src: str, dst: str, step: Step) -> None:
        source, target = self._named(operation, src), self._named(operation, dst)
        with translated(operation, src, dst, change=True):
            self._file(operation, src, source)
            taken = self._look(target)
            if taken is not None and _kind(taken) is not Kind.FILE:
                raise errors.Denied(operation, dst, f"it is no file, but: {_kind(taken).value}")
            if source != target:
                step(self._system, source, target)


def _kind(found: Any) -> Kind:
    if found.get("islink"):
        return Kind.LINK
    return {"file": Kind.FILE, "directory": Kind.FOLDER, "link": Kind.LINK}.get(found["type"], Kind.OTHER)


def _entry(found: Any) -> Entry:
    name = found["name"].rstrip("/").rpartition("/")[2]
    kind = _kind(found)
    if unsafe_because(name):
        name, kind = shown(name.encode("utf-8", "surrogateescape")), Kind.OTHER
    modified = next((found[key] for key in ("mtime", "LastModified", "last_modified", "updated") if key in found), None)
    return Entry(name, kind, found.get("size"), _seconds(modified))


def _seconds(moment: object) -> float | None:
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return float(moment) if isinstance(moment, int | float) else None
